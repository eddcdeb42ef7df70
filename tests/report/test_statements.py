"""What a page says, asked of random results: counts, signs, plurals, runs, lists and who loses.

`docs/evidence/report.md` has the table of sentences and the tests that would catch each of them false.
"""

from __future__ import annotations

import html
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polidiff import TabularMDP, check, explain, improve
from polidiff.explanation.plan_text import change_texts, knee_text, plan_verdicts
from polidiff.explanation.region_places import outside, places_told
from polidiff.explanation.text import sentence_text
from polidiff.explanation.verdict_words import verdicts_text
from polidiff.explanation.words import MOST_NAMED, few, in_order, names_text, rule_text
from polidiff.records.explanation import Explanation, Sentence, Support, WorseOff
from polidiff.records.outcome import Interval
from polidiff.records.plan import Frontier, PlanRule
from polidiff.records.rule import Condition, Rule, covers_any, first_match, overlap
from polidiff.records.suppression import suppressed
from polidiff.report.charts.frontier import plan_box_rows
from polidiff.report.charts.outcomes import layout, node_rows
from polidiff.report.figures import NOT_IN_IT
from polidiff.report.markdown import markdown
from polidiff.report.page import page_html
from polidiff.report.plans import TWO_GAINS, plan_sentences
from polidiff.report.tables import regions_table, tails_table
from polidiff.report.view import further_outcomes, outcome_cards, sentence_views, support_text
from tests.report import samples
from tests.results import COMMON, FEW, KINDS, RARE, explanation, frontier, one_of_few, page_of

SEEDS = st.integers(0, 10_000)
NOUNS = "rules|groups|episodes|starts|states|decisions|plans|changes|caveats|outcomes|people|comparisons|regions"


def said(page: str) -> str:
    """The words of a page, without its scripts, its style and its marks."""
    body = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.S)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", body)))


@settings(max_examples=48)
@given(FEW, st.booleans())
def test_what_a_page_says_is_said_rightly_and_denied_by_nothing(seed, plans):
    page = page_of(seed, plans)
    words, shown = said(page), suppressed(one_of_few(seed, plans))
    assert re.findall(rf"(?<![\d.,\u202f])1 (?:{NOUNS})\b", words) == []
    assert re.findall(r"\b(?:better|worse) by [−+-]", words) == []
    if isinstance(shown, Explanation):
        verdicts = [*shown.verdicts, *(v for sentence in shown.sentences for v in sentence.verdicts)]
        if any(verdict.valence == "worse" for verdict in verdicts) or shown.worse_off:
            assert "No group is shown to lose" not in words
        assert set(re.findall(r"<b>(S\d+)</b>", page)) <= {region.id for region in shown.regions}


STRETCHES = st.lists(
    st.builds(
        lambda first, step, most: [first + step * k for k in range(most)], *map(st.integers, (0, 1, 1), (30, 3, 6))
    ),
    min_size=1,
    max_size=4,
)  # in steps of one, two or three: only the first are neighbours


@given(STRETCHES)
def test_a_run_of_names_stands_for_neighbours_and_nothing_is_left_out(stretches):
    numbers = list(dict.fromkeys(number for stretch in stretches for number in stretch))
    text = names_text([f"s{number}" for number in numbers])
    told = 0
    for part in re.split(r", | or ", text):
        if run := re.fullmatch(r"s(\d+) … s(\d+)", part):
            first, last = int(run[1]), int(run[2])
            assert set(range(first, last + 1)) <= set(numbers)
            told += last - first + 1
        elif more := re.fullmatch(r"(\d+) more", part):
            told += int(more[1])
        else:
            assert int(part[1:]) in numbers
            told += 1
    assert told == len(numbers)


@given(st.integers(1, 60))
def test_a_sentence_lists_at_most_seven_things(count):
    assert len(re.split(r", | and ", few([f"n{k}" for k in range(count)]))) <= MOST_NAMED
    base = samples.plain()
    outcomes = [replace(base.outcomes[0], name=f"o{k}", more=None, less=None) for k in range(count)]
    verdicts = [replace(base.verdicts[0], outcome=f"o{k}") for k in range(count)]
    text = verdicts_text(verdicts, outcomes)
    assert len(re.findall(r"more o\d", text)) + ("more outcome" in text) <= MOST_NAMED
    rest = re.search(r"and (\d+) more outcomes?$", text)
    assert len(re.findall(r"more o\d", text)) + (int(rest[1]) if rest else 0) == count


@given(FEW)
def test_the_plan_that_a_page_opens_on_gains_and_costs_no_more_than_the_best(seed):
    record: Frontier = suppressed(one_of_few(seed, True))
    knee, best, nothing = record.knee, record.best, record.plans[0]
    assert record.cost(knee) <= record.cost(best) or knee is best
    if knee is not nothing:
        shown = knee.gain.low if record.judged else knee.expected_return - nothing.expected_return
        assert shown > 0
    if best is nothing:
        assert knee is nothing
        assert "No change is worth it on this evidence" in said(page_of(seed, True))


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.sampled_from(KINDS))
def test_what_a_plan_does_is_better_or_worse_by_its_interval_only(seed, kind):
    record: Frontier = frontier(seed, kind)
    preferred = {outcome.name: outcome for outcome in record.outcomes}
    for plan in record.plans:
        for verdict in plan_verdicts(record, plan):
            outcome = preferred.get(verdict.outcome)
            if verdict.direction == "more":
                assert verdict.difference.low > 0
            if verdict.direction == "less":
                assert verdict.difference.high < 0
            assert verdict.valence == (outcome.valence(verdict.direction) if outcome else None)


def test_the_first_screen_of_plans_answers_for_the_plan_that_the_slider_shows():
    record = samples.frontier()
    assert record.knee is record.plans[2]  # two changes: 21.9895; the third adds 0.001
    words = said(page_html(record))
    assert "Weigh plan 2: it is better on " in words
    assert "the first 2 of 3 changed decisions per episode add 12 to return, the rest 0.001." in words
    assert "Plan 2 of 3" in words


def test_what_further_changes_pay_has_no_more_places_than_what_the_first_pay():
    record = samples.frontier()
    last = replace(record.plans[-1], expected_return=record.plans[2].expected_return + 0.08193)
    assert knee_text(replace(record, plans=(*record.plans[:-1], last))).endswith("add 12 to return, the rest 0.08.")


def test_nothing_empty_is_shown():
    base: Explanation = samples.plain()
    same = replace(base, regions=(), sentences=(), worse_off=(), tails=(), pictures=(), warnings=(), changes=0.0,
                   verdicts=base.sentences[2].verdicts)  # fmt: skip
    page = page_html(same)
    assert re.findall(r"<h2 id=[^>]*>([^<]*)</h2>", page) == ["Method"]
    assert "Details for reviewers" in page


@given(SEEDS)
def test_a_region_read_alone_is_where_the_first_that_fits_is_it(seed):
    regions = explanation(seed, "simulator").regions
    rules, ids = [region.rule for region in regions], [region.id for region in regions]
    towns = [COMMON[0], COMMON[3], RARE[0]]
    states = np.array([[age, town] for age in (0.1, 0.3, 0.6, 0.9) for town in towns], dtype=object)
    first = first_match(rules, states)
    for k, behind in enumerate(outside(regions).values()):
        others = [rules[ids.index(name)] for name in re.findall(r"S\d", behind.replace("S1 … S3", "S1 S2 S3"))]
        alone = rules[k].covers(states) & ~covers_any(others, states)
        assert alone.tolist() == (first == k).tolist()


@given(SEEDS)
def test_a_number_in_a_sentence_is_that_of_a_place_told_there_or_said_to_be_told_below(seed):
    regions = explanation(seed, "simulator").regions
    for told in (
        [region.id for region in regions],
        [region.id for region in regions[-1:]],
        [region.id for region in regions[1:]],
    ):
        if not told:
            continue
        for place in places_told(told, regions).values():
            given = set(re.findall(r"\((S\d+)\)", " ".join(places_told(told, regions).values())))
            asked = re.search(r"outside (.*)", place)
            if asked and "told below" not in place:
                assert set(re.findall(r"S\d+", asked[1].replace("S1 … S3", "S1 S2 S3"))) <= given


@given(SEEDS)
def test_a_rule_without_otherwise_overlaps_no_rule_before_it(seed):
    rules = [region.rule for region in explanation(seed, "simulator").regions]
    rules += [Rule()] * (seed % 3)
    for k, text in enumerate(in_order(rules, [f"{rule_text(rule)}: go" for rule in rules])):
        later = any(overlap(rules[k], earlier) for earlier in rules[:k])
        assert text.startswith(("otherwise, ", "everywhere else: ")) == later
        assert ("everywhere else" in text) == (later and not rules[k].conditions)
        assert "otherwise, everywhere" not in text


@given(SEEDS)
def test_starts_from_which_nothing_changes_are_not_told_as_unknown(seed):
    record = explanation(seed, "simulator")
    none = Interval(0.0, -1.0, 1.0, 0.95)  # of episodes that all ended alike
    verdicts = tuple(replace(v, direction="unknown", valence=None, difference=none) for v in record.verdicts)
    calm = Sentence(None, 1.0, (), 1.0, verdicts, Support(9, 90, 1.0))
    record = replace(record, sentences=(calm,))
    text = sentence_text(record, calm)
    if record.regions:
        assert text.startswith("From any start, the two policies act the same")
        assert sentence_views(record)[0].chips == ()


def test_a_page_of_two_sets_of_data_says_so_and_tells_what_each_rests_on():
    told = samples.from_log()
    told = replace(told, world=replace(told.world, facts={**told.world.facts, "episodes": 1500}))
    resting = replace(samples.frontier().best, rests_on="Rests on 12 000 episodes. Fragile.")
    plans = samples.frontier()
    plans = replace(plans, plans=(*plans.plans[:-1], resting), world=replace(told.world, facts={"episodes": 12_000}))
    page = page_html(told, plans)
    assert "are of different data (1500 episodes and 12\u202f000 episodes)" in page
    same = page_html(told, replace(plans, world=told.world))
    assert "are of different data" not in same
    assert "Rests on 12 000 episodes" in page


def test_no_list_ends_in_silence():
    base = samples.plain()
    rules = [Rule((Condition("x", 0, low=float(k), high=k + 1.0),)) for k in range(150)]
    losing = tuple(WorseOff("length", rule, 0.002, Interval.exactly(1.0)) for rule in rules)
    record = replace(base, verdicts=(), sentences=(), worse_off=losing)
    for text, marks in ((str(record), r"• starts where"), (markdown(record), r"- starts where")):
        told = len(re.findall(marks, text))
        assert f"and {150 - told} more, in the JSON file" in text
    page = page_html(record).split("<main")[1].split("<script")[0]
    told = len(re.findall(r"<bdi>starts where", page.split('id="worse"')[1].split("</section>")[0]))
    assert f"<li>and {150 - told} more, in the JSON file</li>" in page
    assert "<summary>145 more</summary>" in page


def test_the_ledger_of_a_page_names_its_plan():
    words = said(page_html(samples.frontier()))
    assert "What each change is worth in plan 3" in words


def test_the_ledger_of_a_page_says_that_some_changes_are_not_in_its_plan():
    frontier = samples.frontier()
    names = tuple(entry.change for entry in frontier.ledger.entries)
    for order in (names, names[:-1]):
        ledger = replace(frontier.ledger, order=order, running=(1.0,) * len(order))
        assert (NOT_IN_IT in said(page_html(replace(frontier, ledger=ledger)))) == (order != names)


def test_a_table_made_from_an_environment_says_that_its_step_limit_is_not_in_it():
    gymnasium = pytest.importorskip("gymnasium")
    limited = TabularMDP.from_gymnasium("FrozenLake-v1")
    free = TabularMDP.from_gymnasium(gymnasium.make("FrozenLake-v1").unwrapped)
    for world, told in ((limited, True), (free, False)):
        notes = explain(world, "always:left", "always:down").warnings
        assert any("stops after 100 steps" in note for note in notes) == told


@pytest.mark.parametrize("discount", [0.5, 1.0])
def test_changes_are_called_discounted_where_they_are_counted_so(discount):
    moves, paid = np.zeros((6, 2, 6)), np.zeros((6, 2))
    moves[np.arange(5), :, np.arange(1, 6)], paid[:, 1] = 1, 1
    world = TabularMDP(moves, paid, np.eye(6)[0], absorbing=[5], discount=discount)
    told, plans = explain(world, [0] * 6, [1] * 6), improve(world, [0] * 6, budget=1.6)
    assert told.changes == pytest.approx(sum(discount**t for t in range(5)))
    unit = "discounted changed decisions per episode" if discount < 1 else "changed decisions per episode"
    assert check(told, max_changes=2).checked[0] == f"at most 2 {unit}"
    for record in (told, plans):
        page = said(page_html(record))
        assert unit in page
        assert ("discounted" in page) == (discount < 1)
    short = "discounted changes per episode" if discount < 1 else "changes per episode"
    head, _, table, *_ = str(plans).splitlines()
    assert f"within 1.6 {short}:" in head
    assert table.split("  return")[0].removeprefix("plan").strip() == short


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_what_stands_behind_a_region_is_what_was_counted(seed):
    """States of a table are not starts; a simulator's visits are not states; rows are told of regions of a log only."""
    for kind in ("table", "simulator", "log"):
        record = suppressed(explanation(seed, kind))
        for region, row in zip(record.regions, regions_table(record).rows, strict=True):
            numbers = {
                "table": [region.support.states],
                "simulator": [region.support.episodes],
                "log": [region.support.episodes] + [region.support.states] * (not record.world.one_step),
            }[kind]
            behind = support_text(region.support, record.world, rows=True)
            assert behind in row
            assert ("start" in behind) is False
            counts = re.findall(r"(?<![\w.])\d[\d\u202f]*(?= [a-z])", behind)
            assert [int(count.replace("\u202f", "")) for count in counts] == numbers


@settings(max_examples=20, deadline=None)
@given(SEEDS)
def test_the_moves_of_a_small_table_are_those_of_each_policy(seed):
    """From every state they are its own, and make one: a move that both make may differ in its chance."""
    rng = np.random.default_rng(seed)
    steps = rng.random((5, 2, 5)) * (rng.random((5, 2, 5)) < 0.6)
    steps[:, :, 4] += 0.1
    steps /= steps.sum(axis=2, keepdims=True)
    world = TabularMDP(steps, rng.random((5, 2)), np.array([0.25] * 4 + [0.0]), absorbing=[4])
    policies = {"current": [0] * 5, "proposed": rng.integers(0, 2, 5).tolist()}
    told = explain(world, *policies.values()).graph
    for policy, actions in policies.items():
        for s, action in enumerate(actions[:4]):
            own = {a.target: a.probability for a in told if a.source == f"s{s}" and a.policy in (policy, "both")}
            expected = {f"s{t}": p for t, p in enumerate(steps[s, action]) if p > 0}
            assert own == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(3))
def test_a_cell_of_a_picture_is_coloured_by_where_most_of_its_visits_lie(seed):
    """Grey: more visits lie outside all regions than in any of them; colour: more in this one than anywhere else."""
    rng = np.random.default_rng(seed)
    features = rng.integers(0, 60, (40, 2)) / 7
    steps = rng.dirichlet(np.full(40, 0.2), size=(40, 2)) * 0.8
    steps[:, :, -1] += 0.2
    world = TabularMDP(steps, rng.random((40, 2)), np.r_[np.full(39, 1 / 39), 0], absorbing=[39], features=features)
    told = explain(world, np.zeros(40, int), ((features[:, 0] < 4) & (features[:, 1] > 3)).astype(int))
    for picture in told.pictures:
        assert sum(cell.visits for cell in picture.cells) == pytest.approx(1)
        for cell in picture.cells:
            place, masses = picture.place(cell), dict.fromkeys([None, *(region.id for region in told.regions)], 0.0)
            for state in told.sample:
                row = {
                    feature.name: np.array([v]) for feature, v in zip(told.world.features, state.values, strict=True)
                }
                if place.covers(row)[0]:
                    first = next((region.id for region in told.regions if region.rule.covers(row)[0]), None)
                    masses[first] += state.share
            assert sum(masses.values()) == pytest.approx(cell.visits, rel=0.1)  # a sample weighs what judges the rules
            assert masses[cell.region] >= 0.9 * max(masses.values())
    assert not told.pictures or "Grey: visits mostly outside all regions." in said(page_html(told))


def test_states_where_a_change_makes_no_difference_are_not_drawn_as_different():
    steps = np.zeros((6, 2, 6))
    steps[np.arange(5), :, np.arange(1, 6)] = 1
    steps[2, 1] = np.eye(6)[4]
    world = TabularMDP(steps, np.ones((6, 2)), np.eye(6)[0], absorbing=[5])
    told = explain(world, [0] * 6, [1] * 6)
    drawn = {row["n"] for row in node_rows(told, layout(told.graph)) if row["d"] == "differs"}
    assert drawn == {state for region in told.regions for state in region.states} == {"s2"}
    assert "Orange: the states of the regions below." in said(page_html(told))


@given(st.integers(1, 20))
def test_outcomes_with_a_card_and_those_counted_beside_them_are_all(count):
    base = samples.plain()
    outcomes = tuple(replace(base.outcomes[0], name=f"o{k}") for k in range(count))
    verdicts = tuple(replace(base.verdicts[0], outcome=outcome.name) for outcome in outcomes)
    record = replace(base, outcomes=outcomes, verdicts=verdicts)
    rest = re.match(r"\d+", further_outcomes(record))
    assert len(outcome_cards(record)) + int(rest[0] if rest else 0) == count


def test_the_worst_tenth_is_told_where_some_starts_are_worse_off():
    base = samples.plain()
    assert len(tails_table(base).rows) == 2
    calm = replace(base, tails=tuple(replace(tail, share_worse=0.0) for tail in base.tails))
    assert tails_table(calm).rows == ()
    assert "Who would be worse off" not in page_html(replace(calm, worse_off=(), verdicts=(), sentences=()))


def test_two_gains_of_one_plan_are_explained_where_they_differ_only():
    base, record = samples.plain(), replace(samples.frontier(), objective="return")
    for gain in (12.001, 11.0):
        plan = replace(record.plans[2], gain=Interval(gain, gain - 0.25, gain + 0.25, 0.95), _explain=lambda: base)
        assert (TWO_GAINS in plan_sentences(plan, record)) == (gain != 12.001)


def test_a_rule_that_changes_nothing_is_told_and_drawn_so():
    """Everywhere but in one box: the box is drawn on top, as a place where nothing changes."""
    base = samples.frontier()
    back = PlanRule(samples.box((0.0, 0.2), (0.0, 0.2)), "keep", 1.0, 0.0, 1.0)
    acts = PlanRule(Rule(()), "north", 1.0, 1.0, 1.0)
    plan = replace(base.plans[-1], rules=(back, acts), patch=replace(base.plans[-1].patch, edits=()))
    spans = ((0.0, 1.0), (0.0, 1.0))
    rows = plan_box_rows(plan, ("x", "y"), spans, change_texts(plan), ("S1", ""))
    assert [(row["f"], row["n"]) for row in rows] == [("changes", ""), ("stays", "S1: nothing changes")]
    assert change_texts(plan) == ("nothing changes where 0 ≤ x < 0.2 and 0 ≤ y < 0.2", "north everywhere else")
    named = replace(plan, rules=(replace(back, changes=0.3), acts))  # an action that is called "keep"
    assert change_texts(named)[0].startswith("keep where")
