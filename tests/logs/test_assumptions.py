"""Verdicts from a log with what they rest on: the past, time, people who come back, unrecorded reasons."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from benchmarks.logs.believe import as_log
from benchmarks.logs.believe_worlds import (
    cut_by_state,
    drifting,
    machine,
    rare_loss,
    repeated_action,
    repeated_people,
    severity,
    tired_two_decisions_later,
    tolerance,
    wrong_propensities,
)
from polidiff import Log, evaluate, explain, improve, load
from polidiff.evaluation.logged.compare import jackknife, judge_log
from polidiff.evaluation.logged.judge import Question, assess


def judged(world, episodes=1000, seed=1, **options):
    log = as_log(world, world.rows(episodes, np.random.default_rng(seed)), **options)
    found = judge_log(log, Question("log", world.proposed))
    return found.verdicts[0][0], {a.name: a for a in found.assumptions}


def test_a_clean_log_is_decided_and_every_test_holds():
    verdict, found = judged(machine())
    assert verdict.direction == "more"
    assert [found[name].status for name in ("history", "drift", "independence", "overlap")] == ["held"] * 4
    assert found["unrecorded reasons"].status == "not testable"
    assert 1.2 < verdict.holds_up_to < 3
    assert verdict.rests_on.startswith("Rests on 1000 episodes; tested and held: history")


def test_a_past_that_matters_becomes_part_of_the_state_and_turns_the_sign_round():
    world = repeated_action()
    assert world.truth < 0
    verdict, found = judged(world)
    assert verdict.direction == "less"
    assert verdict.pointwise.contains(world.truth)
    assert found["history"].status == "failed"
    assert "history (failed)" in verdict.rests_on


def test_a_past_that_no_deeper_state_mends_leaves_the_verdict_unknown():
    verdict, found = judged(tolerance())
    assert verdict.direction == "unknown"
    assert verdict.note.startswith("what follows a decision depends on what came before it")
    assert verdict.difference.low <= 0 <= verdict.difference.high
    assert verdict.holds_up_to is None
    assert "do not mend it" in found["history"].consequence


def test_where_the_past_matters_a_verdict_must_withstand_unrecorded_reasons_too():
    world = severity(2.5)
    for episodes, seed, reason in (
        (400, 3, "weak unrecorded reasons behind that would be enough"),
        (1000, 1, "3 past decisions as part of the state do not mend that"),
    ):
        verdict, found = judged(world, episodes, seed)
        assert found["history"].status == "failed"
        assert verdict.direction == "unknown"  # a deeper state says "less", and the truth is more
        assert reason in verdict.note


def test_a_memory_that_skips_a_decision_does_not_turn_the_sign_round():
    world = tired_two_decisions_later()
    assert world.truth < 0
    short, found = judged(world, 200)
    assert found["history"].status == "failed"
    assert short.direction != "more"
    verdict, _ = judged(world)
    assert verdict.direction == "less"
    assert verdict.pointwise.contains(world.truth)


def test_a_world_that_changed_keeps_only_what_both_halves_say():
    agreed, found = judged(drifting())
    assert (found["drift"].status, agreed.direction) == ("failed", "more")
    turned = replace(machine(), pay=machine().pay[:, ::-1])
    world = replace(machine(), late=replace(turned, pay=3 * turned.pay))
    split, _ = judged(world)
    assert split.direction == "unknown"
    assert split.note == "early and late episodes of the log do not say the same"


@pytest.mark.parametrize("state", ["severity", ["severity"]])
def test_times_that_move_decisions_and_outcomes_leave_a_verdict_unknown(state):
    rng = np.random.default_rng(0)
    good = np.arange(300) // 50 % 2  # months in which most are treated, and most do well
    treated = (rng.random(300) < np.where(good, 0.8, 0.2)).astype(int)
    table = pl.DataFrame({"severity": rng.integers(0, 3, 300), "treated": treated,
                          "paid": 2.0 * good - 0.2 * treated + rng.normal(0, 0.5, 300)})  # fmt: skip
    verdict = explain(Log(table, state=state, action="treated", reward="paid"), "log", "always:1").verdicts[0]
    assert verdict.direction == "unknown"
    assert "depend on when in the log that was" in verdict.note
    at_random = table.with_columns(treated=pl.Series(rng.integers(0, 2, 300)))
    log = Log(at_random, state=state, action="treated", reward="paid")
    assert "when in the log" not in (explain(log, "log", "always:1").verdicts[0].note or "")


def test_people_who_come_back_widen_the_interval():
    world = repeated_people()
    alone, _ = judged(machine())
    verdict, found = judged(world)
    assert found["independence"].status == "failed"
    assert verdict.difference.width > 1.5 * alone.difference.width
    assert "counted as 32 stretches of the log" in verdict.rests_on


def test_a_verdict_that_few_people_leave_unknown_says_how_many_they_are():
    rng = np.random.default_rng(0)
    act, person = rng.integers(0, 2, 400), np.arange(400) % 4
    paid = np.where(person == 0, 1.2, 0.3) * act + rng.normal(0, 0.2, 400)
    table = pl.DataFrame({"act": act, "person": person, "ward": "a", "paid": paid})
    log = Log(table, state="ward", action="act", reward="paid", group="person", return_range=(-3, 3))
    verdict = explain(log, "always:0", "always:1").verdicts[0]
    assert verdict.direction == "unknown"
    assert verdict.note == "counted as 4 people, 400 decisions are too few to tell"


def test_a_log_that_names_people_counts_them():
    world = repeated_people()
    verdict, found = judged(world, grouped=True)
    blind, _ = judged(world)
    assert found["independence"].status == "held"
    assert found["independence"].detail.startswith("20 units with 50 episodes each")
    assert "1000 episodes, counted as 20 people" in verdict.rests_on
    assert found["drift"].status == "not testable"  # ten early and ten late people hardly tell
    assert verdict.difference.width < blind.difference.width


def test_people_who_come_back_widen_the_interval_of_every_start():
    world = replace(repeated_people(), start=np.full(6, 1 / 6), people=(20, 0.8))
    table = np.tile([0.2, 0.8], (6, 1))
    inside = np.einsum("ha,hag->hg", table, world.moves[:, :, :-1])
    truth = np.linalg.solve(np.eye(6) - inside, (table * world.pay).sum(axis=1))
    held = []
    for seed in range(12):
        log = as_log(world, world.rows(600, np.random.default_rng((4, seed))), grouped=True)
        found = evaluate(log, table).per_start["return"]
        held += [interval.contains(truth[int(state)]) for state, interval in found.items()]
    assert np.mean(held) >= 0.9  # .38 where episodes count as people


def test_an_evaluation_knows_only_the_range_where_no_deeper_state_mends_the_past():
    world = tolerance()
    log = as_log(world, world.rows(1000, np.random.default_rng(1)))
    found = evaluate(log, world.proposed)
    assert (found.outcomes["return"].low, found.outcomes["return"].high) == world.range
    assert {(i.low, i.high) for i in found.per_start["return"].values()} == {world.range}
    assert "what follows a decision depends on what came before it" in found.method
    logged = evaluate(log, "log").outcomes["return"]
    assert logged.width < 10


def test_the_jackknife_of_a_mean_is_its_standard_error():
    values = np.random.default_rng(0).normal(size=40)
    left_out = (values.sum() - values) / 39
    assert jackknife(left_out[:, None])[0] == pytest.approx(values.std(ddof=1) / np.sqrt(40))


def test_a_false_verdict_from_confounding_holds_up_to_less_than_the_true_strength():
    world = severity(2.5, one_decision=True)
    assert world.truth > 0
    verdict, _ = judged(world)
    assert verdict.direction == "less"
    assert 1.0 < verdict.holds_up_to < world.strength
    assert "This is fragile: it would no longer hold if" in verdict.rests_on


def test_recorded_probabilities_stand_in_for_strength_if_they_are_right():
    world = replace(machine(), stated=1e-12)
    verdict, found = judged(world)
    assert found["propensities"].status == "held"
    assert found["unrecorded reasons"].status == "held"
    assert verdict.holds_up_to is None
    assert "Actions were drawn with recorded probabilities" in verdict.rests_on
    wrong, found = judged(wrong_propensities())
    assert found["propensities"].status == "failed"
    assert wrong.holds_up_to > 1


def test_a_rare_loss_that_the_range_allows_is_named():
    verdict, found = judged(rare_loss(), seed=3)
    assert verdict.direction == "more"  # wrong: the loss is not in this log
    assert found["rare events"].status == "doubtful"


def test_one_result_says_one_thing_about_rare_events_and_counts_decisions_with_the_action():
    rng = np.random.default_rng(4)
    small = np.arange(1200) % 6 == 0  # a ward in which little is gained, so that a rare event turns it round
    new = rng.random(1200) < np.where(small, 0.75, 0.3)
    gain = 10 + np.where(small, 0.3, 2.0) * new + rng.normal(0, 0.1, 1200)
    frame = {"ward": np.where(small, "b", "a"), "age": rng.integers(20, 80, 1200), "act": np.where(new, "new", "old")}
    log = Log(pl.DataFrame({**frame, "gain": gain}), state=["ward", "age"], action="act", reward="gain",
              return_range=(0.0, 20.0))  # fmt: skip
    told = explain(log, "log", "always:new")
    (rare,) = (a for a in told.assumptions if a.name == "rare events")
    assert rare.status == "doubtful"
    fewest = min(int(new[small].sum()), int((~new)[small].sum()))  # as many decisions gain one as lose the other
    assert (
        f"was taken {fewest} times, so the log may lack what follows it fewer than 3 in {fewest} times" in rare.detail
    )
    assert rare.detail.endswith("what is found for some decisions turns")  # also where their group is not told
    lines = [v.rests_on for v in (*told.verdicts, *(v for sentence in told.sentences for v in sentence.verdicts))]
    assert not any("rare events" in line.partition("held: ")[2].partition(";")[0] for line in lines)
    assert any("rare events (doubtful)" in line for line in lines)
    assert "speaks against it: rare events (doubtful)" in told.verdicts[0].rests_on  # as the list below the text does


def test_results_carry_their_assumptions_into_text_files_and_plans(tmp_path):
    world = cut_by_state()
    log = as_log(world, world.rows(600, np.random.default_rng(2)))
    told = explain(log, "log", world.proposed)
    assert {a.name for a in told.assumptions} >= {"history", "drift", "independence", "overlap", "cut episodes"}
    text = str(told)
    assert "What this rests on:\n• Rests on 600 episodes" in text
    assert "• Cut episodes: " in text
    told.save(tmp_path / "told.json")
    assert load(tmp_path / "told.json").assumptions == told.assumptions
    told.save(tmp_path / "told.html")
    assert "What this rests on" in (tmp_path / "told.html").read_text(encoding="utf-8")
    told.save(tmp_path / "told.md")
    assert "| cut episodes | doubtful |" in (tmp_path / "told.md").read_text(encoding="utf-8")
    plans = improve(log, "log")
    assert plans.assumptions
    assert 1 < plans.best.holds_up_to < np.inf
    assert "if no unrecorded reason changes the odds of a decision" in str(plans).splitlines()[0]
    best = plans.plans.index(plans.best)
    assert f"plan {best}: This would no longer hold" in str(plans)
    assert {a.name for a in evaluate(log, world.proposed).assumptions} >= {"history", "overlap"}


def test_evaluate_knows_the_past_too():
    world = repeated_action()
    log = as_log(world, world.rows(2000, np.random.default_rng(4)))
    found = evaluate(log, world.proposed).outcomes["return"]
    assert found.contains(world.value(world.proposed[world.seen]))


def test_intervals_without_lines_are_the_same():
    world = repeated_action()
    log = as_log(world, world.rows(300, np.random.default_rng(7)))
    told, bare = (
        judge_log(log, Question("log", world.proposed, lines=lines)).verdicts[0][0] for lines in (True, False)
    )
    assert told.rests_on
    assert bare == replace(told, rests_on=None, holds_up_to=None)


def test_a_log_is_checked_once():
    world = machine()
    log = as_log(world, world.rows(100, np.random.default_rng(5)))
    assert assess(log) is assess(log)


def test_features_are_tested_for_a_past_and_for_drift():
    rng = np.random.default_rng(6)
    episodes, length = 300, 6
    x, pushed, columns = rng.normal(size=episodes), np.zeros(episodes), []
    for step in range(length):
        action = rng.integers(0, 2, episodes)
        after = 0.7 * x + 0.3 * action - 1.2 * pushed + rng.normal(0, 0.3, episodes)
        columns.append(np.column_stack([np.arange(episodes), np.full(episodes, step), x, action, after]))
        x, pushed = after, action
    rows = np.stack(columns, axis=1).reshape(-1, 5)
    frame = pl.DataFrame({"e": rows[:, 0].astype(int), "t": rows[:, 1].astype(int), "x": rows[:, 2],
                          "a": rows[:, 3].astype(int), "r": rows[:, 4], "end": rows[:, 1] == length - 1})  # fmt: skip
    log = Log(frame, state=["x"], action="a", episode="e", step="t", reward="r", terminated="end",
              return_range=(-50, 50))  # fmt: skip
    found = {a.name: a for a in assess(log).assumptions}
    assert found["history"].status == "failed"
    assert found["drift"].status == "held"
    assert "beyond the recorded features" in assess(log).reason
