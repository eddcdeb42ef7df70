"""Checks of one log, each giving an `Assumption`: history, drift, propensities, independence, cut episodes.

And the sentences about what a verdict rests on, for a reader who is no statistician.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from polidiff.evaluation.assumptions.history import (
    DOUBTED,
    OFTEN_ENOUGH,
    REJECTED,
    Deepened,
    Transitions,
    least_p_value,
    most_power,
)
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.numbers import counted, number, percent
from polidiff.records.outcome import Assumption, Status
from polidiff.worlds.log_rows import EpisodeRows, LoggedRows
from polidiff.worlds.shards.transition_counts import CUT

MANY_CUT = 0.05  # share of episodes
FEWEST_EPISODES = 40  # below this a correlation of a half between neighbours is missed more often than seen
FEWEST_PEOPLE = 16  # early and late each: fewer do not show a correlation of a half with when they came
ROUNDING = 1e-12  # of the largest of several means: they are the same
MOST_STRETCHES = 32  # of the log, between which people who come back show
FEWEST_NAMED = 10  # cut episodes behind a state that is named
THIRDS = 3  # of each feature, in which recorded probabilities are compared with what was done
FRAGILE = 1.5  # a verdict that holds up to less is called fragile: one measurement more often moves odds as far
UNSEEN = 3.0  # an event whose chance is below this over the number of tries may not have been met (rule of three)
DRIFT = "early and late {}s follow different worlds"  # episodes, or decisions
WHOLE_TIME = "Verdicts speak of the log's whole time, not of its end."
DRAWN = "Actions were drawn with recorded probabilities, so no unrecorded reason stands behind them."
FRAGILE_EVERY = 1.2  # the same where every decision of an episode may have such reasons


def status_of(p_value: float) -> Status:
    """The word for a p-value; levels are such that all tests together alarm in at most 2 % of clean logs."""
    return "failed" if p_value < REJECTED else "doubtful" if p_value < DOUBTED else "held"


def shown(p_value: float, what: str) -> str:
    """What a test says, with its p-value.

    >>> shown(0.24, "early and late differ"), shown(1e-9, "early and late differ")
    ('no sign that early and late differ (p = 0.24)', 'early and late differ (p < 0.001)')
    """
    chance = "p < 0.001" if p_value < REJECTED else f"p = {p_value:.2g}"
    return f"{what} ({chance})" if p_value < DOUBTED else f"no sign that {what} ({chance})"


def tested(name: str, how: str, p_value: float, what: str, consequence: str, power: float) -> Assumption:
    """What a test found; the consequence is told unless it held, which it has not where it would not have failed."""
    status = status_of(p_value)
    if status == "held" and power < OFTEN_ENOUGH:
        return not_testable(name, too_short(power))
    return Assumption(name, how, status, shown(p_value, what), "" if status == "held" else consequence, p_value)


def not_testable(name: str, reason: str) -> Assumption:
    """An assumption that this log cannot test, and why."""
    return Assumption(name, "", "not testable", reason, "")


def too_short(power: float) -> str:
    """Why a test that found nothing says nothing."""
    return f"the log is too short: a test would miss even a strong dependence in {percent(1 - power)} of such logs"


def history_check(deepened: Deepened) -> Assumption:
    """Whether what follows a decision depends on earlier ones, and whether a deeper state mends that."""
    first = min(deepened.p_values)
    if first >= DOUBTED and deepened.power < OFTEN_ENOUGH:
        return not_testable("history", too_short(deepened.power))
    if deepened.depth == 0:
        mended = ""
    elif deepened.quiet:
        past = "the decision" if deepened.depth == 1 else f"the {deepened.depth} decisions"
        mended = f"Verdicts are judged with {past} before as part of the state"
        if first >= DOUBTED:
            mended += ": a log as short as this hardly shows whether it matters."
        elif deepened.explained:
            mended += ". What was decided shows no sign of reasons beyond that."
        else:
            mended += ". If the reason is one that was never recorded, this does not cure it."
    else:
        mended = f"Even {deepened.depth} decisions before as part of the state do not mend it: verdicts are unknown."
    if deepened.steps > 1:
        mended = f"The number of decisions so far counts as part of the state: it says when an episode ends. {mended}"
    what = "what comes next depends on earlier decisions"
    detail = shown(first, what if deepened.steps == 1 else f"{what}, or on how many there were")
    return Assumption("history", _HISTORY, status_of(first), detail, mended.strip(), first)


_HISTORY = (
    "next state and outcomes against the decision before (pooled chi-square), and what a decision brings and leads to "
    "against the actions so far (covariance), given state and action"
)


def drift_check(transitions: Transitions) -> Assumption:
    """Whether early and late episodes follow the same world."""
    rows = transitions.rows
    how = f"early against late {rows.noun}s in the order of the log, given state and action (pooled chi-square)"
    if rows.n_episodes < FEWEST_EPISODES:
        return not_testable("drift", f"only {counted(rows.n_episodes, rows.noun)}")
    late = (2 * rows.episode >= rows.n_episodes).astype(np.int64)
    tests = transitions.tests(late, once=True)
    return tested("drift", how, least_p_value(tests), DRIFT.format(rows.noun), WHOLE_TIME, most_power(tests))


def people_drift_check(rows: LoggedRows, group: AnyArray) -> Assumption:
    """Whether people (episodes,) who come early and late in the log differ in what an episode brings them.

    Where people come back, early and late episodes differ because people do.
    """
    unit, size = np.unique(group, return_inverse=True, return_counts=True)[1:]
    late = 2 * np.bincount(unit, np.arange(len(unit))) / size >= len(unit)
    if min(late.sum(), (~late).sum()) < FEWEST_PEOPLE:
        return not_testable("drift", f"only {counted(len(size), 'person')}")
    means = [np.bincount(unit, total) / size for total in episode_totals(rows).T]
    p_values = [_means_differ(m[late], m[~late]) for m in means if np.ptp(m) > ROUNDING * np.abs(m).max()]
    how = "outcomes of people who come early and late in the log (Welch's test)"
    p_value = min(1.0, len(p_values) * min(p_values, default=1.0))
    return tested("drift", how, p_value, DRIFT.format(rows.noun), WHOLE_TIME, 1.0)


def _means_differ(one: FloatArray, other: FloatArray) -> float:
    """P-value of Welch's test; without a warning where the entries of one group are nearly alike."""
    first, second = ((part.mean(), part.std(ddof=1), part.size) for part in (one, other))
    return float(stats.ttest_ind_from_stats(*first, *second, equal_var=False).pvalue)


def episode_totals(rows: EpisodeRows) -> FloatArray:
    """(episodes, M) outcomes of each episode."""
    return np.column_stack([np.bincount(rows.episode, column, rows.n_episodes) for column in rows.gains.T])


def cut_check(rows: LoggedRows, names: tuple[str, ...] = ()) -> Assumption:
    """How many episodes stop before their end, and where that is most frequent."""
    last = np.append(np.diff(rows.episode) > 0, True)
    cut = last & (rows.follow == CUT)
    share = float(cut.sum() / max(last.sum(), 1))
    how = "records whose last row says no end"
    if share == 0.0:
        return Assumption("cut episodes", how, "held", "every record runs to its end", "")
    where = "" if rows.states.ndim > 1 else _most_cut(rows.states, cut, names)
    said = "What would have followed is estimated from rows that went on; verdicts are off if cuts had a reason."
    status: Status = "doubtful" if share > MANY_CUT else "held"
    return Assumption("cut episodes", how, status, f"{percent(share)} of the episodes are cut{where}", said)


def _most_cut(states: IntArray, cut: BoolArray, names: tuple[str, ...]) -> str:
    """The state that stands out most, if one does."""
    visits, cuts = np.bincount(states), np.bincount(states, cut)
    typical = cuts.sum() / visits.sum()
    excess = (cuts - visits * typical) / np.sqrt(np.maximum(visits * typical * (1 - typical), 1e-12))
    worst = int(excess.argmax())
    if cuts[worst] < FEWEST_NAMED or excess[worst] < stats.norm.isf(REJECTED / len(visits)):
        return ", no state more than others"
    name = names[worst] if names else str(worst)
    rest = (cuts.sum() - cuts[worst]) / max(visits.sum() - visits[worst], 1)
    return (
        f", most in {name!r}: after {percent(cuts[worst] / visits[worst])} of its decisions, elsewhere {percent(rest)}"
    )


def independence_check(
    rows: LoggedRows, group: AnyArray | None = None, transitions: Transitions | None = None
) -> Assumption:
    """Whether episodes can be counted as people: those of one unit alike, or without units, neighbours in the log.

    Parameters
    ----------
    group : array (episodes,), optional
        The person that each episode belongs to.
    transitions : of the rows, where their states are numbers
    """
    gains = episode_totals(rows)
    if rows.n_episodes < FEWEST_EPISODES:
        return not_testable("independence", f"only {counted(rows.n_episodes, rows.noun)}")
    if group is None:
        alike = min(1.0, gains.shape[1] * min(neighbours_alike(column) for column in gains.T))
        together = 1.0 if transitions is None else least_p_value(transitions.tests(stretches(rows), once=True))
        p_value = alike if transitions is None else min(1.0, 2 * min(alike, together))
        how = f"neighbouring {rows.noun}s (rank correlation) and stretches of the log (pooled chi-square)"
        consequence = "Intervals count stretches of the log as people. Hint: group="
        return tested("independence", how, p_value, f"{rows.noun}s that stand together are alike", consequence, 1.0)
    unit, sizes = np.unique(group, return_inverse=True, return_counts=True)[1:]
    worst = max(correlation_within(unit, column) for column in gains.T)
    each = number(float(sizes.mean()), 3)
    detail = f"{counted(len(sizes), 'unit')} with {each} {rows.noun}s each; correlation within a unit {worst:.2f}"
    said = f"Intervals count units, not {rows.noun}s." if sizes.max() > 1 else ""
    return Assumption("independence", "outcomes within and between units", "held", detail, said)  # whatever it is


def stretches(rows: EpisodeRows, *, parts: int = 1) -> IntArray:
    """(n,) number of the stretch of the log that a row's episode lies in: of as many as leave ten episodes in each.

    `parts`: how many each of them is cut into.
    """
    stretches = min(MOST_STRETCHES, max(2, rows.n_episodes // 10)) * parts
    return np.asarray(rows.episode * stretches // rows.n_episodes)


def neighbours_alike(values: FloatArray) -> float:
    """One-sided p-value of the rank correlation of each value with the next."""
    rank = stats.rankdata(values)
    centred = rank - rank.mean()
    scatter = float(centred @ centred)
    if scatter == 0.0:
        return 1.0
    n = len(values)
    return float(stats.norm.sf((float(centred[1:] @ centred[:-1]) / scatter + 1 / n) * np.sqrt(n)))


def correlation_within(unit: IntArray, values: FloatArray) -> float:
    """Correlation of two values of one unit (analysis of variance)."""
    size = np.bincount(unit)
    groups, n = len(size), len(values)
    if groups < 2 or n == groups:
        return 0.0
    means = np.bincount(unit, values) / size
    between = float((size * (means - values.mean()) ** 2).sum() / (groups - 1))
    within = float(((values - means[unit]) ** 2).sum() / (n - groups))
    if between == 0.0 and within == 0.0:
        return 0.0
    typical = (n - (size**2).sum() / n) / (groups - 1)
    return max(0.0, (between - within) / (between + (typical - 1) * within))


def propensity_check(rows: LoggedRows) -> Assumption:
    """Whether the recorded probabilities are those with which actions were taken."""
    if rows.probability is None:
        return not_testable("propensities", "the log records no probabilities")
    strata = [np.zeros(len(rows.actions), dtype=np.int64), *_strata(rows.states)]
    p_values = np.concatenate([_as_recorded(stratum, rows.actions, rows.probability) for stratum in strata])
    p_value = float(min(1.0, len(p_values) * p_values.min())) if len(p_values) else 1.0
    how = "times an action was taken against its recorded probability, within states (exact binomial, Bonferroni)"
    consequence = "What is weighted by recorded probabilities is off; they are estimated instead."
    return tested("propensities", how, p_value, "recorded probabilities are wrong", consequence, 1.0)


def _strata(states: AnyArray) -> list[IntArray]:
    """Groups of rows in which actions are counted: the states, or thirds of each feature that is a number."""
    if states.ndim == 1:
        return [states.astype(np.int64)]
    if states.dtype == object:
        return []
    place = [stats.rankdata(column, nan_policy="omit") / len(column) for column in states.T]
    return [np.where(np.isnan(p), THIRDS, np.minimum(THIRDS * np.nan_to_num(p), THIRDS - 1)).astype(int) for p in place]


def _as_recorded(stratum: IntArray, action: IntArray, probability: FloatArray) -> FloatArray:
    r"""P-values of :math:`\sum_{i: a_i = a} 1 / p_i = n` for each (stratum, action).

    Where probabilities vary within a stratum, its count is scaled to as many rows as their weights are worth.
    """
    width = int(action.max()) + 1
    key = stratum * width + action
    size = (int(stratum.max()) + 1) * width
    weight = 1 / np.maximum(probability, 1e-9)
    taken, first, second = (np.bincount(key, part, size) for part in (np.ones(len(key)), weight, weight**2))
    met = np.flatnonzero(taken)
    total = np.bincount(stratum)[met // width]
    worth = first[met] ** 2 / second[met]  # rows, as the weights count them
    chance = np.minimum(taken[met] / first[met], 1.0)
    draws = np.maximum(np.round(worth / first[met] * total / chance), np.round(worth))
    below, above = stats.binom.cdf(np.round(worth), draws, chance), stats.binom.sf(np.round(worth) - 1, draws, chance)
    return np.asarray(np.minimum(2 * np.minimum(below, above), 1.0))


def overlap_check(unsupported: FloatArray, episodes: FloatArray, noun: str = "episode") -> Assumption:
    """Whether the log has what the proposed policy does: chances (groups,) that an episode meets what nobody has tried.

    The share that is told is that of the largest group, which is everyone; the status is that of the worst.
    """
    whole, worst = int(np.argmax(episodes)), float(unsupported.max())
    status: Status = "held" if worst <= 1e-9 else "doubtful" if worst < 0.5 else "failed"
    said = "" if status == "held" else "What was never tried is taken as anything within the declared range."
    share, behind = float(unsupported[whole]), max(float(episodes[whole]), 1.0)
    what = "are such as" if noun == "decision" else "meet a decision that"
    detail = f"{_share(share)} of the proposed policy's {noun}s {what} none of {behind:.0f} shows"
    if worst > share + 0.0005:
        detail += f"; in one group of starts {_share(worst)}"
    return Assumption("overlap", _OVERLAP, status, detail, said)


def _share(part: float) -> str:
    return f"{number(100 * part, 2)} %" if part > 0 else "none"


_OVERLAP = "decisions of the proposed policy against those in the log"


def rare_action_check(unsupported: float, most: float) -> Assumption:
    """Whether the log takes what the proposed policy does: the share of decisions on actions next to never taken."""
    status: Status = "held" if unsupported <= 1e-9 else "doubtful" if unsupported <= most else "failed"
    detail = f"{_share(unsupported)} of the decisions would change to actions that the log next to never takes there"
    said = "" if status == "held" else "What these bring is guessed from alike rows."
    if status == "failed":
        said = f"Beyond {percent(most)} nothing is decided."
    return Assumption("overlap", _OVERLAP, status, detail, said)


def farthest(declared: tuple[float, float] | None, usual: float | None) -> float:
    """How far an outcome may lie from what it usually is, or from another where that is not known.

    >>> farthest((0.0, 1.0), 0.2), farthest((0.0, 1.0), None), farthest(None, 0.2)
    (0.8, 1.0, inf)
    """
    low, high = (-np.inf, np.inf) if declared is None else declared
    return float(high - low if usual is None else max(high - usual, usual - low))


def rare_event_check(
    edge: float,
    heaviest: float,
    taken: int,
    declared: tuple[float, float] | None,
    usual: float | None = None,
) -> Assumption:
    """What an event too rare to be in the log would have to cost to turn a verdict.

    Parameters
    ----------
    edge : float
        Distance of the interval from 0.
    heaviest : float
        How many more or fewer decisions per episode fall to an action, for each logged decision with it.
    taken : int
        Logged decisions with that action; an event that comes with it with a chance below 3 / taken may be missing.
    usual : float, optional
        The mean outcome of the logged decisions with that action, where each is an episode. An event of chance p that
        brings an end of the declared range moves it by p (end − usual), and none moves it further.
    """
    loss, most = abs(edge) / heaviest / UNSEEN, farthest(declared, usual)
    detail = (
        f"the action that matters most was taken {counted(taken, 'time')}, so the log may lack what follows it fewer "
        f"than 3 in {number(max(taken, 3))} times; if that costs more than {number(loss, 3)}, the verdict turns"
    )
    if loss > most:
        said = f"The declared range rules such an event out: none can cost more than {number(most, 3)}."
        return Assumption("rare events", "rule of three", "held", detail, said)
    known = (
        "no range is declared that would rule it out" if declared is None else "the declared range does not rule it out"
    )
    said = f"Ask whether such an event is possible; {known}."
    status: Status = "not testable" if declared is None else "doubtful"
    return Assumption("rare events", "rule of three", status, detail, said)


def unrecorded_check(randomised: bool) -> Assumption:
    """Whether reasons that the log does not hold may stand behind its actions."""
    name = "unrecorded reasons"
    if randomised:
        seen = "actions were drawn with probabilities that the log records"
        return Assumption(name, "recorded probabilities", "held", seen, "")
    said = "Each decided verdict says up to which strength it holds."
    return Assumption(name, "", "not testable", "no log can show reasons that were not recorded", said)


def strength(gamma: float) -> str:
    """By how much odds change.

    >>> strength(1.3), strength(2.4), strength(float("inf")), strength(1.004)
    ('by more than 30 %', 'by more than 2.4 times', 'more than ten times', 'by even 1 %')
    """
    if gamma < 1.005:
        return "by even 1 %"
    if np.isinf(gamma):
        return "more than ten times"
    return f"by more than {gamma:.1f} times" if gamma >= 1.95 else f"by more than {percent(gamma - 1)}"


def fragile(every: float | None, one_step: bool) -> bool:
    """Whether little would undo a verdict that holds up to a strength; not where no reason can be unrecorded."""
    return every is not None and every < (FRAGILE if one_step else FRAGILE_EVERY)


def only_if(gamma: float) -> str:
    """The doubt that is part of the sentence of a fragile verdict.

    >>> only_if(1.14)
    'if no unrecorded reason changes the odds of a decision by more than 14 %'
    """
    return f"if no unrecorded reason changes the odds of a decision {strength(gamma)}"


def hidden_reasons(every: float, one: float | None = None, scale: tuple[str, float] | None = None) -> str:
    """What unrecorded reasons would have to do to undo a verdict.

    Parameters
    ----------
    every, one : float
        The strength Γ if every decision, or one decision of an episode, has such reasons; one decision per episode: the
        same, and `one` is None.
    scale : (name, strength), optional
        How far the recorded measurement that matters most for the decision moves its odds.

    >>> print(hidden_reasons(1.3)[:35], "…", hidden_reasons(1.3)[-70:])
    This is fragile: it would no longer … unrecorded reasons changed the odds of the decision by more than 30 %.
    """
    frail = "This is fragile: it" if fragile(every, one is None) else "This"
    text = (
        f"{frail} would no longer hold if, among people who look alike in the record, unrecorded reasons changed the "
        f"odds of {'every' if one is not None else 'the'} decision {strength(every)}"
    )
    if one is not None:
        text += f"; if they touched one decision of each episode only, {strength(one)}"
    text += "."
    if scale is not None:
        text += (
            f" For scale: hiding {scale[0]!r}, the recorded measurement that matters most for the decision, changes "
            f"them up to {scale[1]:.1f} times for nine people in ten."
        )
    return text


def rests_on(units: float, unit: str, assumptions: Sequence[Assumption], gamma: str | None) -> str:
    """One line under a verdict: how many people, what was tested, what cannot be, what would change it."""
    counted = [a.name for a in assumptions if a.status == "held" and a.name == "independence" and a.p_value is None]
    held, blind = ([a.name for a in assumptions if a.status == status] for status in ("held", "not testable"))
    held = [name for name in held if name not in counted]
    parts = [f"Rests on {number(round(units))} {unit}"]
    if counted:
        parts.append("independence needs no test, as intervals count people")
    if held:
        parts.append(f"tested and held: {', '.join(held)}")
    against = [f"{a.name} ({a.status})" for a in assumptions if a.alarming]
    if against:
        parts.append(f"speaks against it: {', '.join(against)}")
    if blind:
        parts.append(f"not tested: {', '.join(blind)}")
    line = "; ".join(parts) + "."
    return line if gamma is None else f"{line} {gamma}"
