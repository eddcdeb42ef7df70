"""Estimators by name: those that the paper lists for logs, each with an interval and with what it cannot know.

``model bootstrap``      values in the estimated model, solved on reweighted logs (Hanna, Stone and Niekum 2017)
``importance sampling``  whole logged episodes, weighted by how much likelier the policy makes them (self-normalised)
``fitted q``             regressions of the outcome to come, fitted again on halves of the people

None of them is the default: each is confident where it should not be in some log. So each says where its own footing
ends, and gives no bounded interval there: decisions that nobody has tried, too few effective episodes, episodes that
were cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from polidiff.errors import InvalidOptionError
from polidiff.evaluation.assumptions.log_checks import rests_on
from polidiff.evaluation.comparison import GroupVerdicts
from polidiff.evaluation.logged.compare import targets
from polidiff.evaluation.logged.counted_log import CountedLog, counted_log
from polidiff.evaluation.logged.counts import BLOCKS, count_rows
from polidiff.evaluation.logged.judge import tests_of
from polidiff.evaluation.logged.model import RESAMPLES, Starts, bootstrap_values, build_model, split_policy
from polidiff.evaluation.logged.policies import as_log_policy, is_logs, row_chances
from polidiff.evaluation.scores.decisions import decisions_of
from polidiff.evaluation.scores.episodes import FittedRows
from polidiff.evaluation.verdicts import student_quantile, verdict
from polidiff.policies.protocol import PolicyLike, PolicyPair
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray
from polidiff.records.explanation import Verdict
from polidiff.records.numbers import number, percent
from polidiff.records.outcome import Assumption, Evaluation, Interval

if TYPE_CHECKING:
    from polidiff.worlds.log import Log

MOST_UNTRIED = 0.01  # share of a policy's episodes that may meet what nobody has tried
MOST_OFF = 0.1  # of the mean weight of episodes from 1
REFITS = 20  # of fitted q
EFFECTIVE_FLOOR = 100.0  # episodes of equal weight that weighted ones must be worth
MOST_CUT = 0.01  # share of the episodes
LEAST_CHANCE = 1e-3
Fit = Callable[[PolicyLike, BoolArray], FloatArray]  # values of a policy at the rows (n,), fitted on some of them
RARE = 0.01  # logged share below which an action counts as not tried


@dataclass(frozen=True, eq=False)
class Estimates:
    """What an estimator says about two policies (proposed, current), per group of episodes and outcome."""

    values: FloatArray  # (2, groups, M)
    errors: FloatArray  # (3, groups, M) standard errors: proposed, current, difference
    freedom: FloatArray  # (groups,) degrees of freedom of the errors
    unsupported: FloatArray  # (groups,) share of the proposed policy that rests on nothing in the log
    failures: tuple[str | None, ...]  # per group: why no bounded interval is given
    method: str


def judge_by(
    name: str,
    log: Log,
    policies: PolicyPair,
    masks: Sequence[BoolArray],
    *,
    level: float,
    counted: CountedLog | None = None,
    seed: int = 0,
) -> GroupVerdicts:
    """Verdicts for groups of episodes, each a mask (episodes,), by the estimator of this name."""
    current, proposed = policies
    estimates = _estimates(name, log, (proposed, current), masks, counted, seed)
    checks = [Assumption(test, "", "not testable", "", "") for test in (*tests_of(log), "unrecorded reasons")]
    verdicts = as_verdicts(log, estimates, masks, checks, level=level)
    untested = f"Judged by {name}, as asked; no assumption of the log is tested then."
    return replace(verdicts, warnings=(*log.notes, untested))


def as_verdicts(
    log: Log,
    estimates: Estimates,
    masks: Sequence[BoolArray],
    checks: Sequence[Assumption],
    *,
    level: float,
) -> GroupVerdicts:
    """Verdicts on every outcome for groups of episodes; the level holds over all of them together (Bonferroni)."""
    family = len(masks) * len(log.outcomes)
    strict = 1 - (1 - level) / family
    person = log.rows.person[log.rows.first]
    people = np.array([len(np.unique(person[mask])) for mask in masks])

    def verdict_of(g: int, m: int) -> Verdict:
        episodes = int(masks[g].sum())
        counts = f"{log.check.noun}s"
        unit = counts if people[g] == episodes else f"{counts}, counted as {people[g]} people"
        plain = verdict(
            log.outcomes[m],
            _interval(estimates, 2, g, m, strict, level),
            _interval(estimates, 2, g, m, level, level),
            current=_interval(estimates, 1, g, m, level, level),
            proposed=_interval(estimates, 0, g, m, level, level),
            unsupported=float(estimates.unsupported[g]),
            note=estimates.failures[g],
        )
        return replace(plain, rests_on=rests_on(episodes, unit, checks, None))

    return GroupVerdicts(
        verdicts=tuple(tuple(verdict_of(g, m) for m in range(len(log.outcomes))) for g in range(len(masks))),
        unsupported=estimates.unsupported,
        episodes=np.array([float(mask.sum()) for mask in masks]),
        family=family,
        method=estimates.method,
        people=people,
    )


def evaluate_by(name: str, log: Log, policy: PolicyLike, *, level: float, seed: int = 0) -> Evaluation:
    """Expected outcomes of one policy over the logged starts, and from each of them, by the estimator of this name."""
    begins = log.rows.states[log.rows.first]
    starts = np.unique(begins).tolist() if log.discrete else []
    masks = [np.ones(len(begins), dtype=np.bool_), *(begins == start for start in starts)]
    estimates = _estimates(name, log, (policy, policy), masks, None, seed)
    intervals = {
        o.name: [_interval(estimates, 0, g, m, level, level) for g in range(len(masks))]
        for m, o in enumerate(log.outcomes)
    }
    why = estimates.failures[0]
    return Evaluation(
        outcomes={outcome: each[0] for outcome, each in intervals.items()},
        per_start={
            outcome: {log.states[start]: interval for start, interval in zip(starts, each[1:], strict=True)}
            for outcome, each in intervals.items()
        },
        method=estimates.method if why is None else f"{estimates.method}: no interval, since {why}",
        truncated=log.check.cut / max(log.check.episodes, 1),
        details={"episodes": float(log.check.episodes), "unsupported": float(estimates.unsupported[0])},
    )


def _estimates(
    name: str, log: Log, pair: PolicyPair, masks: Sequence[BoolArray], counted: CountedLog | None, seed: int
) -> Estimates:
    if log.sampled:
        raise InvalidOptionError(
            f"evaluation={name!r} needs all rows in memory; only some of {log.check.rows} are held. Hint: leave "
            "evaluation out, or raise max_rows"
        )
    return ESTIMATES[name](log, pair, masks, counted, seed)


def _interval(estimates: Estimates, which: int, g: int, m: int, level: float, nominal: float) -> Interval:
    """Estimate ± Student's quantile × standard error, unbounded where the estimator has failed."""
    values = estimates.values[:, g, m]
    middle = float(values[0] - values[1] if which == 2 else values[which])
    if estimates.failures[g] is not None or not np.isfinite(estimates.errors[which, g, m]):
        return Interval(middle, -np.inf, np.inf, nominal)
    half = student_quantile(level, float(estimates.freedom[g])) * float(estimates.errors[which, g, m])
    return Interval(middle, middle - half, middle + half, nominal)


def _resampled(
    log: Log, pair: PolicyPair, masks: Sequence[BoolArray], counted: CountedLog | None, seed: int
) -> Estimates:
    """Model bootstrap: the spread of the resampled values, and that of the starts."""
    counted = counted if counted is not None else counted_log(log, pair, seed=seed)
    rows, states = log.rows, counted.row_state()
    counts = count_rows(rows, states, counted.counts.n_states, log.n_actions, blocks=BLOCKS)
    weights = np.array(
        [np.bincount(states[rows.first][mask], minlength=counts.n_states) / mask.sum() for mask in masks]
    )
    starts = Starts(weights, np.array([float(mask.sum()) for mask in masks]))
    ends = np.array([0.0 if o.range is None else sum(o.range) / 2 for o in log.outcomes])
    split = targets(counted, pair[1], pair[0], np.random.default_rng(seed))[:2]
    models = [build_model(counts.edges, target, discount=log.discount) for target in split]
    values = np.array([[model.values(k, end) for k, end in enumerate(ends)] for model in models])  # (2, M, S)
    asked = split if pair[0] is not pair[1] else split[:1]
    drawn = [bootstrap_values(counts, target, starts, ends, discount=log.discount, seed=seed) for target in asked]
    spread = [part.var(axis=0, ddof=1) for part in (drawn[0], drawn[-1], drawn[0] - drawn[-1])]
    begins = [np.array([starts.variance(v) for v in one]).T for one in (*values, values[0] - values[1])]
    unsupported = models[0].visits(weights) @ models[0].unknown
    failures = tuple(
        f"{percent(share)} of the proposed policy's episodes meet what nobody has tried: the model knows nothing of it"
        if share > MOST_UNTRIED
        else None
        for share in unsupported
    )
    return Estimates(
        np.einsum("gs,pks->pgk", weights, values),
        np.sqrt(np.array(spread) + np.array(begins)),
        np.full(len(masks), RESAMPLES - 1.0),
        np.asarray(unsupported),
        failures,
        f"model bootstrap, {RESAMPLES} resamples of {number(rows.n_episodes)} logged {rows.noun}s",
    )


def _weighted(
    log: Log, pair: PolicyPair, masks: Sequence[BoolArray], counted: CountedLog | None, seed: int
) -> Estimates:
    """Self-normalised importance sampling of whole episodes; people are the units of its errors."""
    keep = log.rows.whole
    whole, rows = keep[log.rows.first], log.rows.some(keep)
    taken, index = rows.probability, np.arange(len(rows.actions))
    if taken is None:
        taken = np.maximum(row_chances(log, seed=seed)[keep][index, rows.actions], LEAST_CHANCE)
    total = rows.to_come(log.discount)[rows.first]
    weights = []
    for policy in pair:
        ratio = np.ones(len(index))
        if not is_logs(policy):
            ratio = as_log_policy(log, policy).probabilities(rows.states)[index, rows.actions] / taken
        weights.append(np.multiply.reduceat(ratio, np.flatnonzero(rows.first)))
    person = rows.person[rows.first]
    values, errors = np.zeros((2, len(masks), total.shape[1])), np.full((3, len(masks), total.shape[1]), np.inf)
    effective = np.zeros(len(masks))
    for g, mask in enumerate(masks):
        inside = mask[whole]
        if not inside.any():
            continue
        parts = [_self_normalised(weight[inside], total[inside]) for weight in weights]
        values[:, g] = [middle for middle, _ in parts]
        shares = (parts[0][1], parts[1][1], parts[0][1] - parts[1][1])
        errors[:, g] = [standard_error(share, person[inside]) for share in shares]
        effective[g] = min(_effective(weight[inside]) for weight in weights)
    failures = tuple(_why_not_weighted(1 - float(whole.mean()), [w[mask[whole]] for w in weights]) for mask in masks)
    untried = np.full(len(masks), _untried(log, pair[0], seed))
    worth = number(round(min(map(_effective, weights))))
    method = f"importance sampling of {number(rows.n_episodes)} logged {rows.noun}s, worth {worth}"
    return Estimates(values, errors, np.maximum(effective - 1, 1.0), untried, failures, method)


def _why_not_weighted(cut: float, weights: Sequence[FloatArray]) -> str | None:
    """Why episodes with these weights give no interval; None: they do."""
    if cut > MOST_CUT:
        return f"{percent(cut)} of the episodes were cut, and only whole ones can be weighted"
    size = min(map(_effective, weights))
    if size < EFFECTIVE_FLOOR:
        return f"the weighted records are worth {size:.0f} of equal weight, and {EFFECTIVE_FLOOR:.0f} are needed"
    mass = min((float(weight.mean()) for weight in weights), key=lambda mean: -abs(mean - 1))
    if abs(mass - 1) > MOST_OFF:
        return f"the weights come to {percent(mass)} of what they should: some of what a policy does was not logged"
    return None


def _effective(weight: FloatArray) -> float:
    """How many episodes of equal weight would tell as much."""
    return float(weight.sum() ** 2 / max((weight**2).sum(), 1e-300))


def _self_normalised(weight: FloatArray, total: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(M,) the weighted mean, and (episodes, M) what each episode adds to its error."""
    mass = max(float(weight.sum()), 1e-300)
    middle = weight @ total / mass
    return middle, weight[:, None] * (total - middle) / mass


def standard_error(influence: FloatArray, person: AnyArray) -> FloatArray:
    """(M,) standard error of a sum of influences, with people as units."""
    _, unit = np.unique(person, return_inverse=True)
    summed = np.array([np.bincount(unit, column) for column in influence.T])
    count = summed.shape[1]
    return np.sqrt((summed**2).sum(axis=1) * (count / max(count - 1, 1)))


def _regressed(
    log: Log, pair: PolicyPair, masks: Sequence[BoolArray], counted: CountedLog | None, seed: int
) -> Estimates:
    """Fitted q: the spread of values that are fitted again on halves of the people, drawn by chance.

    A half of the people is as far from all of them as all of them are from the truth (half-samples, McCarthy 1969).
    """
    person = log.rows.person
    drawn = np.random.default_rng(seed).permuted(np.tile(np.arange(int(person.max()) + 1) % 2, (REFITS, 1)), axis=1)
    fit = _labels_fitted(log, counted if counted is not None else counted_log(log)) if log.discrete else _fitted(log)
    halves = [np.ones(len(person), dtype=np.bool_), *(draw[person] == 0 for draw in drawn)]
    asked = pair if pair[0] is not pair[1] else pair[:1]
    fits = [[_of_starts(log, policy, half, masks, fit) for policy in asked] for half in halves]
    both = np.array([(one[0], one[-1]) for one in fits])
    off = both[1:] - both[0]
    spread = [np.sqrt((part**2).mean(axis=0)) for part in (off[:, 0], off[:, 1], off[:, 0] - off[:, 1])]
    share = _untried(log, pair[0], seed)
    why = f"{percent(share)} of the proposed decisions were hardly ever tried, and a regression only guesses them"
    return Estimates(
        both[0],
        np.array(spread),
        np.full(len(masks), REFITS - 1.0),
        np.full(len(masks), share),
        (why if share > MOST_UNTRIED else None,) * len(masks),
        f"fitted q, {REFITS} refits on {number(log.rows.n_episodes)} logged {log.rows.noun}s",
    )


def _of_starts(log: Log, policy: PolicyLike, half: BoolArray, masks: Sequence[BoolArray], fit: Fit) -> FloatArray:
    """(groups, M) value over the starts of each group among rows `half` (n,)."""
    values = log.rows.to_come(log.discount)[log.rows.first] if is_logs(policy) else fit(policy, half)
    part = half[log.rows.first]
    return np.array([values[mask & part if (mask & part).any() else mask].mean(axis=0) for mask in masks])


def _labels_fitted(log: Log, counted: CountedLog) -> Fit:
    """Over labels the regression is a mean, and what it settles at is the value in the estimated model."""
    rows, size = log.rows, (counted.counts.n_states, log.n_actions)

    def fit(policy: PolicyLike, half: BoolArray) -> FloatArray:
        part = rows.some(half)
        edges = count_rows(part, part.states, *size, blocks=1).edges
        model = build_model(edges, split_policy(counted.table(policy), None), discount=log.discount, lend=True)
        return np.column_stack([model.values(k, 0.0) for k in range(len(log.outcomes))])[rows.states[rows.first]]

    return fit


def _fitted(log: Log) -> Fit:
    """(episodes, M) values of the starts under a policy, by fitted evaluation on some rows (n,)."""
    decisions = decisions_of(log.rows, log.n_actions)
    states, begin = log.rows.states[decisions.order], decisions.x[decisions.first]
    back = np.argsort(log.rows.episode[decisions.order][decisions.first])

    def fit(policy: PolicyLike, half: BoolArray) -> FloatArray:
        table = np.asarray(as_log_policy(log, policy).probabilities(states), dtype=np.float64)
        fitted = FittedRows.of(decisions, half[decisions.order], discount=log.discount, seed=0)
        values = (fitted.under(table, k, begin, whole=True) for k in range(len(log.outcomes)))
        return np.column_stack([(table[decisions.first] * one).sum(axis=1) for one in values])[back]

    return fit


def _untried(log: Log, policy: PolicyLike, seed: int) -> float:
    """Share of a policy's decisions in logged states that were taken in fewer than one in a hundred of such states."""
    if is_logs(policy):
        return 0.0
    wanted = np.asarray(as_log_policy(log, policy).probabilities(log.rows.states), dtype=np.float64)
    return float((wanted * (row_chances(log, seed=seed) < RARE)).sum() / len(wanted))


ESTIMATES = {"model bootstrap": _resampled, "importance sampling": _weighted, "fitted q": _regressed}  # by name
