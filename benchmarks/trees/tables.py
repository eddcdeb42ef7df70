"""Tables on which optimal decision-tree policies were published, rebuilt from their descriptions, and some of our own.

Vos and Verwer, Optimal decision tree policies for Markov decision processes (IJCAI 2023), section 5 and appendix, with
the parameters of their repository (tudelft-cda-lab/OMDT). All are discounted by 0.99. Different from published:
inventory is ordered in lots of 5, blackjack is one hand per episode, and a square of tic-tac-toe is one feature of
three values, not three of two.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import product
from typing import TypeAlias

import numpy as np
from scipy.stats import poisson

from polidiff import TabularMDP
from polidiff.domains import frozen_lake, icu_sepsis, queues

DISCOUNT = 0.99
State: TypeAlias = tuple[int, ...]
Step: TypeAlias = tuple[float, dict[State, float]]  # reward and where it leads; nowhere: the episode ends
END: State = ()


def table(
    states: Iterable[State], names: list[str], actions: list[str], step: Callable[[State, int], Step], start: State
) -> TabularMDP:
    """A table of states of whole numbers from a function that says what a decision brings."""
    listed = list(states)
    number = {state: i for i, state in enumerate(listed)} | {END: len(listed)}
    moves = np.zeros((len(listed) + 1, len(actions), len(listed) + 1))
    rewards = np.zeros(moves.shape[:2])
    for state, action in product(listed, range(len(actions))):
        row = moves[number[state], action]
        rewards[number[state], action], ways = step(state, action)
        for target, probability in ways.items():
            row[number[target]] += probability
        row /= row.sum()
    features = np.array([*listed, [1 + max(state[0] for state in listed), *listed[0][1:]]])
    initial = np.zeros(len(features))
    initial[number[start]] = 1
    return TabularMDP(
        moves, rewards, initial, absorbing=[len(listed)], actions=actions,
        features=features, feature_names=names, discount=DISCOUNT,
    )  # fmt: skip


def discounted(world: TabularMDP, start: int) -> TabularMDP:
    """One of our own tables with the discount and a single start; what is not offered does as the last action does."""
    taken = np.where(world.allowed, np.arange(world.n_actions), world.n_actions - 1)
    taken += world.n_actions * np.arange(world.n_states)[:, None]
    features = np.array(world.features)
    if len(np.unique(features, axis=0)) < len(features):  # the end shares its features with a state
        features[world.absorbing, 0] = features[:, 0].max() + 1
    return TabularMDP(
        [world.transitions[taken[:, a]] for a in range(world.n_actions)], world.rewards.ravel()[taken],
        np.arange(world.n_states) == start, absorbing=world.absorbing, actions=[a.name for a in world.actions],
        features=features, feature_names=world.feature_names, discount=DISCOUNT,
    )  # fmt: skip


LAKE_12 = (
    "SFFFFFFFFFFF", "FFFFFFFFFFFF", "FFFHFFFFFFFH", "FFFFFHFFFFFF", "FFFHFFFFFFFF", "FHHFFFHFFHFF",
    "FHFFHFHFFFFF", "FFFHFFFFFFFF", "FFFFFFFFHFFF", "HFFFFHFFFFHH", "FFFFFFGFFFFF", "FFFFFFFFFFFF",
)  # fmt: skip


def lake_12() -> TabularMDP:
    """The lake of 12 by 12 fields; each step goes astray to either side with a chance of a third."""
    ways = ((0, -1), (1, 0), (0, 1), (-1, 0))

    def step(state: State, action: int) -> Step:
        if LAKE_12[state[0]][state[1]] in "HG":
            return 0.0, {END: 1.0}
        moves: defaultdict[State, float] = defaultdict(float)
        for turn in (-1, 0, 1):
            by = ways[(action + turn) % 4]
            moves[min(max(state[0] + by[0], 0), 11), min(max(state[1] + by[1], 0), 11)] += 1 / 3
        return sum(p for (row, column), p in moves.items() if LAKE_12[row][column] == "G"), moves

    return table(product(range(12), repeat=2), ["row", "column"], ["left", "down", "right", "up"], step, (0, 0))


def sepsis(levels: int = 16) -> TabularMDP:
    """ICU-Sepsis: no, some or much fluid beside the clinicians' vasopressor, and what they did where it was not given.

    Four bedside quantities, cut at their quantiles, tell all clusters apart.
    """
    world, data, now = icu_sepsis.world(), icu_sepsis.sepsis_data(), np.asarray(icu_sepsis.current(), dtype=np.int64)
    fluids, stays = {"none": 0, "some": 2, "much": 4}, np.flatnonzero(~world.absorbing)
    chosen = now[:, None] % icu_sepsis.LEVELS + icu_sepsis.LEVELS * np.array([*fluids.values()])
    chosen = np.where(np.take_along_axis(data.admissible, chosen, axis=1), chosen, now[:, None])[stays]
    moves = np.zeros((len(stays) + 1, len(fluids), len(stays) + 1))
    moves[:-1, :, :-1] = data.transitions[stays[:, None], chosen][:, :, stays]
    moves[:-1, :, -1] = np.maximum(1 - moves[:-1].sum(axis=2), 0.0)
    names = ("GCS", "heart rate", "mean BP", "urine 4 h")
    bedside = [np.asarray(world.features)[stays, world.feature_names.index(name)] for name in names]
    cuts = [np.unique(np.quantile(column, np.arange(1, levels) / levels)) for column in bedside]
    cells = [np.searchsorted(cut, column, side="right") for cut, column in zip(cuts, bedside, strict=True)]
    return TabularMDP(
        moves, np.vstack([world.rewards[stays[:, None], chosen], np.zeros(len(fluids))]),
        np.append(world.initial[stays], 0.0), absorbing=[len(stays)], discount=DISCOUNT, actions=list(fluids),
        features=np.vstack([np.transpose(cells), np.full(len(names), levels)]), feature_names=names,
    )  # fmt: skip


def inventory(room: int = 100, demand: float = 15.0, lot: int = 5) -> TabularMDP:
    """Orders cost 10 and 2 a unit, stock 1 a unit and day, a unit sells for 4; demand is Poisson."""
    chances = poisson.pmf(np.arange(5 * int(demand)), demand)
    chances /= chances.sum()

    def step(state: State, action: int) -> Step:
        order = lot * action
        stock = min(state[0] + order, room)
        sold = np.minimum(stock, np.arange(len(chances)))
        ways: defaultdict[State, float] = defaultdict(float)
        for units, chance in zip(sold, chances, strict=True):
            ways[(int(stock - units),)] += chance
        return float(4 * sold @ chances) - (10 + 2 * order) * (order > 0) - state[0], ways

    return table(((s,) for s in range(room + 1)), ["stock"], [f"order {q}" for q in range(0, room, lot)], step, (0,))


def system_administration() -> TabularMDP:
    """Seven computers in a tree fail more often below one that fails; rebooting one costs 0.45, each running pays 1."""
    above = [None, 0, 0, 1, 1, 2, 2]

    def step(state: State, action: int) -> Step:
        runs = [0.05 + 0.9 * on for on in state]
        runs = [p if above[i] is None else p * state[above[i]] for i, p in enumerate(runs)]
        if action < 7:
            runs[action] = 1.0
        ways = {after: float(np.prod([p if on else 1 - p for p, on in zip(runs, after, strict=True)]))
                for after in product((0, 1), repeat=7)}  # fmt: skip
        return sum(state) - 0.45 * (action < 7), {after: p for after, p in ways.items() if p > 0}

    names = [f"computer {i}" for i in range(7)]
    return table(product((0, 1), repeat=7), names, [*(f"reboot {i}" for i in range(7)), "wait"], step, (1,) * 7)


def traffic(most: int = 5) -> TabularMDP:
    """A light at a crossing of a quiet and a busy road; switching costs 2, waiting costs twice as much every step."""
    rates = (0.1, 0.5)

    def step(state: State, action: int) -> Step:
        green, *cars, waited = state
        reward = float(cars[green] > 0) - cars[1 - green] * 0.1 * 2**waited - 2 * (action == 0)
        left = [max(0, count - (side == green)) for side, count in enumerate(cars)]
        after = (1 - green, 1) if action == 0 else (green, min(waited + 1, most))
        ways = {}
        for more in product(*(range(most - count + 1) for count in left)):
            chance = np.prod([poisson.pmf(m, rate) for m, rate in zip(more, rates, strict=True)])
            ways[after[0], left[0] + more[0], left[1] + more[1], after[1]] = float(chance)
        return reward, ways

    states = product((0, 1), range(most + 1), range(most + 1), range(most + 1))
    return table(states, ["green side", "cars left", "cars right", "waited"], ["switch", "wait"], step, (0, 0, 0, 0))


def navigation(side: int = 5, seed: int = 0) -> TabularMDP:
    """From one corner of a cube to the other; every cell may send back to the start with a chance of its own."""
    vanish = np.zeros((side,) * 3)
    vanish.flat[1:-1] = np.random.RandomState(seed).random(side**3 - 2)
    goal = (side - 1,) * 3
    steps = [(axis, way) for axis in range(3) for way in (1, -1)]

    def step(state: State, action: int) -> Step:
        if state == goal:
            return 0.0, {(0, 0, 0): 1.0}
        axis, way = steps[action]
        after = tuple(min(max(x + way * (i == axis), 0), side - 1) for i, x in enumerate(state))
        ways = defaultdict(float, {(0, 0, 0): float(vanish[state])})
        ways[after] += 1 - float(vanish[state])
        return float(after == goal) * (1 - float(vanish[state])), ways

    actions = ["right", "left", "up", "down", "forward", "backward"]
    return table(product(range(side), repeat=3), ["x", "y", "z"], actions, step, (0, 0, 0))


def blackjack() -> TabularMDP:
    """One hand with an endless pack, an ace 11: the player draws or stands, then the dealer draws to 17."""
    cards = [*range(2, 11), 10, 10, 10, 11]

    def dealt(count: int) -> dict[int, float]:
        sums: dict[int, float] = {0: 1.0}
        for _ in range(count):
            more: defaultdict[int, float] = defaultdict(float)
            for total, chance in sums.items():
                for card in cards:
                    more[total + card] += chance / 13
            sums = more
        return sums

    def dealer(total: int) -> dict[int, float]:
        if total >= 17:
            return {total: 1.0}
        ends: defaultdict[int, float] = defaultdict(float)
        for card in cards:
            for end, chance in dealer(total + card).items():
                ends[end] += chance / 13
        return ends

    def step(state: State, action: int) -> Step:
        player, shown = state
        if player == 0:
            return 0.0, {(min(p, 22), d): x * y for p, x in dealt(2).items() for d, y in dealt(1).items()}
        if player > 21:
            return -1.0, {END: 1.0}
        if action == 1:
            ways: defaultdict[State, float] = defaultdict(float)
            for card in cards:
                ways[min(player + card, 22), shown] += 1 / 13
            return 0.0, ways
        wins = sum(chance for end, chance in dealer(shown).items() if end > 21 or player > end)
        return wins * (1.5 if player == 21 else 1.0) - (1 - wins), {END: 1.0}

    states = [(0, 0), *product(range(4, 23), range(2, 12))]
    return table(states, ["player", "dealer"], ["stand", "draw"], step, (0, 0))


def tic_tac_toe() -> TabularMDP:
    """The first player against a random one: 1 for a win, -1 for a loss or a square that is taken."""
    rows = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]

    def won(board: State, player: int) -> bool:
        return any(all(board[i] == player for i in row) for row in rows)

    def put(board: State, square: int, player: int) -> State:
        return (*board[:square], player, *board[square + 1 :])

    def step(board: State, square: int) -> Step:
        after = put(board, square, 1)
        if board[square]:
            return -1.0, {END: 1.0}
        if won(after, 1):
            return 1.0, {END: 1.0}
        free = [i for i in range(9) if not after[i]]
        answers = [put(after, i, 2) for i in free]
        lost = sum(won(answer, 2) for answer in answers)
        ways = {answer: 1 / len(free) for answer in answers if not won(answer, 2)}
        return -lost / len(free) if free else 0.0, ways | ({END: lost / len(free)} if lost else {}) or {END: 1.0}

    states, waiting = {(0,) * 9}, [(0,) * 9]
    while waiting:
        board = waiting.pop()
        for square in range(9):
            for after in step(board, square)[1]:
                if after != END and after not in states:
                    states.add(after)
                    waiting.append(after)
    squares = [f"{row} {column}" for row in ("top", "middle", "bottom") for column in ("left", "centre", "right")]
    return table(sorted(states), squares, squares, step, (0,) * 9)


def maintenance(wear: int = 12, load: int = 6) -> TabularMDP:
    """A machine that wears under load: run, slow down, service or replace."""
    speeds, fixed = (1.0, 0.4, 0.6, 0.6), (0.0, 0.0, 2.5, 9.0)
    pays = (1.0, 0.6, 0.3, 0.1)

    def step(state: State, action: int) -> Step:
        worn, now = state
        after = (worn, worn, max(0, worn - 4), 0)[action]
        fails = min(0.9, 0.02 + 0.5 * (after / (wear - 1)) ** 3) * speeds[action]
        rate = (0.15 + 0.12 * now) * speeds[action]
        ways: defaultdict[State, float] = defaultdict(float)
        for change, chance in ((-1, 0.3), (0, 0.4), (1, 0.3)):
            next_load = min(load - 1, max(0, now + change))
            for more, likely in ((0, 1 - rate), (1, 0.7 * rate), (2, 0.3 * rate)):
                ways[min(wear - 1, after + more), next_load] += chance * likely * (1 - fails)
            ways[0, next_load] += chance * fails
        return (2 + now) * pays[action] * (1 - fails) - 25 * fails - fixed[action], ways

    return table(
        product(range(wear), range(load)), ["wear", "load"], ["run", "slow", "service", "replace"], step, (0, 0)
    )


TABLES: dict[str, Callable[[], TabularMDP]] = {
    "FrozenLake 4x4": lambda: discounted(frozen_lake.world(4), 0),
    "FrozenLake 8x8": lambda: discounted(frozen_lake.world(8), 0),
    "FrozenLake 12x12": lake_12,
    "inventory": inventory,
    "system administration": system_administration,
    "traffic": traffic,
    "blackjack": blackjack,
    "tic-tac-toe": tic_tac_toe,
    "navigation in 3-D": navigation,
    "two queues": lambda: discounted(queues.world(7), 0),
    "maintenance": maintenance,
    "ICU-Sepsis": sepsis,
}
