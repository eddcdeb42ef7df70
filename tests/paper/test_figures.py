"""What the figures are drawn from."""

from __future__ import annotations

import inspect

import pytest

from polidiff.domains import navigation
from polidiff.explanation import compose
from polidiff.paper.figures import all_figures, figure_chart
from polidiff.paper.figures.graphs import ARROWS, STAGES
from polidiff.paper.figures.plots import WALKERS, outcome_rows, walk
from polidiff.paper.runs import LENGTH, VISITS, parts_of
from polidiff.paper.values import staircase
from polidiff.report.charts.theme import PAPER

RED, BLUE = PAPER.worse, PAPER.current  # the paper's colours of the current policy and of changes


def moves_of(panel):
    """The rows behind the lines of a panel."""
    spec = panel.chart.to_dict()
    lines = [layer for layer in spec["layer"] if layer["mark"]["type"] == "rule"]
    return [row for layer in lines for row in spec["datasets"][layer["data"]["name"]]]


@pytest.fixture(scope="module")
def figures(runs):
    return {figure.number: figure for figure in all_figures(runs, PAPER)}


def test_all_figures_are_drawn_each_with_a_table(figures):
    assert list(figures) == [1, 2, 3, 4, 5, 6, 7, 8]
    for figure in figures.values():
        assert figure.panels
        assert figure.table.rows
        assert all(len(row) == len(figure.table.columns) for row in figure.table.rows)


def test_figure_1_names_the_stages_that_an_explanation_passes(figures, runs):
    source = inspect.getsource(compose.compose) + inspect.getsource(compose.tell_starts)
    called = [
        source.find(f"{STAGES[key].function.__name__}(") for key in ("divergence", "regions", "paths", "verdicts")
    ]
    assert -1 not in called
    assert called == sorted(called)  # in the order in which the arrows lead
    assert source.index("compare(") < called[0]
    assert {key for pair in ARROWS for key in pair} == set(STAGES)
    gave = {title: result for title, _, result, _ in figures[1].table.rows}
    assert (gave["Regions"], gave["Paths"], gave["Explanation"]) == ("s1, s5", "s1 → s5", "3 sentences")


def test_each_plan_of_figure_4_has_as_many_blue_moves_as_changed_states(figures):
    for panel, count in zip(figures[4].panels, (1, 1, 2), strict=True):
        moves = moves_of(panel)
        assert sum(move["c"] == BLUE for move in moves) == count
        assert sum(move["c"] == RED for move in moves) == 11 - count


def test_moves_of_the_current_policy_are_red_in_figure_2_and_those_of_the_proposed_one_blue(figures):
    for panel, color in zip(figures[2].panels[1:], (RED, BLUE), strict=True):
        assert [move["c"] for move in moves_of(panel)].count(color) == 11  # the others are moves not made


def test_one_arrow_of_the_definition_stands_for_each_move(figures):
    # 11 states that move, three of them (s1, s5, s8) in two ways
    assert len(moves_of(figures[7].panels[0])) == 14


@pytest.mark.parametrize(
    ("policy", "changed"), [(navigation.current, 0), (navigation.proposed_1, 2), (navigation.proposed_2, 3)]
)
def test_walks_change_the_decisions_that_are_counted(policy, changed):
    steps = walk(policy)
    assert sum(step["k"] == "changed" for step in steps) == changed * len(WALKERS)
    assert sum(step["x2"] > 0.95 for step in steps) == len(WALKERS)


def test_figure_3_shows_every_start_under_both_policies(runs):
    for outcome in (LENGTH, VISITS):
        for bootstrap in (False, True):
            rows = outcome_rows(runs.exploring, outcome, bootstrap=bootstrap)
            assert {(row["p"], row["s"]) for row in rows} == {
                (policy, f"s{start}") for policy in ("current", "proposed") for start in range(11)
            }


def test_figure_6_misses_what_the_readings_miss(figures):
    missed = {(task, method): misses for task, method, _, misses in figures[6].table.rows}
    assert missed["chain", "PI, all states"] == "2, 6"
    assert missed["chain", "PI, largest gain"] == "2"
    assert missed["navigation", "PI, all states"] == "1, 2"
    assert missed["navigation", "PI, largest gain"] == "none"


def test_the_task_of_figure_2_names_the_actions_of_every_move(figures):
    spec = figures[2].panels[0].chart.to_dict()
    texts = [layer for layer in spec["layer"] if layer["mark"]["type"] == "text"]
    labels = [row["t"] for row in spec["datasets"][texts[-1]["data"]["name"]]]
    assert sorted(labels) == ["0"] * 3 + ["0,1"] * 8 + ["1"] * 3


def test_policy_iteration_has_no_line_that_could_run_above_the_staircase(figures):
    for panel in figures[6].panels:
        lines = [layer for layer in panel.chart.to_dict()["layer"] if layer["mark"]["type"] == "line"]
        assert len(lines) == 1
        assert "this method" in str(lines[0]["transform"])


def test_start_and_goal_are_rectangles_of_the_walks(figures):
    for number in (5, 8):
        for panel in figures[number].panels:
            spec = panel.chart.to_dict()
            boxes = [layer for layer in spec["layer"] if layer["mark"].get("stroke") == PAPER.ink]
            edges = [spec["datasets"][box["data"]["name"]][0] for box in boxes]
            assert [(box["x"], box["x2"]) for box in edges] == [(0.0, 0.1), (navigation.GOAL_X, 1.08)]


def test_charts_are_valid(figures):
    for figure in figures.values():
        assert figure_chart(figure, PAPER).to_dict()["description"] == figure.summary


def test_the_area_of_a_staircase_counts_the_best_so_far():
    assert staircase([(0.0, 0.0), (1.0, 2.0), (2.0, 1.0)], 4.0) == 6.0


def test_a_patch_of_three_edits_has_seven_parts(runs):
    assert len(parts_of(runs.navigation.frontier.best.patch)) == 7
