"""`improve`: judge(lift(solve(reduce(world)))).

A world is reduced to something small (`surrogates`), plans are found there with their proofs, lifted back to policies
of the world and judged in it. Which kind of world it is, only the surrogates know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from polidiff.explanation.compose import versions
from polidiff.explanation.words import rule_text
from polidiff.frontier.region_plans import solve_regions
from polidiff.frontier.rule_plans.improve import improve_with_rules
from polidiff.frontier.rule_plans.request import actions_only
from polidiff.frontier.table import improve_table
from polidiff.optimize import Clock
from polidiff.options import ImproveOptions
from polidiff.policies.protocol import Candidates, PolicyLike
from polidiff.records.action import Action
from polidiff.records.plan import Frontier, Ledger
from polidiff.records.rule import Rule, change_key
from polidiff.surrogates import Explain, Note, Reduction, Surrogate, reduce
from polidiff.worlds.protocol import World

if TYPE_CHECKING:
    from polidiff.options import Moves
    from polidiff.surrogates.log_edits import RegionEdits

AT_ONCE = 0.01  # seconds of a search for which no time is left


def improve(
    world: World, current: PolicyLike, candidates: Candidates, options: ImproveOptions, explain: Explain | None = None
) -> Frontier:
    """The plans that pay most, judged in the world."""
    clock = Clock(options.time_limit)
    reduction = reduce(world, current, candidates, options)
    while True:
        left = None if options.time_limit is None else max(clock.left(), AT_ONCE)
        solved = reduction.solve(Search(replace(options, time_limit=left), explain))
        lifted = [reduction.lift(plan) for plan in solved.plans]
        nearer = reduction.nearer(lifted)
        if nearer is None:
            break
        reduction = nearer
    plans = reduction.judge(lifted, explain)
    return _concluded(reduction, solved, reduction.conclude(solved, plans))


def _concluded(reduction: Reduction, solved: Frontier, frontier: Frontier) -> Frontier:
    """The frontier with what a reader must know about how it was made."""
    notes = [_words(note) for note in reduction.notes(frontier.plans)]
    dropped = len(solved) - len(frontier) if frontier.unit != "rules" else 0
    more = (f"{dropped} larger plans were not judged and are left out.",) if dropped else ()
    return replace(
        frontier,
        ledger=_with_rules(frontier.ledger, reduction.places()),
        methods=replace(frontier.methods, versions=versions()),
        warnings=(*notes, *more, *frontier.warnings),
        assumptions=reduction.assumptions(),
    )


def _words(note: Note) -> str:
    return note if isinstance(note, str) else f"{note.before} where {rule_text(note.rule)} {note.after}"


def _with_rules(ledger: Ledger | None, places: dict[str, Rule]) -> Ledger | None:
    """The ledger with the conditions of each place in words, in the names of changes too."""
    if ledger is None or not places:
        return ledger
    names = {e.change: f"{e.current} → {e.proposed} where {rule_text(places[e.state])}" for e in ledger.entries}
    entries = tuple(
        replace(
            entry,
            change=names[entry.change],
            state=rule_text(places[entry.state]),
            needs=tuple(names[change] for change in entry.needs),
            conflicts=tuple(names[change] for change in entry.conflicts),
            key=change_key(places[entry.state], entry.current, entry.proposed),
        )
        for entry in ledger.entries
    )
    return replace(ledger, entries=entries, order=tuple(names[change] for change in ledger.order))


@dataclass(frozen=True)
class Search:
    """Ways to find plans, within what the user asked for."""

    options: ImproveOptions
    explain: Explain | None

    def changed_places(self, surrogate: Surrogate) -> Frontier:
        """Sets of changed places."""
        options = self.options
        return improve_table(
            surrogate.table, surrogate.base, surrogate.candidates, unit=options.unit, max_states=self._most_places(),
            change_cost=options.change_cost if surrogate.cost is None else surrogate.cost, **self._shared(surrogate),
        )  # fmt: skip

    def rules(self, surrogate: Surrogate) -> Frontier:
        """Lists of rules."""
        options, moves = self.options, self._moves(surrogate)
        return improve_with_rules(
            surrogate.table,
            surrogate.base,
            max_rules=int(options.max_rules or 0) if len(moves) else 0,
            max_conditions=options.max_conditions,
            max_literals=options.max_literals,
            moves=moves if len(moves) else "actions",
            min_support=surrogate.min_support,
            held=options.freeze,
            offered=surrogate.offered,
            grid=surrogate.grid,
            fallback="keep" if surrogate.where else options.fallback,
            node_limit=surrogate.node_limit,
            **self._shared(surrogate),
        )

    def edits(self, problem: RegionEdits) -> Frontier:
        """Sets of edits."""
        return solve_regions(problem, self.options, self._most_places())

    def prescribed(self, actions: Sequence[Action], where: str) -> list[str]:
        """The actions that rules may prescribe."""
        moves = actions_only(self.options.moves, actions, where)
        return [move.action_name for move in moves if move.action_name is not None]

    def _shared(self, surrogate: Surrogate) -> dict[str, Any]:
        names = ("budget", "keep", "gap", "time_limit", "level", "seed")
        return {name: getattr(self.options, name) for name in names} | {
            "freeze": surrogate.frozen, "explain": self.explain,
        }  # fmt: skip

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
