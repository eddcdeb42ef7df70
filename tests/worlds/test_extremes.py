"""Numbers at the ends of what a computer holds: told, or refused in one line, in every kind of world."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from polidiff import Log, Simulator, TabularMDP, explain, improve
from polidiff.errors import PolidiffError

MOVES = np.array([[[0.5, 0.3, 0.2], [0.0, 0.2, 0.8]], [[0.2, 0.3, 0.5], [0.0, 0.1, 0.9]], [[0, 0, 1.0], [0, 0, 1.0]]])


def table(places, pays=1.0) -> TabularMDP:
    return TabularMDP(MOVES, np.full((3, 2), pays), [0.5, 0.5, 0], absorbing=[2], features=[[x] for x in places])


def log(place=1.0, pays=1.0) -> Log:
    rows = {"x": [place, -place, 3.0, 4.0] * 15, "a": ["go", "stop", "stop", "go"] * 15, "r": [pays, -pays, 0.0] * 20}
    return Log(pl.DataFrame(rows), state=["x"], action="a", reward="r")


class Walk:
    """Two or three steps to a place, which pay."""

    n_actions = 2

    def __init__(self, place=1.0, pays=1.0):
        self.place, self.pays = place, pays

    def reset(self, count, rng):
        return rng.random((count, 1))

    def step(self, states, actions, rng):
        return np.full_like(states, self.place), np.where(actions > 0, self.pays, 0.0), rng.random(len(states)) < 0.5


def said(world) -> str:
    if isinstance(world, Log):
        return str(explain(world, "log", "always:go"))
    policies = (
        ([0, 0, 0], [1, 0, 0]) if isinstance(world, TabularMDP) else (lambda s: [0] * len(s), lambda s: [1] * len(s))
    )
    return str(explain(world, *policies, max_steps=500))


@pytest.mark.parametrize("world", [table, lambda places: Simulator(Walk(places[0]), horizon=3), lambda p: log(p[0])])
@pytest.mark.parametrize("place", [np.inf, -1e308, 1e120])
def test_places_too_far_to_compare_are_refused(world, place):
    with pytest.raises(PolidiffError, match=r"feature '\w+' must hold .*1e\+30") as caught:
        said(world([place, 0.0, 1.0]))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("pays", [np.inf, np.nan, 1e308, 1e120])
@pytest.mark.parametrize(
    "world",
    [lambda pays: table([0, 1, 2], pays), lambda pays: Simulator(Walk(1.0, pays), horizon=3), lambda p: log(1.0, p)],
)
def test_pay_that_cannot_be_added_up_is_refused(world, pays):
    with pytest.raises(PolidiffError, match=r"must (be|hold) .*(finite|1e\+100)") as caught:
        said(world(pays))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("places", [[5e-324, 0.0, 1e-320], [1e30, -1e30, 0.0], [np.nan] * 3, ["a", None, "b"]])
def test_other_places_are_told(places):
    assert said(table(np.array(places, dtype=object if None in places else float)))


def test_rules_over_the_smallest_numbers_are_planned():
    assert improve(table([5e-324, 0.0, 1e-320]), [0, 0, 0], max_rules=1)
