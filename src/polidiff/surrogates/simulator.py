"""A simulator as a table: over the regions of candidates, or over the cells of a grid for rules."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from polidiff.errors import InvalidOptionError
from polidiff.options import ImproveOptions
from polidiff.policies import Policy, as_policy
from polidiff.surrogates.record import refuse_pessimism, refuse_uncounted, refuse_with_rules
from polidiff.surrogates.simulated.grid_table import reduce_to_grid
from polidiff.surrogates.simulated.region_table import reduce_to_regions
from polidiff.surrogates.table import Surrogate
from polidiff.worlds.simulator import Simulator


def reduce(world: Simulator, current: Any, candidates: Any, options: ImproveOptions) -> Surrogate:
    """Rules over features if they are asked for without candidates; else plans over the candidates' regions."""
    refuse_pessimism(options)
    refuse_uncounted(options, "a simulator")
    place, base = with_return(world), as_policy(current, actions=world.actions)
    if options.max_rules is not None and candidates is None:
        refuse_with_rules(options)
        return reduce_to_grid(place.with_numbers(), base, options)
    return reduce_to_regions(place, base, _candidates(world, candidates), options)


def with_return(world: Simulator) -> Simulator:
    """The world, telling its return first."""
    place = copy.copy(world)
    if world.return_outcome.name not in [outcome.name for outcome in world.outcomes]:
        place.outcomes = (world.return_outcome, *world.outcomes)
    return place


def _candidates(world: Simulator, candidates: Any) -> Sequence[Policy]:
    if candidates is None or (not callable(candidates) and len(candidates) == 0):
        raise InvalidOptionError(
            "improve in a simulator needs candidates: policies whose changes may be taken. Hint: "
            "improve(world, current, [proposed_1, proposed_2]), or max_rules=2 for rules over features"
        )
    listed = [candidates] if callable(candidates) else list(candidates)
    return [as_policy(candidate, actions=world.actions) for candidate in listed]
