"""What to do with a difference: advice to whoever has to decide, and the gate of a release.

The rules, in the order in which they are asked:

1. The policies act the same: there is nothing to adopt.
2. No outcome has a preferred direction: better and worse are not defined, and nothing is advised.
3. An outcome gets worse beyond doubt and none gets better: do not.
4. One gets better and another worse: weigh them; that is a choice of values, not of evidence.
5. One gets better beyond doubt, none worse:
   the evidence is a log whose assumptions failed or are doubtful, or would be turned by weak unrecorded reasons: test
   first; another outcome is unknown: test that outcome; somebody loses beyond doubt: adopt a part; else: adopt.
   Nobody has looked for groups that lose, as in a plan that is not explained: look at it first. No region tells where
   the policies part: look for the reason first.
   Unless actions were drawn by lot, the advice names the strength of unrecorded reasons up to which this holds; where
   no range bounds what an event too rare to be in the log may cost, it says so.
6. Every outcome is the same within its margin: there is no reason to change.
7. What is left is unknown: test first, with the size of a test that would tell, unless the log that judges the rules
   has chosen them, or its assumptions failed: the effect that it estimates is then no size to plan a test by.

Nothing is advised that the evidence does not carry: an unknown outcome never counts as harmless.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from scipy import stats

from polidiff.evaluation.assumptions.log_checks import fragile, only_if
from polidiff.evaluation.comparison import CHOSEN
from polidiff.evaluation.verdicts import RARE_IN_GROUPS
from polidiff.explanation.region_places import group_words, losers
from polidiff.explanation.text import unit_text, untold
from polidiff.explanation.words import (
    assumption_text,
    changes_numbers,
    estimate_text,
    interval_text,
    listing,
    odds_text,
    spoken_amount,
)
from polidiff.options import CheckOptions
from polidiff.records.explanation import Explanation, Verdict
from polidiff.records.numbers import counted, number, percent
from polidiff.records.outcome import Outcome
from polidiff.records.parse import Guard, parse_guards
from polidiff.records.plan import CheckResult, Frontier, Plan
from polidiff.records.suppression import suppressed

POWER = 0.8
CLEAR = "; the evidence for both is clear."
LARGEST_TEST = 10_000_000
LEAST_TESTED = 20  # episodes; with fewer, means are not near enough to normal to size a test by
MOST_TIMES = 30  # the record itself: an estimate that needs a larger test is noise, and no effect to size a test by
MOST_NAMED = 3
SHOWN_AT_ONCE = (
    "An outcome that every decision shows at once, such as the chance of a rare reward in place of the reward, lets "
    "explain tell where."
)

Kind = Literal["nothing", "undefined", "do not", "weigh", "adopt", "adopt a part", "test first", "no reason", "look"]


@dataclass(frozen=True)
class Advice:
    """What to do, in one sentence, and why."""

    kind: Kind
    sentence: str
    reasons: tuple[str, ...] = ()


def advise(explanation: Explanation) -> Advice:
    """The advice that the evidence carries."""
    decided = any(verdict.direction in ("more", "less") for verdict in explanation.verdicts)
    if not explanation.regions and not explanation.withheld and not decided and not untold(explanation):
        return Advice("nothing", "There is nothing to adopt: the two policies act the same wherever it matters.")
    losing = list(dict.fromkeys(group_words(explanation, entry) for entry in losers(explanation)))
    advice = weigh_up(explanation, explanation.verdicts, losing)
    if advice.kind not in ("adopt", "adopt a part") or explanation.regions or explanation.withheld:
        return advice
    better = [verdict for verdict in explanation.verdicts if verdict.valence == "better"]
    loses = f", and {_groups(losing)} would lose" if losing else ""
    sentence = f"Look for the reason first: it is better on {_named(better)}, but no region tells where{loses}."
    return Advice("look", sentence, (SHOWN_AT_ONCE,) * explanation.world.played)


def weigh_up(
    record: Explanation | Frontier, verdicts: Sequence[Verdict], losing: Sequence[str] | None, what: str = "it"
) -> Advice:
    """The advice that verdicts carry; `losing` are the groups that lose, None where nobody has looked for any."""
    preferred = {outcome.name for outcome in record.outcomes if outcome.prefer is not None}
    asked = [verdict for verdict in verdicts if verdict.outcome in preferred]
    if not asked:
        return Advice(
            "undefined", "Say first which outcomes should rise or fall: without it, neither policy is the better one."
        )
    better = [verdict for verdict in asked if verdict.valence == "better"]
    worse = [verdict for verdict in asked if verdict.valence == "worse"]
    unknown = [verdict for verdict in asked if verdict.direction == "unknown"]
    if worse and not better:
        doubted = doubts(record, worse)
        rest = f", and what it does to {_named(unknown)} is not known" if unknown else ""
        better_on = " and better on nothing" * (not unknown)
        lost = f"it is worse on {_named(worse)}{better_on}{_if_so(record, worse, doubted)}{rest}"
        seen = " on this evidence" * bool(unknown)
        return Advice("do not", f"Do not adopt {what}{seen}: {lost}.", (*doubted, *_tests(record, unknown)))
    if worse:
        doubted = doubts(record, [*better, *worse])
        if_so = _if_so(record, [*better, *worse], doubted)
        sentence = f"Weigh {what}: it is better on {_named(better)} and worse on {_named(worse)}{if_so}."
        return Advice("weigh", sentence, (f"Which matters more is yours to say{'.' if if_so else CLEAR}", *doubted))
    if better:
        return _with_a_gain(record, better, unknown, losing, what)
    if not unknown:
        alarms = tuple(assumption_text(a) for a in record.assumptions if a.alarming)
        but = f", but {evidence(record)} is in doubt" if alarms else ""
        sentence = f"There is no reason to change: it makes no difference to {_named(asked)}{but}."
        return Advice("no reason", sentence, alarms)
    failed = tuple(assumption_text(a) for a in record.assumptions if a.status == "failed")
    sentence = f"Test {what} first: what it does to {_named(unknown)} is not known."
    return Advice("test first", sentence, failed or _tests(record, unknown))


def _with_a_gain(
    record: Explanation | Frontier,
    better: list[Verdict],
    unknown: list[Verdict],
    losing: Sequence[str] | None,
    what: str,
) -> Advice:
    doubted = doubts(record, better)
    gain, unseen = f"it is better on {_named(better)}", _unseen(record)
    if_so = conditions(record, better)
    if doubted:
        base = evidence(record)
        return Advice("test first", f"Test {what} first: {gain} in {base}, but {base} is in doubt.", doubted)
    loses = f"{_groups(losing)} would lose" if losing else ""
    if unknown:
        also = f", and {loses}" * bool(loses)
        sentence = f"Test {what} first: {gain}{if_so}, but what it does to {_named(unknown)} is not known{also}."
        return Advice("test first", sentence, (*_tests(record, unknown), *unseen))
    if loses:
        part = "a part" if what == "it" else f"a part of {what}"
        kept = "Keep the current policy for them, and adopt the proposed one for all others."
        return Advice("adopt a part", f"Adopt {part}{if_so}: {gain} overall, but {loses}.", (kept, *unseen))
    if losing is None:
        return Advice("look", f"Look at {what} first{if_so}: {gain}, and no outcome gets worse on average.", unseen)
    return Advice("adopt", f"Adopt {what}{if_so}: {gain}, and no group is shown to lose.", unseen)


def evidence(record: Explanation | Frontier) -> str:
    """What verdicts were estimated from."""
    return "the record" if record.world.recorded else "what was played"


def _if_so(record: Explanation | Frontier, judged: Sequence[Verdict], doubted: Sequence[str]) -> str:
    """The condition behind what is decided: that the evidence is in doubt, else how strong hidden reasons may be."""
    if doubted:
        return f", but {evidence(record)} is in doubt"
    if_so = conditions(record, judged)
    return f",{if_so}" if if_so else ""


def conditions(record: Explanation | Frontier, judged: Sequence[Verdict | Plan]) -> str:
    """What must be so for all that is decided to hold: no strong unrecorded reason, and nothing costly unseen."""
    if_so = lasting(judged)
    unseen = " if no event too rare to be in the record would turn it" if _unseen(record) else ""
    return f"{if_so} and{unseen.removeprefix(' if')}" if if_so and unseen else if_so + unseen


def _unseen(record: Explanation | Frontier) -> tuple[str, ...]:
    """What an event too rare to be in a log would have to cost, where no range is declared that bounds it."""
    unbounded = [a for a in record.assumptions if a.name == "rare events" and a.status == "not testable"]
    return tuple(assumption_text(a, follows=True) for a in unbounded)


def lasting(judged: Sequence[Verdict | Plan]) -> str:
    """How strong unrecorded reasons may be for all that is decided to hold; a fragile verdict says it in its note.

    Nothing where actions were drawn by lot, or no strength that was tried undoes it.
    """
    strengths = [(v.holds_up_to, getattr(v, "note", None) or "") for v in judged if v.holds_up_to is not None]
    least, note = min(strengths, default=(math.inf, ""))
    return f" {only_if(least)}" if math.isfinite(least) and only_if(least) not in note else ""


def doubts(record: Explanation | Frontier, verdicts: list[Verdict]) -> tuple[str, ...]:
    """What speaks against the record that decided verdicts rest on: failed tests, and weak reasons that would do."""
    failed = [assumption_text(a) for a in record.assumptions if a.alarming and a.name != RARE_IN_GROUPS]
    one_step = record.world.one_step
    strengths = [(v.holds_up_to, v.outcome) for v in verdicts if v.holds_up_to is not None]
    weak = [
        f"Unrecorded reasons that change the odds of a decision {odds_text(strength)} would be enough to explain "
        f"the effect on {outcome}."
        for strength, outcome in sorted(strengths)[:1]
        if fragile(strength, one_step)
    ]
    return (*failed, *weak)


def _groups(losing: Sequence[str]) -> str:
    """The first groups that lose, and how many more do."""
    more = len(losing) - MOST_NAMED
    return listing([*losing[:MOST_NAMED], *[counted(more, "further group")] * (more > 0)])


def _named(verdicts: list[Verdict]) -> str:
    names = [verdict.outcome for verdict in verdicts]
    return listing(names) if len(names) <= MOST_NAMED else f"{len(names)} outcomes"


def _tests(record: Explanation | Frontier, unknown: list[Verdict]) -> tuple[str, ...]:
    """How large a test would tell, for each outcome whose estimate says how large the effect may be."""
    if any(a.status == "failed" for a in record.assumptions):  # what is estimated then is no effect to size a test by
        return ()
    units, outcomes = _units(record), {outcome.name: outcome for outcome in record.outcomes}
    noun = "decision" if record.world.one_step else "episode"
    sized = ((verdict, size_of_test(verdict, _spread(record, verdict), units)) for verdict in unknown[:MOST_NAMED])
    return tuple(
        f"A test with about {number(size, places=1 - math.floor(math.log10(size)))} {noun}s, half of them under each "
        "policy, would show an effect of "
        f"{estimate_text(verdict.difference, outcomes[verdict.outcome], difference=True).lstrip('+−')} on "
        f"{verdict.outcome} in {percent(POWER)} of cases."
        for verdict, size in sized
        if size is not None and size >= LEAST_TESTED
    )


def _units(record: Explanation | Frontier) -> int:
    """Episodes that the record rests on; 0 where that is not said."""
    episodes = record.world.facts.get("episodes")
    return int(episodes) if isinstance(episodes, (int, float)) else 0


def _spread(record: Explanation | Frontier, verdict: Verdict) -> float | None:
    r"""Standard deviation :math:`\sigma` of an outcome over episodes: of the logged ones, else of those played.

    An interval from a log is no mean of its episodes. That of played episodes reaches :math:`z \sigma / \sqrt n` to the
    side where it does not span doubts.
    """
    if record.world.recorded:
        return record.world.spread.get(verdict.outcome)
    current = verdict.current
    if current is None or not 0 < current.level < 1:
        return None
    half = min(current.high - current.estimate, current.estimate - current.low)
    return half / float(stats.norm.ppf((1 + current.level) / 2)) * math.sqrt(_units(record))


def size_of_test(verdict: Verdict, spread: float | None, units: int) -> int | None:
    r"""Episodes of a test of two equal arms that shows the estimated effect :math:`\delta` with 80 % power.

    .. math:: N = \frac{4 \sigma^2 (z_{1 - \alpha/2} + z_{0.8})^2}{\delta^2}

    None where the effect or the spread :math:`\sigma` is not known, or the effect so small beside it that it may be
    chance in a record of `units` episodes.
    """
    effect = verdict.difference.estimate
    if spread is None or not math.isfinite(effect) or effect == 0 or not 0 < spread < math.inf:
        return None
    z = float(stats.norm.ppf((1 + verdict.pointwise.level) / 2))
    size = 4 * (spread * (z + float(stats.norm.ppf(POWER))) / effect) ** 2
    return math.ceil(size) if size <= min(LARGEST_TEST, MOST_TIMES * units) else None


def check_explanation(explanation: Explanation, options: CheckOptions) -> CheckResult:
    """Reasons against the proposed policy; none, and it passes."""
    reasons: list[str] = []
    checked: list[str] = []
    unjudged: tuple[str, ...] = ()
    told = suppressed(explanation)  # the true number decides, and no more is said than a page says
    if options.max_changes is not None:
        most, unit = number(options.max_changes), unit_text(told.world)
        checked.append(f"at most {most} {unit}")
        if explanation.changes > options.max_changes + 1e-9:
            count, between = changes_numbers(told)
            reasons.append(f"{count} {unit}{between and f', {between}'}; allowed {most}")
    by_name = {verdict.outcome: verdict for verdict in told.verdicts}
    outcomes = {outcome.name: outcome for outcome in told.outcomes}

    for guard in parse_guards(options.keep, list(by_name)):
        checked.append(guard.text)
        reason = _broken(guard, by_name[guard.outcome], outcomes.get(guard.outcome))
        if reason:
            reasons.append(reason)
    if not options.allow_unknown:
        checked.append("no outcome is unknown")
        reasons += [_unknown(v, outcomes[v.outcome]) for v in told.verdicts if v.direction == "unknown"]
    if options.keep or not options.allow_unknown:
        reasons += [a.detail for a in told.assumptions if a.name == CHOSEN and a.alarming]
    if not options.keep:
        judged = [outcome.name for outcome in explanation.outcomes if outcome.prefer is not None]
        unjudged = tuple(outcome.name for outcome in explanation.outcomes if outcome.prefer is None)
        if judged:
            checked.append(f"{'none of ' + ', '.join(judged) if unjudged else 'no outcome'} gets worse over all starts")
        worse = [v for v in told.verdicts if v.valence == "worse"]
        reasons += [f"{v.outcome} gets worse (by {spoken_amount(v.difference, outcomes[v.outcome])})" for v in worse]
    return CheckResult(not reasons, tuple(reasons), tuple(checked), unjudged)


def _unknown(verdict: Verdict, outcome: Outcome) -> str:
    known = not math.isnan(verdict.difference.estimate)
    why = interval_text(verdict.difference, outcome=outcome) if known else verdict.note or "nothing is known of it"
    return f"the effect on {outcome.name} is unknown ({why})"


def _broken(guard: Guard, verdict: Verdict, outcome: Outcome | None) -> str | None:
    """Why a guard does not hold; the bound of the interval decides, not the estimate."""
    interval = verdict.difference if guard.relative else verdict.proposed
    if interval is None:
        return f"{guard.text}: {guard.outcome} was not measured"
    edge = interval.high if guard.sense == "<=" else interval.low
    holds = edge <= guard.value + 1e-9 if guard.sense == "<=" else edge >= guard.value - 1e-9
    if holds:
        return None
    what = "difference to current" if guard.relative else "value"
    other = interval.low if guard.sense == "<=" else interval.high
    within = other <= guard.value if guard.sense == "<=" else other >= guard.value
    said = "is not shown to hold" if within else "does not hold"
    return f"{guard.text} {said}: {what} {interval_text(interval, difference=guard.relative, outcome=outcome)}"
