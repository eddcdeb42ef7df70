"""`improve`: judge(lift(solve(reduce(world)))).

A world is reduced to something small (`surrogates`), plans are found there with their proofs, lifted back to policies
of the world and judged in it. Which kind of world it is, only the surrogates know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from polidiff._version import versions
from polidiff.explanation.plan_text import gain_text
from polidiff.explanation.words import rule_text
from polidiff.frontier.region_plans import solve_regions
from polidiff.frontier.rule_plans.improve import improve_with_rules
from polidiff.frontier.rule_plans.moves import actions_only
from polidiff.frontier.table import improve_table
from polidiff.options import ImproveOptions
from polidiff.policies.protocol import Candidates, PolicyLike
from polidiff.progress import Clock
from polidiff.records.action import Action
from polidiff.records.explanation import Explanation
from polidiff.records.outcome import Interval
from polidiff.records.plan import Frontier, Plan
from polidiff.surrogates import Explain, Reduction, Surrogate, reduce
from polidiff.worlds.protocol import World

if TYPE_CHECKING:
    from polidiff.options import Moves
    from polidiff.surrogates.log_edits import RegionEdits

TOLD_APART = 0.1  # of a judged gain: a table that is further off is no judge of single changes
AT_ONCE = 0.01  # seconds of a search for which no time is left


def improve(
    world: World, current: PolicyLike, candidates: Candidates, options: ImproveOptions, explain: Explain
) -> Frontier:
    """The plans that pay most, judged in the world."""
    clock = Clock(options.time_limit)
    reduction = reduce(world, current, candidates, options)
    while True:
        left = None if options.time_limit is None else max(clock.left(), AT_ONCE)
        solved = reduction.solve(Search(options, Clock(left)))
        lifted = [reduction.lift(plan) for plan in solved.plans]
        nearer = reduction.nearer(lifted)
        if nearer is None:
            break
        reduction = nearer
    plans = reduction.judge(lifted)
    frontier = _concluded(reduction, len(solved) - len(plans), reduction.conclude(solved, plans))
    if frontier.world.recorded:
        frontier = replace(frontier, plans=tuple(_chosen(plan, frontier, world) for plan in frontier.plans))

    def explained(plan: Plan) -> Explanation:
        return explain(reduction.world, current, plan.policy if plan.patch.changing else current)

    return replace(frontier, plans=tuple(replace(plan, _explain=partial(explained, plan)) for plan in frontier.plans))


def _chosen(plan: Plan, frontier: Frontier, world: World) -> Plan:
    """A plan from a log, which says which rows chose it: they would flatter it."""
    if not plan.patch.changing:
        return plan
    judged = "" if plan.gain is None else f"{frontier.objective} {gain_text(plan.gain, frontier)}"
    patch = replace(plan.patch, chosen_on=getattr(world, "fingerprint", ""), judged=judged)
    return replace(plan, patch=patch, policy=replace(plan.policy, patch=patch))


def _concluded(reduction: Reduction, dropped: int, frontier: Frontier) -> Frontier:
    """The frontier with what a reader must know about how it was made; some plans may not have been judged."""
    notes = [
        note if isinstance(note, str) else f"{note.before} where {rule_text(note.rule)} {note.after}"
        for note in reduction.notes(frontier.plans)
    ]
    if frontier.plans[0].breaks:
        notes.append("The current policy itself breaks what is to be kept: it is shown to compare with.")
    limited = dropped > 0 and frontier.unit != "rules"
    more = (f"{dropped} larger plans were not judged and are left out.",) if limited else ()
    promised = _promised(frontier)
    plans = (frontier.plans[0], *sorted(frontier.plans[1:], key=frontier.cost))  # played, they cost other than planned
    told = promised is None and plans[-1] is frontier.plans[-1]
    if promised is not None:
        notes.append(f"What single changes are worth, and a part of a plan, is not told: {promised}.")
        plans = tuple(replace(plan, adoption=()) for plan in plans)
    return replace(
        frontier,
        plans=plans,
        ledger=frontier.ledger if told else None,
        methods=replace(frontier.methods, versions=versions()),
        warnings=(*notes, *more, *frontier.warnings),
        assumptions=frontier.best.assumptions or reduction.assumptions(),
    )


def _promised(frontier: Frontier) -> str | None:
    """What the table that chose the plans says of the one that its ledger values, where the world denies it.

    It agrees if its gain lies in the interval that was judged, or within a tenth of the estimate beside it.
    """
    nothing, plan = frontier.plans[0], frontier.plans[-1]
    if frontier.ledger is None or plan.gain is None or plan.model_gap is None:
        return None
    gain = plan.gain.estimate + plan.model_gap - (nothing.model_gap or 0.0)
    slack = abs(plan.gain.estimate) * TOLD_APART
    if plan.gain.low - slack <= gain <= plan.gain.high + slack:
        return None
    promised, judged = (gain_text(one, frontier) for one in (Interval.exactly(gain), plan.gain))
    return f"the table that chose the plans promises {promised} for the largest of them, where it is {judged}"


@dataclass(frozen=True)
class Search:
    """Ways to find plans, within what the user asked for."""

    options: ImproveOptions
    clock: Clock

    def changed_places(self, surrogate: Surrogate) -> Frontier:
        """Sets of changed places."""
        return improve_table(surrogate, replace(self.options, max_states=self._most_places()), self.clock)

    def rules(self, surrogate: Surrogate) -> Frontier:
        """Lists of rules."""
        moves = self._moves(surrogate)
        options = self.options if len(moves) else replace(self.options, max_rules=0)
        return improve_with_rules(surrogate, replace(options, moves=moves if len(moves) else "actions"), self.clock)

    def edits(self, problem: RegionEdits) -> Frontier:
        """Sets of edits."""
        return solve_regions(problem, self.options, self._most_places())

    def prescribed(self, actions: Sequence[Action], where: str) -> list[str]:
        """The actions that rules may prescribe."""
        moves = actions_only(self.options.moves, actions, where)
        return [move.action_name for move in moves if move.action_name is not None]

    def _most_places(self) -> int | None:
        """Without features one rule is one changed state; of two limits the lower one binds."""
        given = [limit for limit in (self.options.max_states, self.options.max_rules) if limit is not None]
        return min(given, default=None)

    def _moves(self, surrogate: Surrogate) -> Moves:
        """Moves that are possible somewhere; in cells, which have no action of their own, to actions only."""
        if not surrogate.where:
            return self.options.moves
        table = surrogate.table
        may = table.allowed if surrogate.offered is None else table.allowed & surrogate.offered
        somewhere = may[~table.absorbing].any(axis=0)
        names = [action.name for action in table.actions]
        listed = actions_only(self.options.moves, surrogate.world.actions, surrogate.where)
        return [move for move in listed if move.action_name is None or somewhere[names.index(move.action_name)]]
