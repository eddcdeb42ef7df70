"""Bad input, one line each: what was expected, what came, where first, and a way out."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import sparse

from polidiff import (
    Discretised,
    Log,
    Outcome,
    Patch,
    Simulator,
    TabularMDP,
    changelog,
    check,
    evaluate,
    explain,
    improve,
)
from polidiff.domains import chain, navigation
from polidiff.errors import (
    ImproperPolicyError,
    InvalidInputError,
    InvalidLogError,
    InvalidOptionError,
    InvalidOutcomeError,
    InvalidPolicyError,
    InvalidResultError,
    InvalidWorldError,
    ParseError,
    PolidiffError,
)
from polidiff.evaluation.exact import best_policy
from polidiff.records.parse import parse_case, parse_rules
from polidiff.worlds.protocol import known_values

GOOD = {
    "transitions": np.array([[[0.5, 0.5], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]]),
    "rewards": np.ones((2, 2)),
    "initial": np.array([1.0, 0.0]),
    "absorbing": [1],
}


def table(**changes) -> TabularMDP:
    return TabularMDP(**{**GOOD, **changes})


def moves(first: list[float]) -> np.ndarray:
    changed = GOOD["transitions"].copy()
    changed[0, 0] = first
    return changed


def visits() -> Log:
    rows = [(age, ("basic", "extra plus", "pro")[age % 3], "ab"[age // 3 % 2], float(age % 4)) for age in range(20, 60)]
    frame = pl.DataFrame(rows, schema=["age", "plan", "act", "gain"], orient="row")
    return Log(frame, state=["age", "plan"], action="act", reward="gain")


ENDLESS = np.array([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]])

BAD = {
    "nothing to decide": (
        lambda: table(absorbing=[0, 1]),
        InvalidWorldError,
        "a table needs a start in which something is decided; all 1 are absorbing. Hint: absorbing marks where an "
        "episode has ended",
    ),
    "rows that do not sum to 1": (
        lambda: table(transitions=moves([0.5, 0.4])),
        InvalidWorldError,
        "next-state probabilities must sum to 1; state 0, action 0 sums to 0.9 (1 of 2 rows are off). Hint: mark "
        "actions that do not exist with allowed=, and states that end the episode with absorbing=",
    ),
    "negative probabilities": (
        lambda: table(transitions=moves([1.5, -0.5])),
        InvalidWorldError,
        "transition probabilities must be at least 0; state 0, action 0 has -0.5 (1 entries are negative)",
    ),
    "no number among the transitions": (
        lambda: table(transitions=moves([np.nan, 1.0])),
        InvalidWorldError,
        "transition probabilities must be finite; state 0, action 0 has nan",
    ),
    "no number among the rewards": (
        lambda: table(rewards=[[1.0, np.nan], [0.0, 0.0]]),
        InvalidWorldError,
        "rewards must be finite; entry (0, 1) is nan (1 are not)",
    ),
    "no number among the starts": (
        lambda: table(initial=[np.nan, 1.0]),
        InvalidWorldError,
        "initial must be finite; entry (0,) is nan (1 are not)",
    ),
    "starts that do not sum to 1": (
        lambda: table(initial=[0.5, 0.4]),
        InvalidWorldError,
        "initial must hold probabilities that sum to 1; got sum 0.9, smallest 0.4",
    ),
    "transitions of the wrong shape": (
        lambda: table(transitions=np.ones((2, 2))),
        InvalidWorldError,
        "transitions must be an array (S, A, S) or one sparse (S, S) matrix per action; got shape (2, 2)",
    ),
    "sparse matrices of different sizes": (
        lambda: table(transitions=[sparse.eye_array(2), sparse.eye_array(3)]),
        InvalidWorldError,
        "each transition matrix must be (2, 2); action 1 has (3, 3)",
    ),
    "rewards of the wrong shape": (
        lambda: table(rewards=np.ones(2)),
        InvalidWorldError,
        "rewards must have shape (2, 2); got (2,)",
    ),
    "starts of the wrong shape": (
        lambda: table(initial=[1.0]),
        InvalidWorldError,
        "initial must have shape (2,); got (1,)",
    ),
    "an absorbing state that does not exist": (
        lambda: table(absorbing=[-1]),
        InvalidWorldError,
        "absorbing must name states 0 to 1; it names -1",
    ),
    "flags of the wrong shape": (
        lambda: table(absorbing=[True, False, True]),
        InvalidWorldError,
        "absorbing must be (2,) true or false, or indices of states; got bool (3,)",
    ),
    "a state without an allowed action": (
        lambda: table(allowed=np.zeros((2, 2))),
        InvalidWorldError,
        "every state needs an allowed action; state 0 has none",
    ),
    "state names used twice": (
        lambda: table(states=["a", "a"]),
        InvalidWorldError,
        "state names must be unique; 'a' is used twice",
    ),
    "features of the wrong shape": (
        lambda: table(features=np.ones(2)),
        InvalidWorldError,
        "features must have shape (2, d); got (2,)",
    ),
    "a discount above 1": (
        lambda: table(discount=1.5),
        InvalidWorldError,
        "discount must be above 0 and at most 1; got 1.5",
    ),
    "an action out of range": (
        lambda: evaluate(table(), [2, 0]),
        InvalidPolicyError,
        "actions must be between 0 and 1; state 0 has 2 (1 of 2 states are off)",
    ),
    "an action that is not allowed": (
        lambda: evaluate(table(allowed=[[True, False], [True, True]]), [1, 0]),
        InvalidPolicyError,
        "a policy may take allowed actions only; in 's0' it takes 'action 1' (1 such pairs)",
    ),
    "a policy of the wrong length": (
        lambda: evaluate(table(), [0, 0, 0]),
        InvalidPolicyError,
        "a policy table must have 2 rows, one per state; got 3",
    ),
    "a policy that returns the wrong length": (
        lambda: evaluate(navigation.world(), lambda states: np.zeros(min(len(states), 7)), episodes=10),
        InvalidPolicyError,
        "a policy must return one action or one row of probabilities per state; for 10 states it returned shape (7,)",
    ),
    "no absorbing state reachable": (
        lambda: best_policy(table(transitions=ENDLESS)),
        ImproperPolicyError,
        "an absorbing state must be reachable from every start; from 's0' no policy surely ends (1 of 1 starts). Hint: "
        "mark the states that end an episode with absorbing=, or give a discount below 1",
    ),
    "a policy that never ends": (
        lambda: evaluate(table(transitions=ENDLESS), [0, 0]),
        ImproperPolicyError,
        "the policy must end from every start; from 's0' it may stay for ever in {s0} (1 of 1 starts). Hint: give a "
        "discount below 1, a horizon, or another policy",
    ),
    "an outcome whose margin is a text": (
        lambda: Outcome("length", 1.0, margin="1"),
        InvalidOutcomeError,
        "margin of outcome 'length' must be at least 0; got '1'",
    ),
    "an outcome whose range has one end": (
        lambda: Outcome("length", 1.0, range=(0,)),
        InvalidOutcomeError,
        "range of outcome 'length' must be (low, high); got (0,)",
    ),
    "a number for outcomes": (
        lambda: explain(chain.world(), chain.current(), chain.proposed(), outcomes=5),
        InvalidOutcomeError,
        "outcomes must be Outcome objects; got int. Hint: Outcome('name', of=...)",
    ),
    "a number for candidates": (
        lambda: improve(chain.world(), chain.current(), 5),
        InvalidOptionError,
        "candidates must be a list of policies; got 5",
    ),
    "a number for an explanation": (
        lambda: check(5),
        InvalidOptionError,
        "check judges an explanation; got int. Hint: explain gives one, and so does plan.explanation",
    ),
    "a result for a patch": (
        lambda: Patch.from_dict(explain(chain.world(), chain.current(), chain.proposed()).to_dict()),
        InvalidResultError,
        "expected the JSON form of a patch; got that of 'Explanation'",
    ),
    "a number for several policies": (
        lambda: changelog(chain.world(), 5),
        InvalidOptionError,
        "a changelog needs a list of at least two policies; got 5",
    ),
    "a text for levels": (
        lambda: Discretised(lambda states: states, bins="a"),
        InvalidPolicyError,
        "bins must be at least two levels, (A,) or (A, d) finite numbers; got <U1 of shape ()",
    ),
    "a text for a budget": (
        lambda: improve(chain.world(), chain.current()).at("2"),
        InvalidOptionError,
        "a budget must be a number of at least 0; got '2'",
    ),
    "a case of a state that is not there": (
        lambda: explain(chain.world(), chain.current(), chain.proposed()).case(-1),
        InvalidInputError,
        "there is no state -1. Hint: states are 's0', …, or numbers from 0 to 11",
    ),
    "half an action": (
        lambda: explain(chain.world(), np.full(12, 0.5), chain.proposed()),
        InvalidPolicyError,
        "a policy of shape (S,) must hold action indices; entry 0 is 0.5 (12 of 12 are off). Hint: pass probabilities "
        "as an (S, A) array",
    ),
    "a text for transitions": (
        lambda: table(transitions="a"),
        InvalidWorldError,
        "transitions must hold numbers, in rows of the same length; got 'a'",
    ),
    "a text for a discount": (
        lambda: table(discount="0.9"),
        InvalidWorldError,
        "discount must be above 0 and at most 1; got '0.9'",
    ),
    "a number for the names of actions": (
        lambda: table(actions=2),
        InvalidWorldError,
        "actions must be a list of names; got 2",
    ),
    "a list for the action of a log": (
        lambda: Log(pl.DataFrame({"x": [1], "do": ["a"]}), state="x", action=["do"], reward="x"),
        InvalidLogError,
        "action must name a column of the log by a text; got ['do']",
    ),
    "numbers for the state of a log": (
        lambda: Log(pl.DataFrame({"x": [1], "do": ["a"]}), state=[0], action="do", reward="x"),
        InvalidLogError,
        "state must name a column of the log by a text; got [0]",
    ),
    "an unknown environment": (
        lambda: Simulator("FrozenLak-v1"),
        InvalidWorldError,
        "'FrozenLak-v1' is not a registered environment",
    ),
    "an unknown environment for a table": (
        lambda: TabularMDP.from_gymnasium("Taxy-v3"),
        InvalidWorldError,
        "'Taxy-v3' is not a registered environment",
    ),
    "an environment without a table": (
        lambda: TabularMDP.from_gymnasium("CartPole-v1"),
        InvalidWorldError,
        "CartPole",
    ),
    "an outcome named twice": (
        lambda: table(outcomes=[Outcome("cost", 1.0), Outcome("cost", 2.0)]),
        InvalidOutcomeError,
        "outcome names must be unique; 'cost' is used twice. Hint: rename one, or set return_name= if it clashes with "
        "the return.",
    ),
    "an outcome named like the return": (
        lambda: table(outcomes=[Outcome("return", 1.0)]),
        InvalidOutcomeError,
        "outcome names must be unique; 'return' is used twice. Hint: rename one, or set return_name= if it clashes "
        "with the return.",
    ),
    "an outcome that is none": (
        lambda: table(outcomes=["cost"]),
        InvalidOutcomeError,
        "outcomes must be Outcome objects; got str. Hint: Outcome('name', of=...)",
    ),
    "something else than a world": (
        lambda: evaluate("FrozenLake-v1", [0]),
        InvalidWorldError,
        "expected a TabularMDP, Simulator or Log; got str. Hint: wrap an environment in Simulator(env)",
    ),
    "a level in percent": (
        lambda: evaluate(chain.world(), chain.current(), level=95),
        InvalidOptionError,
        "level must be between 0 and 1, such as 0.95; got 95",
    ),
    "a level in words": (
        lambda: evaluate(chain.world(), chain.current(), level="high"),
        InvalidOptionError,
        "level must be between 0 and 1, such as 0.95; got 'high'",
    ),
    "a horizon of nothing": (
        lambda: evaluate(chain.world(), chain.current(), horizon=0),
        InvalidOptionError,
        "horizon must be a whole number of at least 1; got 0",
    ),
    "half an episode": (
        lambda: evaluate(navigation.world(), navigation.current, episodes=0.5),
        InvalidOptionError,
        "episodes must be a whole number of at least 1; got 0.5",
    ),
    "episodes in words": (
        lambda: evaluate(navigation.world(), navigation.current, episodes="many"),
        InvalidOptionError,
        "episodes must be a whole number of at least 1; got 'many'",
    ),
    "a negative seed": (
        lambda: evaluate(navigation.world(), navigation.current, seed=-1),
        InvalidOptionError,
        "seed must be a whole number of at least 0; got -1",
    ),
    "a budget in words": (
        lambda: improve(chain.world(), chain.current(), budget="some"),
        InvalidOptionError,
        "budget must be a number of changes, 0 or more; got 'some'",
    ),
    "a state that the table does not have": (
        lambda: improve(chain.world(), chain.current(), freeze="state = s99"),
        ParseError,
        "'s99' is not the name of a value of 'state'; did you mean 's9'?",
    ),
    "a word that no row of the log has": (
        lambda: improve(visits(), "log", freeze=["age < 30", "age < 40 and plan in {pro, bsic}"]),
        ParseError,
        "'bsic' is not the name of a value of 'plan'; did you mean 'basic'?",
    ),
    "a number where the log has words": (
        lambda: improve(visits(), "log", freeze="plan = 3"),
        ParseError,
        "expected the name of a value of 'plan'; came '3'",
    ),
    "a word where the log has numbers": (
        lambda: improve(visits(), "log", freeze="age = old"),
        ParseError,
        "expected a number; came 'old'",
    ),
    "an unknown unit": (
        lambda: improve(chain.world(), chain.current(), unit="euro"),
        InvalidOptionError,
        "unit must be 'expected' or 'total'; got 'euro'",
    ),
    "an unknown style": (
        lambda: explain(chain.world(), chain.current(), chain.proposed(), style="poem"),
        InvalidOptionError,
        "style must be 'plain' or 'paper'; got 'poem'",
    ),
    "a tolerance that is no share": (
        lambda: explain(chain.world(), chain.current(), chain.proposed(), policy_tolerance=2),
        InvalidOptionError,
        "policy_tolerance must be at least 0 and below 1; got 2",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_answered_in_one_line(name):
    call, kind, message = BAD[name]
    with pytest.raises(kind) as caught:
        call()
    assert isinstance(caught.value, PolidiffError)
    text = str(caught.value)
    assert message in text
    assert "\n" not in text
    assert len(text) < 400


def test_errors_about_input_are_value_errors():
    with pytest.raises(ValueError, match="must sum to 1"):
        table(transitions=moves([0.5, 0.4]))
    assert issubclass(InvalidWorldError, InvalidInputError)


def test_values_that_a_world_knows_are_not_refused():
    known = known_values(visits())
    assert known == {"age": (), "plan": ("basic", "extra plus", "pro")}
    (first, second) = parse_rules("plan = extra plus and age = 7.5 or plan in {pro, basic}", ["age", "plan"], known)
    assert [condition.values for condition in first.conditions + second.conditions] == [
        ("extra plus",), (7.5,), ("pro", "basic"),
    ]  # fmt: skip
    assert parse_case("plan=gold, age=young", ["age", "plan"]) == {"plan": "gold", "age": "young"}  # nothing is known


def test_good_input_is_not_refused():
    assert evaluate(table(), [0, 0]).outcomes["return"].estimate == pytest.approx(2.0)
    assert evaluate(table(absorbing=[], discount=0.5), [0, 0]).outcomes["return"].estimate == pytest.approx(2.0)
