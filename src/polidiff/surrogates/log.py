"""A log as a table over its states, as scores of its feature rows, or as edits of the regions of candidates."""

from __future__ import annotations

from dataclasses import replace

from polidiff.errors import InvalidOutcomeError
from polidiff.options import ImproveOptions
from polidiff.policies.protocol import Candidates, PolicyLike
from polidiff.surrogates.log_edits import reduce_to_edits
from polidiff.surrogates.log_scores import reduce_to_scores
from polidiff.surrogates.log_states import reduce_state_rules, reduce_states
from polidiff.surrogates.record import WITH_RULES, Reduction, refuse
from polidiff.worlds.log import Log
from polidiff.worlds.protocol import aim

MOST_RULES = 3  # over feature rows, where nobody says how many changes are to be read


def reduce(log: Log, current: PolicyLike, candidates: Candidates, options: ImproveOptions) -> Reduction:
    """Changed states, or rules over their features; over feature rows, regions of candidates, or rules."""
    aimed = log.outcomes[aim(log)[0]]
    if aimed.prefer is None:
        raise InvalidOutcomeError(
            f"improve needs an outcome of which more or less is better; {aimed.name!r}, the first one, does not say "
            'which. Hint: give it prefer="less" or prefer="more" (prefer in [[outcomes]] of a study)'
        )
    by_rules = options.max_rules is not None and log.has_features and (log.discrete or candidates is None)
    if by_rules:
        refuse(options, ("max_states", "change_cost", "unit", "pessimism"), WITH_RULES)
    if log.discrete:
        return (reduce_state_rules if by_rules else reduce_states)(log, current, candidates, options)
    why = "needs discrete states; this log has feature rows. Hint: state='column', which numbers states or cells"
    refuse(options, ("unit", "change_cost", "pessimism"), why)
    if candidates is not None:
        return reduce_to_edits(log, current, candidates, options)
    most = next((limit for limit in (options.max_rules, options.max_states) if limit is not None), MOST_RULES)
    return reduce_to_scores(log, current, replace(options, max_rules=most))
