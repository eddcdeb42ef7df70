"""What the sepsis model says, in at most six sentences that can be read aloud.

Survival is told per 100 patients, changes as directions of fluid and vasopressor, a plan as its rules, and the last two
sentences say where it is fragile and what it is not.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping

import numpy as np
from scipy import sparse

from polidiff.domains.icu_sepsis import ACTIONS, CAVEATS, SHARES, SOURCE, current, proposed, sepsis_data, world
from polidiff.evaluation.exact import ExactEvaluator, exact_evaluator
from polidiff.explanation.words import listing
from polidiff.parallel import one_blas_thread
from polidiff.policies.protocol import one_hot, top_actions
from polidiff.records.action import Action
from polidiff.records.arrays import IntArray
from polidiff.records.explanation import Explanation
from polidiff.records.numbers import number, percent
from polidiff.records.plan import Frontier, Plan, PlanRule
from polidiff.records.rule import Condition, Rule
from polidiff.regions.describe import main_direction
from polidiff.worlds.tabular import TabularMDP

SPOKEN = {"fluid": "fluid", "pressor": "vasopressor"}
COUNTS = ("no", "one", "two", "three", "four", "five", "six")
DRAWS = 20


def briefing(explanation: Explanation, frontier: Frontier) -> tuple[str, ...]:
    """Six sentences about the best policy of the model and the plans of few rules on the way to it."""
    verdicts = {verdict.outcome: verdict for verdict in explanation.verdicts}
    now, best = verdicts["survival"].current, verdicts["survival"].proposed
    assert now is not None
    assert best is not None
    hours = verdicts["length of stay"].difference.estimate
    longer = f"{number(abs(hours), 2)} hours {'longer' if hours > 0 else 'shorter'}"
    directions = [f"{words} in {percent(share)}" for words, share in direction_shares().items()]
    smallest, largest = next(plan for plan in frontier if plan.rules), frontier.best
    low, high = gain_if_off(largest)
    return (
        f"In this model {_of_100(now.estimate)} of 100 patients survive under what clinicians did most often, and "
        f"{_of_100(best.estimate)} under the best policy that it knows.",
        f"The best policy treats otherwise in {number(explanation.changes, 2)} decisions per stay: "
        f"{listing(directions)} of them; stays are {longer}.",
        _survivors(smallest),
        _more_rules(smallest, largest),
        f"This is fragile: the model offers these doses in {percent(largest.applicable or 0.0)} of the decisions "
        f"that the rules cover, clinicians gave them in {percent(share_given(largest))} of the decisions that change, "
        f"and if every probability is off by about a tenth, the gain is between {_of_100(low)} and {_of_100(high)}.",
        "The model was built from records in which the sickest were treated most; it is no advice for treatment.",
    )


def summary(explanation: Explanation, frontier: Frontier) -> str:
    """The sentences, how well rules tell the whole difference, every plan, and what to keep in mind."""
    sentences = explanation.methods.study.get("summary") or briefing(explanation, frontier)
    plans = [
        f"{len(plan.rules):>7}  {_of_100(plan.expected_return):>14}  {number(plan.changes, 3):>26}" for plan in frontier
    ]
    return "\n".join(
        [
            *(f"• {sentence}" for sentence in sentences),
            "",
            *_curve(explanation),
            "",
            "Plans of few rules, each evaluated exactly in the model (level 0 is no dose, 4 the highest quarter):",
            f"{'rules':>7}  {'survive of 100':>14}  {'changed decisions per stay':>26}",
            *plans,
            "",
            "Keep in mind:",
            *(f"• {caveat}" for caveat in (*CAVEATS, SOURCE)),
        ]
    )


def _curve(explanation: Explanation) -> list[str]:
    """F1 of at most eight numbers of rules, the one told on the page among them."""
    points = explanation.tradeoff[1:]
    picked = {round(k) for k in np.linspace(0, len(points) - 1, 7)} | {k for k, p in enumerate(points) if p.chosen}
    shown = [points[k] for k in sorted(picked)]
    return [
        "Rules that tell where fluid and vasopressor go up or down under the best policy, and how well (F1):",
        f"{'rules':>12}" + "".join(f"{point.rules:>6}" for point in shown),
        f"{'conditions':>12}" + "".join(f"{point.literals:>6}" for point in shown),
        f"{'F1':>12}" + "".join(f"{point.f1:>6.2f}" for point in shown),
    ]


def direction_shares() -> Mapping[str, float]:
    """Shares of the decisions that the best policy makes otherwise, by what moves most; the largest first.

    >>> list(direction_shares())[0]
    'more fluid'
    """
    old, new = np.asarray(current(), dtype=np.int64), proposed()
    visits = ExactEvaluator(world(), one_hot(new, len(ACTIONS))).visits()
    named = [Action.of(levels) for levels in ACTIONS]
    shares: dict[str, float] = {}
    for state in np.flatnonzero((old != new) & ~world().absorbing):
        direction = main_direction(named[old[state]], named[new[state]])
        words = f"{'more' if direction.sign > 0 else 'less'} {SPOKEN[direction.component]}"
        shares[words] = shares.get(words, 0.0) + float(visits[state])
    total = sum(shares.values())
    return {words: share / total for words, share in sorted(shares.items(), key=lambda item: -item[1])}


def rule_words(rule: Rule) -> str:
    """A rule as it is read aloud, with the unit of each quantity.

    >>> rule_words(Rule((Condition("SOFA", 0, low=2.9), Condition("age", 1, low=-0.21, high=0.92))))
    'SOFA is at least 2.9 points and age is between −0.21 and 0.92 SD'
    """
    return " and ".join(_condition(condition) for condition in rule.conditions) or "the patient is treated at all"


def _condition(condition: Condition) -> str:
    share = condition.feature in SHARES and condition.feature != "vasopressor dose"
    low, high = (percent(bound) if share else number(bound, 2) for bound in (condition.low, condition.high))
    unit = "" if condition.feature in SHARES else " points" if condition.feature == "SOFA" else " SD"
    name = f"the share {condition.feature}" if share else condition.feature
    if math.isinf(condition.high):
        return f"{name} is at least {low}{unit}"
    if math.isinf(condition.low):
        return f"{name} is below {high}{unit}"
    return f"{name} is between {low} and {high}{unit}"


def _of_100(share: float) -> str:
    return f"{100 * share:.1f}"


def _survivors(plan: Plan) -> str:
    count = COUNTS[len(plan.rules)]
    rules = "; otherwise, ".join(_rule(listed) for listed in plan.rules)
    return f"With {count} rule{'s' * (count != 'one')} {_of_100(plan.expected_return)} survive: {rules}."


def _more_rules(smallest: Plan, best: Plan) -> str:
    """What further rules add: the whole plan, or only what comes behind the rules already told."""
    moves = [(listed.rule, listed.move) for listed in smallest.rules]
    if [(listed.rule, listed.move) for listed in best.rules[:-1]] != moves:
        return _survivors(best)
    return f"With a further rule {_of_100(best.expected_return)} survive: otherwise, {_rule(best.rules[-1])}."


def _rule(listed: PlanRule) -> str:
    return f"where {rule_words(listed.rule)}, {_move(listed.move)}"


def _move(move: str) -> str:
    """What to do, from the name of a move of levels.

    >>> _move("pressor to 2"), _move("fluid to 0")
    ('set vasopressor to level 2', 'give no fluid')
    """
    name, _, level = move.partition(" to ")
    return f"set {SPOKEN[name]} to level {level}" if level != "0" else f"give no {SPOKEN[name]}"


def share_given(plan: Plan) -> float:
    """How often clinicians did what the plan does, over the decisions that it changes."""
    old, new = np.asarray(current(), dtype=np.int64), _actions(plan)
    visits = np.where(old != new, ExactEvaluator(world(), one_hot(new, len(ACTIONS))).visits(), 0.0)
    given = sepsis_data().clinicians[np.arange(len(new)), new]
    return float(visits @ given / visits.sum())


@one_blas_thread()
def gain_if_off(plan: Plan) -> tuple[float, float]:
    """Least and largest gain in survival over models whose probabilities are off by about a tenth."""
    rng = np.random.default_rng(0)
    gains = []
    for _ in range(DRAWS):
        other = _perturbed(world(), rng)
        now, then = (exact_evaluator(other, policy).totals(other.rewards) for policy in (current(), _actions(plan)))
        gains.append(float(then - now))
    return min(gains), max(gains)


def _perturbed(table: TabularMDP, rng: np.random.Generator) -> TabularMDP:
    """The table with every transition probability scaled by about a tenth and rows summing to 1 again."""
    moves = table.transitions.copy()
    moves.data = moves.data * np.exp(0.1 * rng.standard_normal(len(moves.data)))
    sums = np.asarray(moves.sum(axis=1)).ravel()
    other = copy.copy(table)
    other.transitions = sparse.csr_array(sparse.diags_array(1 / np.where(sums > 0, sums, 1.0)) @ moves)
    return other


def _actions(plan: Plan) -> IntArray:
    return top_actions(plan.policy.probabilities(np.arange(world().n_states)))
