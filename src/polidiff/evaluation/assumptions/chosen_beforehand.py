"""Whether the rules that a log judges were chosen before anybody looked at it."""

from __future__ import annotations

from dataclasses import replace

from polidiff.evaluation.comparison import GroupVerdicts
from polidiff.evaluation.verdicts import as_unknown
from polidiff.policies.protocol import PolicyLike
from polidiff.records.outcome import Assumption
from polidiff.records.patch import Patch
from polidiff.worlds.protocol import World

NAME = "chosen beforehand"


def chosen_on(world: World, *policies: PolicyLike) -> Assumption | None:
    """That a policy carries a patch whose edits `improve` chose on the very rows of this log; None if none does.

    A log with other rows, even a few, or with other columns as its state, counts as other data.
    """
    patches = [patch for policy in policies if isinstance(patch := getattr(policy, "patch", None), Patch)]
    here = [patch for patch in patches if patch.chosen_on and patch.chosen_on == getattr(world, "fingerprint", "")]
    if not here:
        return None
    judged = f"; improve judged them on rows that did not choose them: {here[0].judged}" if here[0].judged else ""
    detail = f"these rules were chosen on this very log, so it flatters them{judged}"
    return Assumption(NAME, "the log's fingerprint in the patch", "failed", detail, "Judge them on another log.")


def undecided(judged: GroupVerdicts, chosen: Assumption, everyone: int) -> GroupVerdicts:
    """What a log says about rules that it chose itself: nothing that is decided; to all together it is said in full."""
    short = chosen.detail.split(";")[0]
    verdicts = tuple(
        tuple(
            replace(
                as_unknown(replace(verdict, note=None), chosen.detail if group == everyone else short),
                holds_up_to=None,
                rests_on=None,
            )
            for verdict in row
        )
        for group, row in enumerate(judged.verdicts)
    )
    return replace(judged, verdicts=verdicts, assumptions=(chosen, *judged.assumptions))
