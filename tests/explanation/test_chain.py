"""The paper's discrete task: two regions, three sentences (seven in the paper's printing)."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

import polidiff
from polidiff import explain
from polidiff.domains import chain
from polidiff.records.explanation import IDLE

LENGTH, VISITS = "trajectory length", "visits to desired states"


@pytest.fixture(scope="module")
def explanation():
    return explain(chain.world(), chain.current(), chain.proposed())


def directions(sentence):
    return {verdict.outcome: verdict.direction for verdict in sentence.verdicts}


def test_the_regions_are_s1_and_s5_and_s0_does_not_diverge(explanation):
    assert [(r.id, r.current, r.proposed) for r in explanation.regions] == [
        ("s1", "action 0", "action 1"),
        ("s5", "action 0", "action 1"),
    ]


def test_decisions_that_change_nothing_at_once_are_counted_and_said(explanation):
    world, start = chain.world(), np.asarray(chain.world().initial, dtype=float)
    moves = np.asarray(world.policy_moves(np.eye(world.n_actions)[chain.proposed()]).todense())
    visits = np.linalg.inv(np.eye(world.n_states) - moves * ~world.absorbing[:, None]).T @ start
    other = (np.asarray(chain.current()) != np.asarray(chain.proposed())) & ~world.absorbing
    told = np.isin(np.arange(world.n_states), [1, 5])
    assert explanation.changes == pytest.approx(visits[other].sum())
    assert explanation.world.facts[IDLE] == pytest.approx(1 - visits[told].sum() / visits[other].sum())
    assert "11 % of these make little or no difference at once" in str(explanation)


def test_three_sentences_group_the_starts_by_path_and_verdict(explanation):
    told = {sentence.starts: (sentence.path, directions(sentence)) for sentence in explanation.sentences}
    more = {LENGTH: "more", VISITS: "more"}
    assert told == {
        ("s0", "s1"): (("s1", "s5"), more),
        ("s2", "s3", "s4", "s5"): (("s5",), more),
        ("s6", "s7", "s8", "s9", "s10"): ((), {LENGTH: "same", VISITS: "same"}),
    }


def test_differences_are_the_golden_ones_and_exact(explanation):
    by_start = {s.starts[0]: {v.outcome: v.difference for v in s.verdicts} for s in explanation.sentences}
    for outcome in (LENGTH, VISITS):
        assert by_start["s0"][outcome].estimate == pytest.approx(2, abs=1e-9)
        assert by_start["s2"][outcome].estimate == pytest.approx(1, abs=1e-9)
        assert by_start["s6"][outcome].exact


def test_the_paper_style_prints_one_sentence_per_start_and_the_rest_together():
    told = explain(chain.world(), chain.current(), chain.proposed(), style="paper").sentences
    assert [s.starts for s in told] == [
        ("s0",),
        ("s1",),
        ("s2",),
        ("s3",),
        ("s4",),
        ("s5",),
        ("s6", "s7", "s8", "s9", "s10"),
    ]
    assert [s.path for s in told] == [("s1", "s5")] * 2 + [("s5",)] * 4 + [()]
    assert all(set(directions(s).values()) == {"more"} for s in told[:6])


def test_the_sentence_says_but_where_better_meets_worse(explanation):
    text = str(explanation)
    assert (
        "From s0 or s1, in s1 do action 1 instead of action 0, then in s5 do action 1 instead of action 0. "
        "This leads to a longer trajectory (by 2) but more visits to desired states (by 2)."
    ) in text
    assert "From s6 … s10, the two policies act the same wherever it matters." in text


def test_quality_meets_the_bars(explanation):
    quality = explanation.quality
    assert quality.f1 == 1.0
    assert quality.path_fidelity == 1.0
    assert all(share == pytest.approx(1.0) for share in quality.completeness.values())


def test_a_reader_does_best_with_this_form(explanation):
    scores = {score.form: score for score in explanation.quality.forms}
    own = scores.pop("polidiff")
    for other in scores.values():
        assert own.action_accuracy >= other.action_accuracy
        assert own.direction_accuracy >= (other.direction_accuracy or 0.0)
    assert own.action_accuracy > scores["none"].action_accuracy
    assert own.choice_accuracy > scores["none"].choice_accuracy


def test_the_earlier_forms_say_what_the_paper_prints_for_them(explanation):
    # sections 7 and 2: each detour visits a desired state and adds one step; only the proposed policy meets s2 and s6
    detour = "action 1, which adds 1 to trajectory length and adds 1 to visits to desired states"
    assert explanation.forms["paths and immediate effects"] == (
        f"Starting from s0, the proposed policy will reach s1 and perform {detour}. "
        f"Then it will reach s5 and perform {detour}."
    )
    assert explanation.forms["states visited"] == (
        "Starting from s0, the proposed policy visits s2 and s6, the current one does not. "
        "The current one visits no state that the proposed one does not."
    )
    assert explanation.forms["outcomes only"] == (
        "Starting from s0, the proposed policy leads to a longer trajectory but more visits to desired states."
    )


def test_a_tree_of_the_policy_names_states_not_their_numbers(explanation):
    assert "action 1 in s5;" in explanation.forms["complete policy"]


def test_changes_count_every_decision_that_differs(explanation):
    # s0 is met by 1 start, s1 by 2, s5 by 6, of 11
    assert explanation.changes == pytest.approx(9 / 11)


def test_patching_the_current_policy_gives_the_proposed_outcomes(explanation):
    world = chain.world()
    patched = explanation.patch.apply(chain.current())
    got, want = (polidiff.evaluate(world, policy).outcomes for policy in (patched, chain.proposed()))
    assert {k: v.estimate for k, v in got.items()} == pytest.approx({k: v.estimate for k, v in want.items()})


def test_a_case_names_the_action_and_what_to_expect(explanation):
    case = explanation.case("s1")
    assert (case.current, case.proposed, case.region) == ("action 0", "action 1", "s1")
    assert {v.outcome: v.difference.estimate for v in case.expected} == pytest.approx({LENGTH: 2, VISITS: 2})
    assert explanation.case("s7").current == explanation.case("s7").proposed == "action 0"


def test_worse_off_comes_with_the_starts_it_concerns(explanation):
    entry = explanation.worse_off[0]
    assert (entry.outcome, entry.starts) == (LENGTH, ("s0", "s1", "s2", "s3", "s4", "s5"))
    assert entry.difference.estimate == pytest.approx(8 / 6)


def test_the_record_is_read_back_byte_for_byte(explanation, tmp_path):
    explanation.save(tmp_path / "a.json")
    again = polidiff.load(tmp_path / "a.json")
    again.save(tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert json.loads((tmp_path / "a.json").read_text())["schema"] == "polidiff/explanation"
    assert str(again) == str(explanation)


def test_a_policy_against_itself_acts_the_same():
    told = explain(chain.world(), chain.current(), chain.current())
    assert told.regions == ()
    assert told.changes == 0.0
    assert "act the same" in str(told)
    assert {v.direction for v in told.verdicts} == {"same"}


def test_states_with_the_same_swap_are_told_together_when_asked():
    told = explain(chain.world(), chain.current(), chain.proposed(), max_rules=1)
    assert len(told.regions) == 1
    assert told.regions[0].merged
    assert told.regions[0].states == ("s1", "s5")
    assert any("told together" in warning for warning in told.warnings)


def test_the_same_action_with_another_probability_has_its_own_wording():
    world = chain.world()
    current = np.tile([0.9, 0.1], (12, 1))
    proposed = np.tile([0.9, 0.1], (12, 1))
    proposed[5] = [0.6, 0.4]
    told = explain(world, current, proposed)
    assert [(r.id, r.current, r.proposed) for r in told.regions] == [("s5", "action 0", "action 0")]
    assert (told.regions[0].shift.current, told.regions[0].shift.proposed) == pytest.approx((0.9, 0.6))
    assert "action 0 less often (90 % → 60 %)" in str(told)


def test_every_region_is_told_with_its_own_chances_and_the_patch_follows_them():
    current, proposed = np.tile([0.9, 0.1], (12, 1)), np.tile([0.9, 0.1], (12, 1))
    current[1], proposed[1], proposed[5] = [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]
    told = explain(chain.world(), current, proposed)
    shifts = {r.id: (r.shift.current, r.shift.proposed) for r in told.regions}
    assert shifts == {"s1": pytest.approx((0.8, 0.7)), "s5": pytest.approx((0.9, 0.6))}
    assert sorted(edit.shift.proposed for edit in told.patch.edits) == pytest.approx([0.6, 0.7])
    together = explain(chain.world(), current, proposed, max_rules=1).regions[0]
    share = {r.id: r.support.share for r in told.regions}
    mean = (0.8 * share["s1"] + 0.9 * share["s5"]) / (share["s1"] + share["s5"])
    assert together.shift.current == pytest.approx(mean)


def test_every_sentence_carries_how_true_it_is(explanation):
    changed = [sentence for sentence in explanation.sentences if sentence.path]
    assert all(sentence.path_fidelity == 1.0 and sentence.precision == 1.0 for sentence in changed)
    assert all(s.path_fidelity == 1.0 and s.precision is None for s in explanation.sentences if not s.path)


@pytest.mark.parametrize("logged", [False, True])
def test_states_in_which_nothing_follows_from_a_change_are_not_said_to_act_the_same(logged):
    moves, pays = np.zeros((4, 2, 4)), np.array([[0.0, 1.0], [0.5, 0.5], [0.5, 0.5], [0.0, 0.0]])
    moves[:, :, 3] = 1.0
    world = polidiff.TabularMDP(moves, pays, np.array([0.4, 0.3, 0.3, 0.0]), absorbing=[3])
    if logged:  # 300 episodes of each state and action, then one more decision, which pays nothing
        state, act = np.repeat([[0, 0, 1, 1, 2, 2]], 300, axis=0).ravel(), np.tile([0, 1], 900)
        first = {"case": np.arange(1800), "state": state, "act": act, "paid": pays[state, act], "end": state > 2}
        last = {**first, "state": 0 * state + 3, "paid": 0 * pays[state, act], "end": state > -1}
        table = pl.concat([pl.DataFrame(first), pl.DataFrame(last)]).sort("case", maintain_order=True)
        world = polidiff.Log(table, state="state", action="act", reward="paid", episode="case", terminated="end",
                             return_range=(0, 1))  # fmt: skip
    told = explain(world, np.array([0, 0, 0, 0]), np.array([1, 0, 1, 0]))
    assert "the two policies act the same wherever it matters." in str(told)  # in 2 they do not act the same
    same = explain(world, np.array([0, 0, 0, 0]), np.array([1, 0, 0, 0]))
    assert "the two policies act the same." in str(same)
