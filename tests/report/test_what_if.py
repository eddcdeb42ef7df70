"""What changes in a box: shares and regions are those that a plain loop over the visited states finds."""

from __future__ import annotations

import operator
from dataclasses import replace
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from polidiff.divergence import Divergence
from polidiff.explanation.pictures import pictures_of
from polidiff.records.explanation import Explanation, Feature, SampledState
from polidiff.records.numbers import percent
from polidiff.records.parse import parse_rule
from polidiff.records.rule import Condition, Rule, first_match, overlap
from polidiff.records.suppression import suppressed
from polidiff.report.answers import answered, meetings, share_inside
from tests.results import explanation

NAMES = ("x", "y", "z")
GRIDS = ((0.0, 1.0, 2.0), (0.0, 1.0), (1.0, 3.0, 5.0), (-0.2, 0.1, 0.4), (7.5,))  # a cell for each value
UNEVEN = (0.0, 0.7, 10.0)  # cells of several values may be cut
OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq}
Asked = list[tuple[int, str, float]]  # feature, comparison, number


def bounds(grid: tuple[float, ...]) -> st.SearchStrategy[float]:
    """Values, and numbers between, below and above them."""
    between = [(a + b) / 2 for a, b in pairwise(grid)]
    return st.sampled_from([*grid, *between, grid[0] - 1, grid[-1] + 1])


@st.composite
def studies(draw: st.DrawFn, wide: int = 2) -> tuple[Explanation, np.ndarray, np.ndarray, Asked]:
    """A result without what it holds of visits, visited states with their shares, and a box."""
    grids = [draw(st.sampled_from((*GRIDS, UNEVEN))) for _ in range(wide)]
    values = st.tuples(*(st.sampled_from(grid) for grid in grids))
    states = np.array(draw(st.lists(values, min_size=1, max_size=9, unique=True)))
    counts = np.array(draw(st.lists(st.integers(1, 9), min_size=len(states), max_size=len(states))), dtype=float)
    record, rules = explanation(draw(st.integers(0, 30)), "table"), []
    for _ in range(draw(st.integers(1, 3))):
        ends = [(k, sorted(draw(st.tuples(bounds(grid), bounds(grid))))) for k, grid in enumerate(grids)]
        chosen = [(k, low, high) for k, (low, high) in ends if low < high and draw(st.booleans())]
        rules.append(Rule(tuple(Condition(NAMES[k], k, low, high) for k, low, high in chosen)))
    region = next(told for seed in range(99) if (told := explanation(seed, "table").regions))[0]
    regions = tuple(replace(region, id=f"S{k}", rule=rule) for k, rule in enumerate(rules, 1))
    features = tuple(Feature(name, "number") for name in NAMES[:wide])
    record = replace(record, regions=regions, world=replace(record.world, features=features), sentences=(), withheld=0)
    asked = [(k, draw(st.sampled_from(sorted(OPERATORS))), draw(bounds(grids[k]))) for k in range(wide)]
    box = draw(st.lists(st.sampled_from(asked), min_size=1, max_size=2, unique_by=lambda one: one[0]))
    return replace(record, sample=(), pictures=()), states, counts / counts.sum(), box


def pictured(record: Explanation, states: np.ndarray, shares: np.ndarray) -> Explanation:
    """The record of a log: pictures over pairs of features."""
    none, rules = np.zeros(len(states), dtype=int), [region.rule for region in record.regions]
    where, chances = first_match(rules, states), (shares, shares)
    seen = Divergence(none, states, none, (), none, none, shares, shares, none, shares, chances)
    ids, names = tuple(region.id for region in record.regions), NAMES[: states.shape[1]]
    return replace(record, pictures=pictures_of(seen, where, ids, names, names, ()))


def sampled(record: Explanation, states: np.ndarray, shares: np.ndarray) -> Explanation:
    """The record of a table: all of its states."""
    kept = (SampledState(tuple(state), share, "a", "b") for state, share in zip(states.tolist(), shares, strict=True))
    return replace(record, sample=tuple(kept))


def written(asked: Asked) -> str:
    """The box as a user writes it."""
    return " and ".join(f"{NAMES[k]} {sign} {number!r}" for k, sign, number in asked)


def lies_in(state: np.ndarray, asked: Asked) -> bool:
    return all(OPERATORS[sign](state[k], number) for k, sign, number in asked)


def truth(record, states, shares, asked):
    """By a plain loop: the share in the box, the share of these in a region, and which regions are how far inside."""
    inside = changed = 0.0
    part: dict[str, list[bool]] = {}
    for state, share in zip(states, shares, strict=True):
        first = next((region.id for region in record.regions if region.rule.covers(state[None])[0]), None)
        here = lies_in(state, asked)
        inside += share * here
        changed += share * (here and first is not None)
        if first is not None:
            part.setdefault(first, []).append(here)
    return inside, changed, {name: all(there) for name, there in part.items() if any(there)}


@settings(max_examples=150, deadline=None)
@given(studies(), st.sampled_from([sampled, pictured]))
def test_shares_and_regions_are_those_of_a_loop_over_the_states(study, held):
    bare, states, shares, asked = study
    record = held(bare, states, shares)
    inside, changed, parts = truth(record, states, shares, asked)
    answer = answered(record, "what-if", written(asked), "")
    exact = held is sampled or all(picture.x_values and picture.y_values for picture in record.pictures)
    if not exact:
        return
    if not inside:
        assert "no visit that this result holds falls there" in answer.text
    else:
        assert f"• {percent(inside)} of visits fall there" in answer.text
    if parts:
        assert f"there, {percent(min(1.0, changed / inside))} of them in these regions" in answer.text
    assert [region.id for region in answer.regions] == [r.id for r in record.regions if r.id in parts]
    for name, whole in parts.items():
        assert whole == (f"{name}, all of it" in answer.text)
    assert "only the rule was compared" not in answer.text


@settings(max_examples=150, deadline=None)
@given(studies(wide=3), st.booleans())
def test_a_record_that_knows_less_bounds_the_share_and_misses_no_region(study, gaps):
    bare, states, shares, asked = study
    if gaps:
        states[0, 0] = np.nan  # a missing value, which no picture shows
    record = pictured(bare, states, shares)
    inside, _, parts = truth(record, states, shares, asked)
    box = parse_rule(written(asked), NAMES, record.world.values)
    share, _ = share_inside(record, box)
    if share is not None:
        assert share.low - 1e-9 <= inside <= share.high + 1e-9
    found = {meeting.region.id: meeting for meeting in meetings(record, box)}
    assert set(parts) <= set(found)
    firsts = first_match([region.rule for region in record.regions], states)
    visited = {record.regions[k].id for k in firsts if k >= 0}
    for name in set(found) & visited:
        assert not found[name].known or name in parts
        assert found[name].extent != "all of it" or parts[name]
    for picture in () if gaps else record.pictures:  # a region is named only if each picture has a cell for both
        pair = [NAMES.index(picture.x), NAMES.index(picture.y)]
        for meeting in found.values():
            rules = [Rule(tuple(c for c in r.conditions if c.column in pair)) for r in (box, meeting.region.rule)]
            cells = [picture.place(cell) for cell in picture.cells]
            assert any(all(overlap(cell, rule) for rule in rules) for cell in cells)


def test_rules_alone_are_said_to_be_compared_alone():
    region = next(told for seed in range(99) if (told := explanation(seed, "table").regions))[0]
    young = replace(region, id="S1", rule=Rule((Condition("age", 0, high=65.0),)))
    record = replace(explanation(0, "table"), regions=(young,), sample=(), pictures=(), sentences=())
    said = answered(record, "what-if", "age < 30", "").text
    assert "S1, part of it" in said
    assert "of S1 only the rule was compared" in said
    assert "of visits fall" not in said
    assert "only the rule" not in answered(record, "what-if", "age < 70", "").text  # all of it, and that is visited


def test_a_smaller_picture_names_no_value_of_a_cell_that_is_gone():
    states = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 1.0]])
    shares = np.array([0.6, 0.395, 0.005])
    log = next(told for seed in range(99) if (told := explanation(seed, "log")).regions)
    facts = {**log.world.facts, log.world.counted_in: 100}
    record = pictured(replace(log, world=replace(log.world, facts=facts)), states, shares)
    assert record.pictures[0].x_values == (0.0, 1.0, 2.0)
    (picture,) = suppressed(record, 10).pictures
    assert (picture.x_values, picture.y_values) == ((0.0, 1.0), (0.0,))


def test_a_drawn_sample_that_misses_a_box_does_not_empty_it():
    record = explanation(0, "simulator")
    features = (Feature("x", "number"), Feature("y", "number"))
    record = replace(record, regions=(), world=replace(record.world, features=features))
    states, shares = np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([0.99, 0.01])
    drawn = sampled(record, states[:1], np.ones(1))
    assert "of visits fall there" not in answered(drawn, "what-if", "x > 0.5", "").text
    assert "no visit" not in answered(drawn, "what-if", "x > 0.5", "").text
    assert "about 100 % of visits fall there" in answered(drawn, "what-if", "x < 0.5", "").text
    region = next(told for seed in range(99) if (told := explanation(seed, "simulator").regions))[0]
    drawn = replace(drawn, regions=(replace(region, rule=Rule((Condition("y", 1, low=5.0),))),))
    assert "• 1 % of visits fall there" in answered(pictured(drawn, states, shares), "what-if", "x > 0.5", "").text
