"""Loops over the rows of a log: what follows what, and sums per key.

Plain functions over arrays. `quick` gives them as machine code where there are enough rows to pay for it; a table of a
few rows is read by the interpreter, with the same bytes. A key is a number below 2**62 that holds the block, state,
action and successor of a transition; of the successor's bits the last number says that it was not recorded, the one
before that the episode was over.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from polidiff.records.arrays import AnyArray

HAS, EPISODE, STATE, ACTION, ENDED, CLOSED, RUN, OVER_FIRST, WRONG, GAPS, ENDS, FALLS, OUTSIDE, STARTS = range(14)
BLOCK, CARRIED = 14, 15
FEW_ROWS = 5_000  # rows that the interpreter reads in less time than it takes to load the compiler

Loop = Callable[..., Any]


def few(rows: int) -> bool:
    """Whether so many rows are better read by the interpreter."""
    return rows <= FEW_ROWS


def quick(loop: Loop, rows: int) -> Loop:
    """The loop itself for a few rows, its machine code for more."""
    return loop if few(rows) else _compiled(loop)


def sealed(array: AnyArray) -> AnyArray:
    """A view that cannot be written to: polars hands out such arrays, and machine code is made per kind of array."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


@cache
def _compiled(loop: Loop) -> Loop:
    from polidiff.compiled import loops

    return loops(loop)


def follow(  # type: ignore[no-untyped-def]
    episode,
    step,
    state,
    action,
    ended,
    closed,
    gains,
    ranges,
    person,
    temporal,
    sizes,
    carry,
    last_step,
    totals,
    keys,
    starts,
):
    """The key of the row before each row, and what is wrong with the rows.

    `carry` (CARRIED,) and `last_step` (1,) hold the row before the first and what was found so far; `totals` (2, K) the
    sums of the first episode and of the one that goes on. `keys` (n,) and `starts` (n,), the keys of states in which
    episodes begin, are filled; the first row of all has no row before it. Episodes are dealt to blocks in turn, or by
    the number of their `person` (n,) where there is one.
    """
    blocks, state_bits, action_bits, to_bits = sizes
    has, last_episode, last_state = carry[HAS] == 1, carry[EPISODE], carry[STATE]
    last_action, last_ended, last_closed, run = carry[ACTION], carry[ENDED], carry[CLOSED], carry[RUN]
    before, begun, block, people = last_step[0], 0, carry[BLOCK], len(person) > 0
    wrong, gaps, ends, falls, outside = 0, 0, 0, 0, 0
    outcomes, stepped, lost = gains.shape[0], len(step) > 0, (1 << to_bits) - 1
    for i in range(len(episode)):
        same = has and episode[i] == last_episode
        if has:
            to = lost - 1 if last_ended else lost
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
                to = state[i]
            keys[i] = (((((block << state_bits) | last_state) << action_bits) | last_action) << to_bits) | to
        if not same:
            block = person[i] % blocks if people else (block + has) % blocks
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
    carry[BLOCK] = block
    carry[FALLS], carry[OUTSIDE] = carry[FALLS] | falls, carry[OUTSIDE] | outside


def arrange(keys, carried, bits, digit, ends, other_keys, other_carried):  # type: ignore[no-untyped-def]
    """Sort keys of so many bits, with one number that each carries; equal keys stay in their order.

    Digit by digit of `digit` bits from the lowest, from one pair of arrays into the other and back; returns whether the
    last was sorted into the others. `ends` has a place for each value of a digit.
    """
    rows, mask, shift, turned = len(keys), (1 << digit) - 1, 0, False
    while shift < bits:
        for d in range(mask + 1):
            ends[d] = 0
        for i in range(rows):
            ends[(keys[i] >> shift) & mask] += 1
        place = 0
        for d in range(mask + 1):
            place, ends[d] = place + ends[d], place
        for i in range(rows):
            key = keys[i]
            d = (key >> shift) & mask
            place = ends[d]
            ends[d] = place + 1
            other_keys[place] = key
            other_carried[place] = carried[i]
        keys, carried, other_keys, other_carried = other_keys, other_carried, keys, carried
        shift, turned = shift + digit, not turned
    return turned


def total(keys, gains, distinct, table):  # type: ignore[no-untyped-def]
    """Sums per distinct key of rising keys, in the order of rows.

    `gains` (n, K) are what each row gained; a row of `table` is a count, then sum and square of each outcome.
    """
    used, begin, rows = 0, 0, len(keys)
    for n in range(1, rows + 1):
        if n == rows or keys[n] != keys[begin]:
            distinct[used] = keys[begin]
            table[used, 0] = n - begin
            begin = n
            used += 1
    for j in range(gains.shape[1]):
        added = gains[0, j]
        squared, at = added * added, 0
        for n in range(1, rows + 1):
            if n < rows and keys[n] == keys[n - 1]:
                added += gains[n, j]
                squared += gains[n, j] * gains[n, j]
            else:
                table[at, 1 + 2 * j], table[at, 2 + 2 * j] = added, squared
                if n < rows:
                    at += 1
                    added = gains[n, j]
                    squared = added * added


def merge(keys, sums, other_keys, other_sums, merged, table):  # type: ignore[no-untyped-def]
    """Two runs of rising keys as one, sums of the same key added; returns how many distinct keys were `merged`."""
    i, j, used, width = 0, 0, 0, sums.shape[1]
    while i < len(keys) or j < len(other_keys):
        if j == len(other_keys) or (i < len(keys) and keys[i] < other_keys[j]):
            merged[used] = keys[i]
            for k in range(width):
                table[used, k] = sums[i, k]
            i += 1
        elif i == len(keys) or other_keys[j] < keys[i]:
            merged[used] = other_keys[j]
            for k in range(width):
                table[used, k] = other_sums[j, k]
            j += 1
        else:
            merged[used] = keys[i]
            for k in range(width):
                table[used, k] = sums[i, k] + other_sums[j, k]
            i, j = i + 1, j + 1
        used += 1
    return used


def translate(keys, state, action, sizes, into, before, translated):  # type: ignore[no-untyped-def]
    """Keys under other numbers of states and actions, in other sizes, with blocks turned by `before`."""
    blocks, state_bits, action_bits, to_bits = sizes
    state_mask, action_mask, to_mask = (1 << state_bits) - 1, (1 << action_bits) - 1, (1 << to_bits) - 1
    lost = (1 << into[3]) - 1
    for i in range(len(keys)):
        key = keys[i]
        to = key & to_mask
        to = lost + to - to_mask if to >= to_mask - 1 else state[to]
        key >>= to_bits
        taken = action[key & action_mask]
        key >>= action_bits
        block = (key >> state_bits) + before
        if block >= blocks:
            block -= blocks
        translated[i] = (((((block << into[1]) | state[key & state_mask]) << into[2]) | taken) << into[3]) | to


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
