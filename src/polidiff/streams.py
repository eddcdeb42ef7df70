"""Random streams: one number per purpose, so that two stages of one answer never share their luck by accident.

A generator is made from the user's seed and a stream: ``np.random.default_rng((seed, Stream.SHOWN_STATES))``. Two uses
of one stream are meant to meet the same luck (paired episodes). Streams that share a number never meet in one answer.
Numbers are part of every answer: changing one changes bytes.
"""

from __future__ import annotations

from enum import IntEnum


class Stream(IntEnum):
    """What the luck is for."""

    SPLITS = 11  # which diverging states are followed by both actions
    SPLIT_STARTS = 12  # where the splitting roll-outs start
    SPLITS_OF_GROUP = 13  # the same two for one of several groups of starts, whose number follows
    STARTS_OF_GROUP = 14
    FOLDS = 15  # people or episodes of a log that estimates of who wrote it leave out in turn
    HELD_OUT = 21  # half of the episodes judge rules learned from the other half
    FORMING = 31  # episodes that form groups of starts; paths and changed decisions are those of the same episodes
    TABLE_PATHS = 32  # paths from every start of a table
    JUDGING = 33  # paired episodes that judge outcomes: of both policies, of plans, of the patched policy
    SHOWN_EPISODES = 35
    REGION_EFFECTS = 36  # paired episodes in which one region's change acts alone, or all but it
    EXAM = 41  # visited states that the forms of explanation are examined on
    REGION_GAMES = 51  # episodes that each draw a policy per region
    SHOWN_STATES = 61
    EXPLORED_STATES = 61  # roll-outs that show where rule plans may act, then five more of their kind
    SAMPLED_STATES = 62
    CELL_GAMES = 63
    CHOOSING_PLANS = 64
    JUDGING_PLANS = 65
    REGION_VALUES = 71  # values of both actions from the states of one region, whose number follows
