"""A log as a table over its states, as scores of its feature rows, or as edits of the regions of candidates."""

from __future__ import annotations

from dataclasses import replace

from polidiff.errors import InvalidOptionError, InvalidOutcomeError
from polidiff.options import ImproveOptions
from polidiff.policies.protocol import Candidates, PolicyLike
from polidiff.surrogates.log_edits import reduce_to_edits
from polidiff.surrogates.log_scores import reduce_to_scores
from polidiff.surrogates.log_states import reduce_state_rules, reduce_states
from polidiff.surrogates.record import Reduction, refuse_with_rules
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
        refuse_with_rules(options)
    if by_rules and options.pessimism:
        raise InvalidOptionError(
            "pessimism does not go with max_rules: rules are judged on episodes that did not choose them instead. "
            "Hint: leave one of the two out"
        )
    if log.discrete:
        return (reduce_state_rules if by_rules else reduce_states)(log, current, candidates, options)
    if options.unit != "expected" or options.change_cost is not None or options.pessimism:
        raise InvalidOptionError(
            "unit='total', change_cost and pessimism need discrete states; this log has feature rows. Hint: pass "
            "state='column', a column that numbers states or cells"
        )
    if candidates is not None:
        return reduce_to_edits(log, current, candidates, options)
    most = next((limit for limit in (options.max_rules, options.max_states) if limit is not None), MOST_RULES)
    return reduce_to_scores(log, current, replace(options, max_rules=most))
