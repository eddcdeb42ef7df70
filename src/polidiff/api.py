"""The verbs: explain, improve, evaluate, check, changelog, compare, compare_forms, load."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import numpy as np

from polidiff.errors import InvalidOptionError, InvalidOutcomeError, InvalidWorldError
from polidiff.options import CheckOptions, EvaluateOptions, ExplainOptions, ImproveOptions
from polidiff.parallel import one_blas_thread
from polidiff.records.outcome import Evaluation, Outcome, check_outcomes
from polidiff.records.parse import parse_guards, parse_rules
from polidiff.records.patch import Patch

if TYPE_CHECKING:
    from polidiff.options import ChangeCost, Classifier, Estimator, Freeze, Keep, Moves, Setting, Style, Unit
    from polidiff.policies import PolicyLike
    from polidiff.records.codec import Record
    from polidiff.records.explanation import Explanation, FormScore
    from polidiff.records.plan import CheckResult, Frontier, ResultComparison
    from polidiff.worlds.protocol import World


@one_blas_thread()
def evaluate(
    world: World,
    policy: PolicyLike,
    *,
    outcomes: Sequence[Outcome] | None = None,
    horizon: int | None = None,
    level: float = 0.95,
    seed: int = 0,
    episodes: int | None = None,
    evaluation: Estimator | None = None,
    min_group: int = 10,
) -> Evaluation:
    """What a policy achieves: exact in a table, with intervals in a simulator or from a log.

    `evaluation` names an estimator for logs ("model bootstrap", "importance sampling", "fitted q"); by default the one
    that was right most often is taken. Starts of a log that fewer than `min_group` people have are left out.

    Examples
    --------
    >>> from polidiff.domains import chain
    >>> slow, fast = (evaluate(chain.world(), policy) for policy in (chain.current(), chain.proposed()))
    >>> slow.outcomes["trajectory length"].estimate < fast.outcomes["trajectory length"].estimate
    True
    """
    options = EvaluateOptions.among(locals())
    from polidiff.evaluation import evaluate as evaluate_in
    from polidiff.evaluation.comparison import chosen_on
    from polidiff.worlds.real_actions import alone

    place, policy = alone(with_outcomes(world, outcomes), policy)
    chosen, result = chosen_on(place, policy), evaluate_in(place, policy, options)
    return result if chosen is None else replace(result, assumptions=(chosen, *result.assumptions))


@one_blas_thread()
def explain(
    world: World,
    current: PolicyLike,
    proposed: PolicyLike | Patch,
    *,
    outcomes: Sequence[Outcome] | None = None,
    level: float = 0.95,
    max_rules: int | None = None,
    policy_tolerance: float = 0.1,
    transition_tolerance: float = 0.1,
    max_splits: int = 2,
    max_steps: int = 1_000_000,
    starts: int | None = None,
    seed: int = 0,
    style: Style = "plain",
    min_group: int = 10,
    classifier: Classifier | None = None,
    evaluation: Estimator | None = None,
) -> Explanation:
    """Where two policies act differently, in which order that is met, and what it does to outcomes.

    A patch as `proposed` is the current policy with its edits made.

    `classifier` learns the regions where states have features: a name ("rules", "rules cnf", "tree", or a package:
    "wittgenstein", "imodels", "pystreed", "pycontree"), or an estimator of scikit-learn's kind whose rules can be read.
    `evaluation` names who judges a log, as in `evaluate`.

    Examples
    --------
    >>> from polidiff.domains import chain
    >>> difference = explain(chain.world(), chain.current(), chain.proposed())
    >>> [(region.rule.conditions[0].values, region.current, region.proposed) for region in difference.regions]
    [(('s1',), 'action 0', 'action 1'), (('s5',), 'action 0', 'action 1')]
    """
    options = ExplainOptions.among(locals())
    from polidiff.evaluation import acting
    from polidiff.explanation.compose import compose
    from polidiff.policies import apply_patch, fitted
    from polidiff.worlds.protocol import known_actions
    from polidiff.worlds.real_actions import compared

    place = with_outcomes(world, outcomes)
    after: PolicyLike
    if isinstance(proposed, Patch):
        real = any(getattr(place, name, None) is not None for name in ("real", "levels"))  # levels are chosen later
        here = proposed if real else fitted(proposed, known_actions(place), place.feature_names)
        after = apply_patch(replace(here, features=place.features_of), acting(place, current, seed=seed))
    else:
        after = proposed
    place, current, after, notes = compared(place, current, after, seed=seed)
    explanation = compose(place, current, after, options)
    patch = _in_columns(explanation.patch, place, current, after)
    return replace(explanation, patch=patch, warnings=(*explanation.warnings, *notes))


@one_blas_thread()
def improve(
    world: World,
    current: PolicyLike,
    candidates: Sequence[PolicyLike] | None = None,
    *,
    budget: float | None = None,
    unit: Unit = "expected",
    max_states: int | None = None,
    max_rules: int | None = None,
    max_conditions: int = 3,
    max_literals: int | None = None,
    moves: Moves = "actions",
    fallback: str = "keep",
    min_support: float | None = None,
    keep: Keep = (),
    freeze: Freeze = (),
    change_cost: ChangeCost | None = None,
    gap: float = 1e-3,
    time_limit: float | None = None,
    level: float = 0.95,
    seed: int = 0,
    pessimism: float = 0.0,
    min_group: int = 10,
) -> Frontier:
    """The few changes that pay most, for every budget of changes, proven.

    With `max_rules` and features a plan is a list of rules; without features it means the number of changed states, and
    in a simulator with candidates the number of changed regions. In a log of feature rows without candidates plans are
    rules, at most three where nobody says how many. `min_support` is a count (in a log, of records behind
    a decision; in a simulator, of decisions played in a cell; in a table, of states behind a rule), or below 1 the
    share of visits behind a rule. With `pessimism` a log's decisions are chosen by their estimate less so many standard
    errors.

    Examples
    --------
    >>> from polidiff.domains import chain
    >>> [round(plan.changes, 6) for plan in improve(chain.world(), chain.current(), unit="total")]
    [0.0, 2.0, 6.0, 8.0]
    """
    keep = (keep,) if isinstance(keep, str) else keep
    freeze = (freeze,) if isinstance(freeze, str) else np.asarray(freeze) if hasattr(freeze, "dtype") else freeze
    options = ImproveOptions.among(locals())
    single = callable(candidates) or isinstance(candidates, str)
    try:
        listed: Setting = candidates if candidates is None else [candidates] if single else list(candidates)
    except TypeError:
        raise InvalidOptionError(f"candidates must be a list of policies; got {candidates!r:.80}") from None
    from polidiff.frontier.improve import improve as improved
    from polidiff.worlds.protocol import known_values
    from polidiff.worlds.real_actions import in_numbers, planned

    place, current, candidates, noted = planned(with_outcomes(world, None), current, listed)
    total = () if place.return_outcome is None else (place.return_outcome,)
    guarded = list(dict.fromkeys(outcome.name for outcome in (*place.outcomes, *total)))
    guards = parse_guards(options.keep, guarded)  # an unknown outcome is told before work that takes minutes
    if isinstance(options.freeze, (tuple, list)):  # not a rule or a mask
        known = known_values(place)
        parsed = [parse_rules(e, place.feature_names, known) if isinstance(e, str) else (e,) for e in options.freeze]
        options = replace(options, freeze=tuple(rule for rules in parsed for rule in rules))
    frontier = improved(place, current, candidates, options, explain)
    name = "" if place.return_outcome is None else place.return_outcome.name
    methods = replace(frontier.methods, min_group=min_group)
    plans = tuple(
        replace(plan, patch=_in_columns(plan.patch, place, current), policy=in_numbers(place, plan.policy))
        for plan in frontier.plans
    )
    asked = (f"Plans were asked to keep {' and '.join(guard.text for guard in guards)}.",) * bool(guards)
    warnings = (*noted, *asked, *frontier.warnings)
    return replace(frontier, plans=plans, methods=methods, objective=frontier.objective or name, warnings=warnings)


def _in_columns(patch: Patch, world: World, current: object, made_from: object = None) -> Patch:
    """The patch with the names of a log's own columns, and with what is known of how its edits were chosen.

    The log's column of actions is what the current policy does only where that policy wrote the log.
    """
    before = getattr(made_from, "patch", patch) or patch
    names = dict(getattr(world, "own_names", {}))
    if not (isinstance(current, str) and current == "log"):
        names.pop("action", None)
    return replace(patch, columns=names, chosen_on=before.chosen_on, judged=before.judged)


def check(
    explanation: Explanation, *, max_changes: float | None = None, keep: Keep = (), allow_unknown: bool = False
) -> CheckResult:
    """Whether a proposed policy may pass: few enough changes, outcomes kept, nothing unknown.

    Examples
    --------
    >>> from polidiff.domains import chain
    >>> difference = explain(chain.world(), chain.current(), chain.proposed())
    >>> check(difference, keep="trajectory length<=current").passed
    False
    """
    from polidiff.explanation.advice import check_explanation
    from polidiff.records.explanation import Explanation

    if not isinstance(explanation, Explanation):
        raise InvalidOptionError(
            f"check judges an explanation; got {type(explanation).__name__}. Hint: explain gives one, and so does "
            "plan.explanation"
        )
    return check_explanation(explanation, CheckOptions(max_changes, keep, allow_unknown))


def changelog(world: World, policies: Sequence[PolicyLike], **options: Setting) -> tuple[Explanation, ...]:
    """What each version of a policy does differently from the one before.

    Examples
    --------
    >>> from polidiff.domains import chain
    >>> [round(step.changes, 2) for step in changelog(chain.world(), [chain.current(), chain.current()])]
    [0.0]
    """
    several = isinstance(policies, Iterable) and getattr(policies, "ndim", 1) != 0
    versions = tuple(policies) if several else ()
    if len(versions) < 2:
        came = len(versions) if several else f"{policies!r:.80}"
        raise InvalidOptionError(f"a changelog needs a list of at least two policies; got {came}")
    return tuple(explain(world, old, new, **options) for old, new in pairwise(versions))


def compare_forms(world: World, current: PolicyLike, proposed: PolicyLike, **options: Setting) -> tuple[FormScore, ...]:
    """How well a reader does with each way of telling the difference.

    Examples
    --------
    >>> from polidiff.domains import chain
    >>> [score.form for score in compare_forms(chain.world(), chain.current(), chain.proposed())][:2]
    ['polidiff', 'paths and immediate effects']
    """
    return explain(world, current, proposed, **options).quality.forms


def compare(old: Explanation | Frontier, new: Explanation | Frontier) -> ResultComparison:
    """The difference of two differences: what is new, gone, larger or smaller, and which verdicts have turned.

    Both are explanations or both are frontiers, from any kind of world, made here or read with `load`.

    Examples
    --------
    >>> from polidiff.domains import chain
    >>> difference = explain(chain.world(), chain.current(), chain.proposed())
    >>> compare(difference, difference).changed
    False
    """
    from polidiff.explanation.result_comparison import compare_results

    return compare_results(old, new)


def load(path: str | os.PathLike[str]) -> Record:
    """Read a result or a patch back from its JSON file.

    Examples
    --------
    >>> import tempfile
    >>> from polidiff.domains import chain
    >>> difference = explain(chain.world(), chain.current(), chain.proposed())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     load(difference.save(f"{folder}/difference.json")).changes == difference.changes
    True
    """
    import polidiff.records.plan  # noqa: F401  (with what it imports, it registers every schema)
    from polidiff.records.codec import load_json

    return load_json(path)


def with_outcomes(world: World, outcomes: Sequence[Outcome] | None) -> World:
    """The world, with other outcomes to tell about if these are given."""
    import copy

    if getattr(world, "kind", None) not in ("table", "simulator", "log"):
        raise InvalidWorldError(
            f"expected a TabularMDP, Simulator or Log; got {type(world).__name__}. Hint: wrap an environment in "
            "Simulator(env)"
        )
    if outcomes is None:
        return world
    told = check_outcomes(outcomes)
    if not told:
        raise InvalidOutcomeError(
            "outcomes must hold at least one Outcome; got none. Hint: leave it out for the world's own"
        )
    if hasattr(world, "with_outcomes"):  # its rows hold the sums of the outcomes that they were read for
        return cast("World", world.with_outcomes(told))
    other = copy.copy(world)
    other.outcomes = told
    return other
