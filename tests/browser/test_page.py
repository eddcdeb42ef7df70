"""The page in a real browser, opened from disk with the network off."""

from __future__ import annotations

import base64
import re

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from polidiff.records.numbers import number
from tests.browser.conftest import axe_findings, wait_for
from tests.report import extremes, samples

pytestmark = pytest.mark.browser

STATE = """
const text = (s) => Array.from(document.querySelectorAll(s), (e) => e.textContent);
const mark = (id) => { const e = document.querySelector(id + ' svg'); return e ? e.innerHTML : ''; };
return {
  number: document.getElementById('plan-number').textContent,
  cards: text('#plan-cards strong'),
  changes: text('#plan-changes li'),
  outcomes: text('#twin-plan-outcomes tbody tr'),
  boxes: document.querySelectorAll('#chart-plan-boxes .mark-rect path').length,
  frontier: mark('#chart-plans'), effect: mark('#chart-plan-outcomes'), adoption: mark('#chart-plan-adoption'),
  spoken: document.getElementById('slider').getAttribute('aria-valuetext'),
};
"""


def assert_quiet(driver):
    assert [entry["message"] for entry in driver.get_log("browser")] == []


def assert_shows(driver, plan, place):
    state = driver.execute_script(STATE)
    assert state["number"] == str(place)
    assert state["cards"][0] == number(plan.changes)
    assert state["cards"][1] == number(plan.expected_return, 6)
    assert len(state["changes"]) == len(plan.patch)
    assert state["boxes"] == len(plan.patch)
    assert number(plan.outcomes["return"].estimate) in state["outcomes"][0]
    assert number(plan.expected_return, 6) in state["spoken"]
    return state


def test_the_page_opens_from_disk_without_a_network_and_without_complaint(show):
    driver = show(samples.plain(), samples.frontier())
    assert driver.title == "What the proposed policy changes"
    charts = driver.execute_script(
        "return Array.from(document.querySelectorAll('.chart:not(#reviewers .chart)'), "
        "(c) => c.querySelectorAll('svg path').length)"
    )
    assert len(charts) >= 10
    assert min(charts) > 0
    asked = driver.execute_script("return performance.getEntriesByType('resource').map((e) => e.name)")
    assert [name for name in asked if not name.startswith("data:")] == []
    assert_quiet(driver)


def test_names_that_javascript_has_taken_are_drawn_like_any_other(show):
    marks = (
        "return Array.from(document.querySelectorAll('.chart'), (c) => [c.id, c.querySelectorAll('svg path').length])"
    )
    plain = show(samples.plain()).execute_script(marks)
    actions = {"N": "constructor", "E": "toString", "S": "valueOf", "W": "hasOwnProperty"}
    outcomes = {"return": "constructor", "length": "__proto__", "stay in the middle band": "toString"}
    driver = show(extremes.rename(samples.plain(), {"x": "isPrototypeOf", "y": "valueOf"}, actions, outcomes))
    assert driver.execute_script(marks) == plain
    assert_quiet(driver)


def test_arrow_keys_move_plan_sentences_regions_outcomes_and_charts_together(show):
    frontier = samples.frontier()
    driver = show(samples.plain(), frontier)
    slider = driver.find_element(By.ID, "slider")
    before = assert_shows(driver, frontier[2], 2)  # the page opens on the knee
    for place in (1, 0):
        slider.send_keys(Keys.ARROW_LEFT)
        after = assert_shows(driver, frontier[place], place)
        for chart in ("frontier", "effect", "adoption"):
            assert after[chart] != before[chart], (place, chart)
        before = after
    assert driver.find_element(By.ID, "plan-nothing").is_displayed()
    slider.send_keys(Keys.END)
    assert_shows(driver, frontier[3], 3)
    assert_quiet(driver)


def test_the_mouse_moves_the_slider_and_a_dot_of_the_chart_picks_its_plan(show):
    frontier = samples.frontier()
    driver = show(frontier)
    driver.execute_script("document.documentElement.style.scrollBehavior = 'auto'")
    slider = driver.find_element(By.ID, "slider")
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", slider)
    half = slider.size["width"] / 2
    ActionChains(driver).move_to_element_with_offset(slider, int(-half + 5), 0).click().perform()
    assert_shows(driver, frontier[0], 0)
    driver.find_element(By.ID, "more").click()
    assert_shows(driver, frontier[1], 1)
    dots = driver.execute_script(
        "return Array.from(document.querySelectorAll('#chart-plans g.mark-symbol'))"
        ".map((group) => group.querySelectorAll('path'))"
        f".find((paths) => paths.length === {len(frontier)})"
    )
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", dots[2])
    ActionChains(driver).move_to_element(dots[2]).click().perform()
    assert_shows(driver, frontier[2], 2)


def test_every_figure_has_a_text_twin_that_opens_by_keyboard(show):
    driver = show(samples.plain(), samples.frontier())
    driver.find_element(By.CSS_SELECTOR, "#reviewers > summary").send_keys(Keys.ENTER)
    own = ":not(#figure-plans):not(#figure-regions)"  # the page's tables of plans and of regions are theirs
    figures = driver.find_elements(By.CSS_SELECTOR, f"figure{own}")
    for figure in figures:
        summary = figure.find_element(By.CSS_SELECTOR, "details.twin > summary")
        rows = figure.find_elements(By.CSS_SELECTOR, "details.twin tbody tr")
        assert rows, figure.get_attribute("id")
        if not rows[0].is_displayed():
            summary.send_keys(Keys.ENTER)
        assert rows[0].is_displayed()


def test_another_pair_of_features_is_drawn_on_demand(show):
    driver = show(samples.plain())
    count = "return document.querySelectorAll('#chart-regions .mark-rect path').length"
    before = driver.execute_script(count)
    driver.find_element(By.CSS_SELECTOR, "select[data-figure=regions]").send_keys(Keys.ARROW_DOWN)
    wait_for(driver, f"{count} < {before} - 100")
    assert_quiet(driver)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (390, "light")])  # each width, each scheme
def test_axe_finds_no_violation(show, width, scheme):
    driver = show(samples.plain(), samples.frontier(), width=width, scheme=scheme)
    assert axe_findings(driver) == []


@pytest.mark.parametrize("width", [1280, 390, 320])
@pytest.mark.parametrize("made", [samples.plain, extremes.hostile, samples.chain])
def test_nothing_sticks_out_of_the_window(show, width, made):
    driver = show(made(), width=width)
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_follow_the_colour_scheme(show, scheme):
    driver = show(samples.plain(), scheme=scheme)
    fill = driver.execute_script(
        "return getComputedStyle(document.querySelector('#chart-regions .role-axis-title text')).fill"
    )
    light = sum(int(part) for part in re.findall(r"\d+", fill)[:3]) / 3
    assert (light > 128) == (scheme == "dark")


def test_on_paper_the_page_is_light_and_no_figure_is_cut(show):
    driver = show(samples.plain(), samples.frontier(), scheme="dark")
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 690, "height": 980, "deviceScaleFactor": 1, "mobile": False}
    )
    boxes = driver.execute_script(
        "return Array.from(document.querySelectorAll('figure, figure svg'), (f) => {"
        "const b = f.getBoundingClientRect(); return [b.left, b.right, b.height, getComputedStyle(f).breakInside]; })"
    )
    assert boxes
    for left, right, height, _ in boxes:
        assert left >= -1
        assert right <= 691
        assert height < 900
    assert {kind for *_, kind in boxes[::1] if kind != "auto"} == {"avoid"}
    assert driver.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not driver.find_element(By.CSS_SELECTOR, "nav").is_displayed()
    pdf = base64.b64decode(driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
    assert pdf.startswith(b"%PDF")


def test_hostile_names_are_shown_and_no_script_runs(show):
    driver = show(extremes.hostile(), extremes.hostile_frontier())
    slider = driver.find_element(By.ID, "slider")
    slider.send_keys(Keys.HOME)
    slider.send_keys(Keys.ARROW_RIGHT)
    assert driver.execute_script("return window.hacked") is None
    text = driver.find_element(By.TAG_NAME, "body").text
    assert "<script>window.hacked=1</script>" in text
    assert '"><img src=x onerror="window.hacked=1">' in text
    assert driver.find_elements(By.CSS_SELECTOR, "img") == []
    dots = driver.find_elements(By.CSS_SELECTOR, "#chart-plans .mark-symbol path")
    ActionChains(driver).move_to_element(dots[0]).perform()
    assert driver.execute_script("return window.hacked") is None
    assert_quiet(driver)


def test_the_content_policy_stops_a_script_that_gets_in(show):
    driver = show(samples.plain())
    driver.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.hacked = 1'; document.body.append(s);"
    )
    assert driver.execute_script("return window.hacked") is None


def test_a_large_result_answers_the_slider_within_a_tenth_of_a_second(show):
    driver = show(extremes.huge(), extremes.huge_frontier())
    times = driver.execute_script(
        """
        const slider = document.getElementById('slider');
        const times = [];
        for (const at of [0, 399, 200, 100, 300, 50, 350, 10, 390, 250, 150]) {
          slider.value = at;
          const began = performance.now();
          slider.dispatchEvent(new Event('input'));
          document.body.getBoundingClientRect();
          times.push(performance.now() - began);
        }
        return times;
        """
    )
    assert sorted(times)[len(times) // 2] < 100, times
    assert len(driver.find_elements(By.CSS_SELECTOR, "#plan-changes li")) > 10


def test_guards_that_a_reader_types_leave_the_plans_that_keep_them(show):
    driver = show(samples.frontier())
    guards = driver.find_element(By.ID, "guards")
    shown = "return Array.from(document.querySelectorAll('#plan-table tbody tr'), (r) => r.hidden)"
    guards.send_keys("return >= 14; 'stay in the middle band' >= current - 6")
    assert driver.execute_script(shown) == [True, False, False, True]
    assert driver.find_element(By.ID, "guards-said").text == "2 of 4 plans keep this, by their estimates."
    guards.clear()
    guards.send_keys("changes <= 1")
    assert driver.execute_script(shown) == [False, False, True, True]
    assert driver.find_element(By.ID, "plan-number").text == "1"  # the nearest plan that keeps it
    guards.clear()
    guards.send_keys("mortality < 3")
    assert "Not understood: mortality < 3" in driver.find_element(By.ID, "guards-said").text


def test_any_outcome_can_be_drawn_against_any_other(show):
    from selenium.webdriver.support.select import Select

    driver = show(samples.frontier())
    Select(driver.find_element(By.ID, "axis-x")).select_by_visible_text("stay in the middle band")
    Select(driver.find_element(By.ID, "axis-y")).select_by_visible_text("length")
    titles = "return Array.from(document.querySelectorAll('#chart-plans .role-axis-title text'), (t) => t.textContent)"
    wait_for(driver, f"{titles.replace('return ', 'return JSON.stringify(', 1)}).includes('middle band')")
    assert set(driver.execute_script(titles)) == {"stay in the middle band", "length"}
    assert_quiet(driver)


def test_a_long_table_can_be_searched(show):
    driver = show(extremes.huge())
    search = driver.find_element(By.CSS_SELECTOR, "#where > .search input")
    table = "document.querySelector('#where > .search').nextElementSibling"
    rows = f"return Array.from({table}.querySelectorAll('tbody tr'))"
    count = f"{rows}.filter((r) => !r.hidden).length"
    before = driver.execute_script(count)
    first = driver.execute_script(f"{rows}[0].querySelector('th').textContent")
    search.send_keys(first)
    assert 1 <= driver.execute_script(count) < before
