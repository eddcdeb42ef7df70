"""Tables as models in the PRISM language and back; proofs before exact rational arithmetic."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polidiff import Outcome, TabularMDP
from polidiff.errors import InvalidWorldError, MissingExtraError

MODEL = """mdp
const int N;
module walk
  at : [0..N] init 1;
  lit : bool init false;
  [go] at>0 & at<N -> 0.75:(at'=at+1) + 0.25:(at'=at-1);
  [rest] at>0 & at<N -> (lit'=!lit);
  [] at=N -> true;
endmodule
label "home" = at=N;
rewards "steps" [go] true : 1; [rest] true : 2; endrewards
rewards "dark" !lit : 1; endrewards
"""


@pytest.fixture
def walk(tmp_path):
    path = tmp_path / "walk.prism"
    path.write_text(MODEL)
    return path


def two_rooms(**options):
    moves = np.zeros((3, 2, 3))
    moves[0, 0, 1] = moves[1, 0, 2] = moves[2, :, 2] = 1
    moves[0, 1, [0, 2]] = 0.3, 0.7
    moves[1, 1, 0] = 1
    return TabularMDP(moves, [[1, -2.5], [0, 4], [9, 9]], [0.5, 0.5, 0], absorbing=[2], **options)


def test_a_table_is_written_as_guarded_commands():
    text = two_rooms(
        actions=["go on", "label"], discount=0.9, outcomes=[Outcome("a cost", [[0, 1], [0, 0], [0, 0]])]
    ).to_prism()
    assert (
        text
        == """mdp

module table
  state : [0..2] init 0;
  phase : [0..2] init 0;
  [begin] phase=0 -> 0.5:(state'=0) & (phase'=1) + 0.5:(state'=1) & (phase'=1);
  [go_on] phase=1 & state=0 -> 0.90:(state'=1) + 0.1:(phase'=2);
  [_label] phase=1 & state=0 -> 0.27:(state'=0) + 0.63:(state'=2) + 0.1:(phase'=2);
  [go_on] phase=1 & state=1 -> 0.90:(state'=2) + 0.1:(phase'=2);
  [_label] phase=1 & state=1 -> 0.90:(state'=0) + 0.1:(phase'=2);
  [] phase=2 | (phase=1 & state=2) -> true;
endmodule

label "end" = phase=2 | (phase=1 & state=2);

rewards "return"
  [go_on] phase=1 & state=0 : 1.0;
  [_label] phase=1 & state=0 : -2.5;
  [_label] phase=1 & state=1 : 4.0;
endrewards

rewards "a_cost"
  [_label] phase=1 & state=0 : 1.0;
endrewards
"""
    )


def test_whole_numbers_that_tell_states_apart_become_variables(tmp_path):
    world = two_rooms(features=[[0, 5], [0, -6], [1, 5]], feature_names=["floor", "room"])
    assert "  floor : [0..1] init 0;\n  room : [-6..5] init 5;" in world.to_prism(tmp_path / "rooms.prism")
    assert (tmp_path / "rooms.prism").read_text() == world.to_prism()
    assert "state : [0..2]" in two_rooms(features=[[0.5], [0], [1]]).to_prism()


@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=6).filter(any), st.floats(0.01, 1.0))
def test_probabilities_sum_to_one_exactly(counts, discount):
    """Model checkers that compute in rational numbers refuse rows that miss 1 by a rounding error."""
    row = np.array(counts) / sum(counts)
    moves = np.zeros((len(row) + 1, 1, len(row) + 1))
    moves[:, 0, :-1] = row
    world = TabularMDP(moves, np.zeros((len(row) + 1, 1)), np.append(row, 0.0), absorbing=[len(row)], discount=discount)
    commands = re.findall(r"->(.*);", world.to_prism().split("[] ")[0])
    assert len(commands) >= 1
    for command in commands:
        assert sum(Fraction(part.split(":")[0].strip()) for part in command.split(" + ")) == 1


def test_without_storm_the_extra_is_named(walk, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "stormpy", None)
    with pytest.raises(MissingExtraError, match=re.escape("polidiff[storm]")):
        TabularMDP.from_prism(walk, 'Rmin=? [F "home"]')


def test_a_model_becomes_a_table(walk):
    pytest.importorskip("stormpy")
    world = TabularMDP.from_prism(walk, 'Pmax=? [at>0 U "home"]', constants={"N": 3})
    assert [action.name for action in world.actions] == ["go", "rest"]
    assert world.feature_names == ("at", "lit")
    assert [outcome.name for outcome in world.outcomes] == ["return", "steps", "dark"]
    assert world.states[int(world.starts[0])] == "at=1, lit=False"
    assert sorted(world.features[world.absorbing][:, 0]) == [0, 0, 3, 3]
    at_two = next(s for s, name in enumerate(world.states) if name == "at=2, lit=False")
    assert world.rewards[at_two, 0] == 0.75
    assert world.outcome_table(world.outcomes[1])[at_two].tolist() == [1, 2]


def test_its_optimum_is_the_closed_form(walk):
    """Gambler's ruin with p = 3/4 from 1 of N = 3: (1 - 1/3) / (1 - 1/27) = 9/13 (Feller, vol. 1, XIV.2)."""
    pytest.importorskip("stormpy")
    from polidiff.evaluation.exact import best_policy

    world = TabularMDP.from_prism(walk, 'Pmax=? [F "home"]', constants="N=3")
    assert best_policy(world).expected_return == pytest.approx(9 / 13, rel=1e-12)
    worst = TabularMDP.from_prism(walk, 'Pmin=? [F "home"]', constants="N=3")
    assert best_policy(worst, -worst.rewards).expected_return == pytest.approx(9 / 13, rel=1e-12)


@pytest.mark.parametrize(
    "asked", ["Pmax=? [G at>0]", 'P=? [F<=3 "home"]', 'R{"fuel"}min=? [F "home"]', "Pmax=? [F oops"]
)
def test_a_property_that_says_no_end_is_refused_in_a_line(walk, asked):
    pytest.importorskip("stormpy")
    with pytest.raises(InvalidWorldError) as caught:
        TabularMDP.from_prism(walk, asked, constants={"N": 3})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("seed", range(3))
def test_no_policy_beats_the_frontier_in_rational_arithmetic(seed):
    pytest.importorskip("stormpy")
    from benchmarks.storm import checked

    row = checked(seed)
    assert row["proven"]
    assert row["above"] == 0
    assert row["difference"] < 1e-12
