"""`improve`: judge(lift(solve(reduce(world)))).

A world is reduced to something small (`surrogates`), plans are found there with their proofs, lifted back to policies
of the world and judged in it. Which kind of world it is, only the surrogates know.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from polidiff.explanation.compose import versions
from polidiff.explanation.words import rule_text
from polidiff.frontier.region_plans import solve_regions
from polidiff.frontier.rule_plans.improve import improve_with_rules
from polidiff.frontier.rule_plans.moves import Move
from polidiff.frontier.rule_plans.request import actions_only
from polidiff.frontier.table import improve_table
from polidiff.optimize import Clock
from polidiff.options import ImproveOptions
from polidiff.records.plan import Frontier, Ledger
from polidiff.records.rule import Rule, change_key
from polidiff.surrogates import Explain, Note, Reduction, Surrogate, reduce
from polidiff.worlds.protocol import World

if TYPE_CHECKING:
    from polidiff.surrogates.logged.region_edits import RegionEdits

AT_ONCE = 0.01  # seconds of a search for which no time is left


def improve(
    world: World, current: Any, candidates: Any, options: ImproveOptions, explain: Explain | None = None
) -> Frontier:
    """The plans that pay most, judged in the world."""
    clock = Clock(options.time_limit)
    reduction = reduce(world, current, candidates, options)
    while True:
        left = None if options.time_limit is None else max(clock.left(), AT_ONCE)
        solved = solve(reduction, replace(options, time_limit=left), explain)
        lifted = [reduction.lift(plan) for plan in solved.plans]
        nearer = reduction.nearer(lifted)
        if nearer is None:
            break
        reduction = nearer
    plans = reduction.judge(lifted, explain)
    return _concluded(reduction, solved, reduction.conclude(solved, plans))


def _concluded(reduction: Reduction, solved: Frontier, frontier: Frontier) -> Frontier:
    """The frontier with what a reader must know about how it was made."""
    if reduction.world is getattr(reduction, "table", None):
        return frontier
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


def solve(reduction: Reduction, options: ImproveOptions, explain: Explain | None) -> Frontier:
    """The frontier of what a world was reduced to."""
    where = getattr(reduction, "where", "")
    if where and not isinstance(reduction, Surrogate):
        listed = actions_only(options.moves, reduction.world.actions, where)
        solved = reduction.solve([move.action_name for move in listed if move.action_name is not None])
        assert solved is not None
        return solved
    if not isinstance(reduction, Surrogate):
        return solve_regions(cast("RegionEdits", reduction), options, _most_places(options))
    shared = {
        "budget": options.budget,
        "keep": options.keep,
        "freeze": reduction.frozen,
        "gap": options.gap,
        "time_limit": options.time_limit,
        "level": options.level,
        "seed": options.seed,
        "explain": explain,
    }
    if reduction.by_rules:
        return _solve_rules(reduction, options, shared)
    most, cost = _most_places(options), options.change_cost
    return improve_table(
        reduction.table, reduction.base, reduction.candidates,
        unit=options.unit, max_states=most, change_cost=cost, **shared,
    )  # fmt: skip


def _most_places(options: ImproveOptions) -> int | None:
    """Without features one rule is one changed state; of two limits the lower one binds."""
    given = [limit for limit in (options.max_states, options.max_rules) if limit is not None]
    return min(given, default=None)


def _solve_rules(surrogate: Surrogate, options: ImproveOptions, shared: dict[str, Any]) -> Frontier:
    moves = _possible_moves(surrogate, options)
    return improve_with_rules(
        surrogate.table,
        surrogate.base,
        max_rules=int(options.max_rules or 0) if len(moves) else 0,
        max_conditions=options.max_conditions,
        max_literals=options.max_literals,
        moves=moves if len(moves) else "actions",
        min_support=surrogate.min_support,
        offered=surrogate.offered,
        grid=surrogate.grid,
        fallback="keep" if surrogate.where else options.fallback,
        node_limit=surrogate.node_limit,
        **shared,
    )


def _possible_moves(surrogate: Surrogate, options: ImproveOptions) -> Any:
    """Moves that are possible somewhere; in cells, which have no action of their own, to actions only."""
    if not surrogate.where:
        return options.moves
    table = surrogate.table
    listed = actions_only(options.moves, surrogate.world.actions, surrogate.where)
    open_ = ~table.absorbing
    if isinstance(surrogate.frozen, np.ndarray):
        open_ = open_ & ~surrogate.frozen
    may = table.allowed if surrogate.offered is None else table.allowed & surrogate.offered
    names = [action.name for action in table.actions]
    return [move for move in listed if _somewhere(move, names, may[open_])]


def _somewhere(move: Move, names: list[str], may: Any) -> bool:
    return move.action_name is None or bool(may[:, names.index(move.action_name)].any())
