"""Loops over the rows of a log: what follows what, and sums per key.

Plain functions over arrays. `quick` gives them as machine code where there are enough rows to pay for it; a table of a
few rows is read by the interpreter, with the same bytes. A key is a number below 2**62 that holds the block, state,
action and successor of a transition; beside the states a successor may be `LOST` or `OVER`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from polidiff.records.arrays import AnyArray

LOST, OVER, STATES_FROM = 0, 1, 2  # a successor that was not recorded; the end; the first state
HAS, EPISODE, STATE, ACTION, ENDED, CLOSED, RUN, OVER_FIRST, WRONG, GAPS, ENDS, FALLS, OUTSIDE, STARTS = range(14)
CARRIED = 14
FEW_ROWS = 5_000  # rows that the interpreter reads in less time than it takes to load the compiler

Loop = Callable[..., Any]


def quick(loop: Loop, rows: int) -> Loop:
    """The loop itself for a few rows, its machine code for more."""
    return loop if rows <= FEW_ROWS else _compiled(loop)


def sealed(array: AnyArray) -> AnyArray:
    """A view that cannot be written to: polars hands out such arrays, and machine code is made per kind of array."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


@cache
def _compiled(loop: Loop) -> Loop:
    from polidiff.compiled import kernel

    return kernel(loop)


def follow(  # type: ignore[no-untyped-def]
    episode, step, state, action, ended, closed, gains, ranges, temporal, sizes, carry, last_step, totals, keys, starts
):
    """The key of the row before each row, and what is wrong with the rows.

    `carry` (CARRIED,) and `last_step` (1,) hold the row before the first and what was found so far; `totals` (2, K) the
    sums of the first episode and of the one that goes on. `keys` (n,) and `starts` (n,), the keys of states in which
    episodes begin, are filled; the first row of all has no row before it.
    """
    blocks, state_bits, action_bits, to_bits = sizes
    has, last_episode, last_state = carry[HAS] == 1, carry[EPISODE], carry[STATE]
    last_action, last_ended, last_closed, run = carry[ACTION], carry[ENDED], carry[CLOSED], carry[RUN]
    before, begun, block = last_step[0], 0, carry[RUN] % blocks
    wrong, gaps, ends, falls, outside = 0, 0, 0, 0, 0
    outcomes, stepped = gains.shape[0], len(step) > 0
    for i in range(len(episode)):
        same = has and episode[i] == last_episode
        if has:
            to = OVER if last_ended else LOST
            follows = same
            if same:
                if last_closed:
                    wrong += 1
                if stepped:
                    moved = step[i] - before
                    if not moved > 0:
                        wrong += 1
                    if not temporal:
                        if moved > 1:
                            gaps += 1
                        follows = moved == 1
            if follows and not last_ended:
                to = state[i] + STATES_FROM
            keys[i] = (((((block << state_bits) | last_state) << action_bits) | last_action) << to_bits) | to
        if not same:
            if has:
                if run == 0:
                    carry[OVER_FIRST] = last_ended
                    for k in range(outcomes):
                        totals[0, k] = totals[1, k]
                elif last_ended:
                    for k in range(outcomes):
                        if totals[1, k] < ranges[k, 0] or totals[1, k] > ranges[k, 1]:
                            outside = 1
                if not episode[i] > last_episode:
                    falls = 1
                run += 1
                block = block + 1 if block + 1 < blocks else 0
                starts[begun] = ((block << state_bits) | state[i]) << (action_bits + to_bits)
                begun += 1
            for k in range(outcomes):
                totals[1, k] = 0.0
        for k in range(outcomes):
            gain = gains[k, i]
            totals[1, k] += gain
            if gain - gain != 0.0:  # endless, or no number
                wrong += 1
        if ended[i]:
            ends += 1
        if stepped:
            before = step[i]
        has, last_episode, last_state, last_action = True, episode[i], state[i], action[i]
        last_ended, last_closed = ended[i], closed[i]
    last_step[0] = before
    carry[HAS], carry[EPISODE], carry[STATE], carry[ACTION] = has, last_episode, last_state, last_action
    carry[ENDED], carry[CLOSED], carry[RUN], carry[STARTS] = last_ended, last_closed, run, begun
    carry[WRONG], carry[GAPS], carry[ENDS] = carry[WRONG] + wrong, carry[GAPS] + gaps, carry[ENDS] + ends
    carry[FALLS], carry[OUTSIDE] = carry[FALLS] | falls, carry[OUTSIDE] | outside


def add(keys, count, sums, squares, first, index, known, table, used, numbers):  # type: ignore[no-untyped-def]
    """Add what belongs to each key to its row of `table` (m, 1 + 2 K): count, then sum and square of each outcome.

    An empty `count` says that every key is one row, and `sums` (K, n) what it adds. `index` (a power of two,) leads
    from a hash to the number of a key, `known` (m,) holds the keys by number, and `numbers` is room for those of some
    rows, so that looking up does not wait for adding. Stops where there is no room for another key; returns where, and
    how many keys there are.
    """
    mask, room, single = len(index) - 1, min(len(known), len(index) // 2), len(count) == 0
    while first < len(keys):
        rows = min(len(numbers), len(keys) - first)
        for i in range(rows):
            key = keys[first + i]
            place = (((key & 0x7FFFFFFF) * 1640531527 + (key >> 31) * 1181783497) >> 24) & mask
            number = index[place]
            while number >= 0 and known[number] != key:
                place = (place + 1) & mask
                number = index[place]
            if number < 0:
                if used == room:
                    rows = i
                    break
                number = used
                index[place] = number
                known[number] = key
                used += 1
            numbers[i] = number
        for i in range(rows):
            table[numbers[i], 0] += 1.0 if single else count[first + i]
        for k in range(sums.shape[0]):
            for i in range(rows):
                gain = sums[k, first + i]
                table[numbers[i], 1 + 2 * k] += gain
                table[numbers[i], 2 + 2 * k] += gain * gain if single else squares[k, first + i]
        first += rows
        if rows == 0:
            break
    return first, used


def watch(state, value, met, first, begin):  # type: ignore[no-untyped-def]
    """Which states hold more than one value: `met` (S,) is 0 for a state not met, 1 for one value, 2 for more.

    `first` (S,) holds the value of a state, `begin` (S,) the row in which it was first met.
    """
    for i in range(len(state)):
        s = state[i]
        if met[s] == 0:
            met[s] = 1
            first[s] = value[i]
            begin[s] = i
        elif first[s] != value[i]:
            met[s] = 2
