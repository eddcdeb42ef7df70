"""What changes for one case."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias, cast

import numpy as np
import numpy.typing as npt

from polidiff.divergence import decide
from polidiff.errors import InvalidInputError
from polidiff.evaluation import compare
from polidiff.evaluation.comparison import Comparison
from polidiff.evaluation.verdicts import verdict
from polidiff.explanation.region_places import after_another
from polidiff.explanation.text import acts_the_same, sentence_text
from polidiff.explanation.verdict_words import verdicts_text
from polidiff.explanation.words import place_text, rule_text, swap_text, swap_words, withheld_text
from polidiff.records.arrays import AnyArray
from polidiff.records.explanation import Case, Explanation, Region, Sentence, Verdict
from polidiff.records.numbers import number, share_text
from polidiff.records.outcome import Interval, Outcome
from polidiff.records.rule import GroupRules
from polidiff.records.suppression import suppressed

CaseLike: TypeAlias = "str | int | npt.ArrayLike | Mapping[str, float | str | None]"  # or an index
Features: TypeAlias = "AnyArray | Mapping[str, AnyArray]"  # a row, or columns by name
ROUNDING = 1e-9  # of shares that are summed
AS_RULES_SAY = "the current action"  # whichever that is, where no rule speaks and no policy can be asked


def answer_case(explanation: Explanation, state: CaseLike) -> Case:
    """Same or other action in a state, by which rule, and what to expect.

    `state` is a state's name or index (table), an observation (simulator), or a mapping of features to values, None
    or NaN where they are missing. A result read from a file has no policies: it answers from its rules, and says how
    often they are right where that was counted in a sample. A result that has them says so where a rule is wrong; that
    of a log does not ask them, because what they were counted from may be a handful of people.
    """
    explanation = suppressed(explanation)
    if explanation.world.recorded:
        explanation = replace(explanation, context=None)
    raw, features, name = _resolve(explanation, state)
    region = next((r for r in explanation.regions if r.rule.covers(features)[0]), None)
    known = _known_actions(explanation, raw, features)
    actions = known or ((AS_RULES_SAY, AS_RULES_SAY) if region is None else (region.current, region.proposed))
    shifted = region is not None and region.shift is not None and region.current == actions[0] == actions[1]
    first = _action_text(explanation, name, actions, region, shifted=shifted, known=known is not None)
    ahead, expected = _expected(explanation, raw, features, changed=shifted or actions[0] != actions[1])
    text = " ".join(part for part in (first, ahead) if part)
    return Case(name, actions[0], actions[1], None if region is None else region.id, expected, text)


def _known_actions(explanation: Explanation, raw: AnyArray | None, features: Features) -> tuple[str, str] | None:
    """What the policies do: asked, or as seen in a state that was met; None where only rules can tell."""
    if explanation.context is not None and raw is not None:
        world, current, proposed = explanation.context
        decided = decide(current.probabilities(raw), proposed.probabilities(raw))
        return world.actions[int(decided.current[0])].name, world.actions[int(decided.proposed[0])].name
    names = [feature.name for feature in explanation.world.features]
    if not isinstance(features, Mapping) or not all(name in features for name in names):
        return None
    asked = tuple(features[name][0] for name in names)
    return next(((met.current, met.proposed) for met in explanation.sample if met.values == asked), None)


def _resolve(explanation: Explanation, state: CaseLike) -> tuple[AnyArray | None, Features, str]:
    names = [feature.name for feature in explanation.world.features]
    if isinstance(state, Mapping):
        spoken_of = dict.fromkeys(name for region in explanation.regions for name in region.rule.features)
        missing = [name for name in (spoken_of if state else names) if name != "state" and name not in state]
        unknown = [name for name in state if name not in names]
        if unknown or missing:
            said = f"{unknown[0]!r} is not a feature" if unknown else f"{missing[0]!r} is needed and was not given"
            raise InvalidInputError(f"{said}. Hint: the features are {', '.join(map(repr, names))}")
        given = {name: math.nan if value is None else value for name, value in state.items()}
        columns = {name: np.array([value]) for name, value in given.items()}
        asked = _asked(explanation)
        known = asked is not None and all(name in given for name in names)
        raw = asked.observation([given[name] for name in names]) if asked is not None and known else None
        return raw, columns, ", ".join(f"{k} = {_shown(v)}" for k, v in given.items())
    asked = _asked(explanation)
    if asked is None:
        if isinstance(state, str) and set(names) <= {"state"}:
            return None, {"state": np.array([state], dtype=object)}, state
        if np.shape(state) == (len(names),):
            return _resolve(explanation, dict(zip(names, cast("Sequence[float]", state), strict=True)))
        such = dict.fromkeys(names[:2] or ["x"], 0.05)
        raise InvalidInputError(f"this result answers for features by name, such as {such}; got {state!r:.80}")
    raw, shown = asked.find_state(state)
    return raw, asked.place.features_of(raw), shown


def _asked(explanation: Explanation) -> Comparison | None:
    """The two policies in their world, where the result still has them."""
    return None if explanation.context is None else compare(*explanation.context)


def _expected(
    explanation: Explanation, raw: AnyArray | None, features: Features, *, changed: bool
) -> tuple[str, tuple[Verdict, ...]]:
    """Exact from this state on in a table; else what the sentence for such starts says, if a change is met at all.

    The text says whose mean it is: what was judged over all starts is no promise to one case.
    """
    asked = _asked(explanation)
    known = asked.expected_from(raw) if asked is not None and raw is not None else None
    if asked is not None and known is not None:
        both = zip(asked.place.outcomes, known, strict=True)
        exact = tuple(_exact_verdict(outcome, *values) for outcome, values in both)
        return f"To expect from there on: {verdicts_text(exact, explanation.outcomes)}.", exact
    if not changed and explanation.world.one_step:
        return "", ()
    groups = [(s, GroupRules(s.rules)) for s in explanation.sentences]
    own = next((sentence for sentence, group in groups if group.covers(features)[0]), None)
    if changed and own is not None:
        return _mean_of(explanation, own)
    if changed or (not explanation.regions and not explanation.withheld):
        return "", ()
    if own is not None and own.start is not None and explanation.world.enumerated and acts_the_same(explanation, own):
        return sentence_text(explanation, own), ()
    if own is not None and own.start is not None and _meets_a_change(own):
        return _mean_of(explanation, own, "All such starts meet a change. ")
    return "Whether a change is met later, and what to expect then, cannot be told from this result.", ()


def _mean_of(explanation: Explanation, told: Sentence, lead: str = "") -> tuple[str, tuple[Verdict, ...]]:
    """What a group of starts may expect, said to be theirs and not the case's."""
    effect = verdicts_text(told.verdicts, explanation.outcomes)
    unjudged = "What this case alone may expect was not judged; the mean"
    if told.start is None:
        return f"{unjudged} over all starts: {effect}.", ()
    who = " or ".join(map(place_text, told.rules))
    apart = ", outside earlier groups" if after_another(explanation.sentences, told) else ""
    episodes = "decisions" if explanation.world.one_step else "episodes that start"
    return f"{lead}{unjudged} of {episodes} {who}{apart}: {effect}.", told.verdicts


def _meets_a_change(sentence: Sentence) -> bool:
    """Whether all episodes of a group are known to meet a region."""
    paths = [(sentence.path, sentence.path_share), *((other.path, other.share) for other in sentence.others)]
    met = [sum(share for path, share in paths if path), *(meeting.share for meeting in sentence.meetings)]
    return max(met) >= 1 - ROUNDING


def _exact_verdict(outcome: Outcome, before: float, after: float) -> Verdict:
    difference = Interval.exactly(after - before)
    return verdict(outcome, difference, difference, current=Interval.exactly(before), proposed=Interval.exactly(after))


def _action_text(
    explanation: Explanation, name: str, actions: tuple[str, str], region: Region | None, *, shifted: bool, known: bool
) -> str:
    """What is done, and by which rule; `known`, where not a rule alone says it."""
    if actions[0] == actions[1] and not shifted:
        unshown = withheld_text(explanation) if explanation.context is None else ""
        if not unshown and actions[0] == AS_RULES_SAY and rules_miss(explanation):
            unshown = "as far as the rules tell"
        unlike = f", although {region.id} tells {swap_text(region)} there" if region is not None else ""
        return f"For {name}: {actions[0]}, as now{f', {unshown}' if unshown else ''}{unlike}."
    by = ""
    if region is not None and region.rule.features != ("state",):
        where = rule_text(region.rule) if region.rule.conditions else "it is so everywhere"
        unshown = f", {withheld_text(explanation)}" if region.beside_few and not known else ""
        by = f" (because {where}{unshown}{'' if known else _how_right(region)})"
    shift = region.shift if region is not None and shifted else None
    return f"For {name}: {swap_words(*actions, shift, None)}{by}."


def _how_right(region: Region) -> str:
    """How often a rule is right, where it is not always, or was not seen everywhere, and no policy could be asked."""
    right = region.intervals.get("precision")
    if right is None and region.precision >= 1 - ROUNDING:
        return ""
    return f"; the rule is right in {share_text(region.precision, right)} of its visits, and no policy could be asked"


def rules_miss(explanation: Explanation) -> bool:
    """Whether the rules leave out some of the changes, or may, as only some states of a simulator were met."""
    return explanation.quality.recall < 1 - ROUNDING or explanation.world.played


def _shown(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return "missing" if math.isnan(value) else number(float(value))
