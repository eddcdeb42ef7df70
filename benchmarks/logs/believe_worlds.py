"""Worlds with a known truth whose logs keep, or break, what verdicts from a log rest on.

Each is a table over *hidden* states, of which the log shows a number; who wrote the log may act on what it hides. The
proposed policy acts on what is shown, so the difference between both is an exact solve over the hidden table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from polidiff.records.arrays import FloatArray, IntArray
from polidiff.worlds.log_rows import LoggedRows
from polidiff.worlds.shards.transition_counts import CUT, END

LONGEST = 400


@dataclass(frozen=True, eq=False)
class HiddenWorld:
    """A table over H hidden states, what the log shows of them, and who wrote it."""

    name: str
    breaks: str  # "" if nothing is broken, else the assumption that is
    moves: FloatArray  # (H, A, H + 1), the end last
    pay: FloatArray  # (H, A) expected
    start: FloatArray  # (H,)
    seen: IntArray  # (H,) state that the log shows
    logging: FloatArray  # (H, A)
    proposed: FloatArray  # (S, A)
    range: tuple[float, float]
    noise: Callable[[IntArray, IntArray, np.random.Generator], FloatArray] | None = None  # what pay varies by
    late: HiddenWorld | None = None  # the world of the second half of the episodes; the truth is there
    people: tuple[int, float] | None = None  # episodes of one person, and the spread of people's pay
    cut: FloatArray | None = None  # (S,) chance that the record stops after a decision
    stated: float = 0.0  # by how much the recorded probability is off, as log-odds

    @property
    def n_states(self) -> int:
        """How many states the log can show."""
        return len(self.proposed)

    def value(self, table: FloatArray) -> float:
        """Expected pay of an episode under a policy over hidden states (H, A)."""
        inside = np.einsum("ha,hag->hg", table, self.moves[:, :, :-1])
        values = np.linalg.solve(np.eye(len(inside)) - inside, (table * self.pay).sum(axis=1))
        return float(self.start @ values)

    @property
    def truth(self) -> float:
        """Proposed less who wrote the log, where the log ends."""
        world = self.late or self
        return world.value(world.proposed[world.seen]) - world.value(world.logging)

    @property
    def strength(self) -> float:
        """The true Γ: how far what is hidden moves the odds of an action away from those in the record."""
        inside = np.einsum("ha,hag->hg", self.logging, self.moves[:, :, :-1])
        visits = np.linalg.solve(np.eye(len(inside)) - inside.T, self.start)
        total = np.bincount(self.seen, visits, self.n_states)
        share = np.column_stack([np.bincount(self.seen, visits * p, self.n_states) for p in self.logging.T])
        share /= np.maximum(total, 1e-300)[:, None]
        met = visits > 1e-12
        odds = (self.logging / (1 - self.logging))[met] / (share / (1 - share))[self.seen][met]
        return float(np.maximum(odds, 1 / odds).max())

    def rows(self, episodes: int, rng: np.random.Generator) -> LoggedRows:
        """A log of so many episodes."""
        if self.late is not None:
            early, late = (w._rows(episodes // 2, rng) for w in (replace(self, late=None), self.late))
            return joined(early, late)
        return self._rows(episodes, rng)

    def _rows(self, episodes: int, rng: np.random.Generator) -> LoggedRows:
        hidden = rng.choice(len(self.start), size=episodes, p=self.start)
        running, parts = np.arange(episodes), []
        for step in range(LONGEST):
            here = hidden[running]
            action = _draw(self.logging[here], rng)
            after = _draw(self.moves[here, action], rng)
            parts.append((running * LONGEST + step, here, action, after))
            hidden[running] = after
            stops = np.zeros(len(running)) if self.cut is None else self.cut[self.seen[here]]
            running = running[(after < len(self.start)) & (rng.random(len(running)) >= stops)]
            if not running.size:
                break
        key, here, action, after = (np.concatenate([part[j] for part in parts]) for j in range(4))
        order = np.argsort(key)
        return self._as_rows(key[order] // LONGEST, here[order], action[order], after[order], rng)

    def _as_rows(
        self, episode: IntArray, here: IntArray, action: IntArray, after: IntArray, rng: np.random.Generator
    ) -> LoggedRows:
        gains = self.pay[here, action]
        if self.noise is not None:
            gains = gains + self.noise(here, action, rng)
        if self.people is not None:
            size, spread = self.people
            own = rng.normal(0.0, spread, episode.max() // size + 1)
            gains = gains + own[episode // size] * (action - self.logging[here, 1])
        last = np.append(np.diff(episode) > 0, True)
        follow = np.where(after == len(self.start), END, np.where(last, CUT, np.arange(len(last)) + 1))
        chance = self.logging[here, action]
        odds = np.log(chance / (1 - chance)) + np.where(action > 0, self.stated, -self.stated)
        return LoggedRows(self.seen[here], action, episode, follow, gains[:, None], 1 / (1 + np.exp(-odds)))


def joined(one: LoggedRows, other: LoggedRows) -> LoggedRows:
    """Two logs, one after the other."""
    follow = np.where(other.follow >= 0, other.follow + len(one.follow), other.follow)
    return LoggedRows(
        np.concatenate([one.states, other.states]),
        np.concatenate([one.actions, other.actions]),
        np.concatenate([one.episode, other.episode + one.n_episodes]),
        np.concatenate([one.follow, follow]),
        np.concatenate([one.gains, other.gains]),
        None if one.probability is None or other.probability is None
        else np.concatenate([one.probability, other.probability]),
    )  # fmt: skip


def _draw(chances: FloatArray, rng: np.random.Generator) -> IntArray:
    return np.asarray((np.cumsum(chances, axis=1) < rng.random(len(chances))[:, None]).sum(axis=1))


def random_world() -> HiddenWorld:
    """Twelve states, three actions, nothing hidden."""
    rng, size = np.random.default_rng(5), 12
    moves = np.concatenate([rng.dirichlet(np.full(size, 0.3), (size, 3)) * 0.85, np.full((size, 3, 1), 0.15)], axis=2)
    pay, logging = rng.random((size, 3)), rng.dirichlet(np.full(3, 4.0), size)
    better = np.eye(3)[(pay + 0.1 * rng.random((size, 3))).argmax(axis=1)]
    proposed = 0.7 * logging + 0.3 * better
    return HiddenWorld("clean: random", "", moves, pay, np.full(size, 1 / size), np.arange(size), logging, proposed,
                       (0.0, 100.0))  # fmt: skip


def machine() -> HiddenWorld:
    """Six levels of wear; running earns less as wear grows and may break down, service resets it."""
    size = 6
    moves = np.zeros((size, 2, size + 1))
    for wear in range(size):
        moves[wear, 0, min(wear + 1, size - 1)] += 0.5
        moves[wear, 0, wear] += 0.4
        moves[wear, 1, 0] += 0.9
        moves[wear, :, size] = 0.1
    level = np.arange(size)
    pay = np.column_stack([1.0 - 0.35 * level, np.full(size, -0.3)])
    logging = np.tile([0.7, 0.3], (size, 1))
    proposed = np.where((level >= 3)[:, None], [0.2, 0.8], [0.9, 0.1])
    start = np.eye(size)[0]
    return HiddenWorld("clean: machine", "", moves, pay, start, level, logging, proposed, (-100.0, 100.0),
                       noise=lambda h, a, rng: rng.normal(0, 0.3, len(h)))  # fmt: skip


def queue() -> HiddenWorld:
    """Two queues of up to four; serve the longer one, or the other."""
    level = [(i, j) for i in range(5) for j in range(5)]
    moves = np.zeros((25, 2, 26))
    for h, (i, j) in enumerate(level):
        for a in (0, 1):
            for di, dj, chance in ((1, 0, 0.35), (0, 1, 0.25), (0, 0, 0.32)):
                x, y = min(i + di, 4), min(j + dj, 4)
                x, y = (max(x - 1, 0), y) if a == 0 else (x, max(y - 1, 0))
                moves[h, a, level.index((x, y))] += chance
        moves[h, :, 25] = 0.08
    length = np.array([-(i + 2.0 * j) for i, j in level])
    proposed = np.array([[0.15, 0.85] if j > 0 else [0.85, 0.15] for _, j in level])
    return HiddenWorld("clean: queues", "", moves, np.column_stack([length, length]), np.eye(25)[6], np.arange(25),
                       np.full((25, 2), 0.5), proposed, (-1500.0, 0.0))  # fmt: skip


def tolerance() -> HiddenWorld:
    """A drug helps at once; what it leaves behind (three hidden levels) is shown too late and costs more."""
    level = [(s, x) for s in range(3) for x in range(3)]
    moves, pay = np.zeros((9, 2, 10)), np.zeros((9, 2))
    for h, (s, x) in enumerate(level):
        for a in (0, 1):
            worse = 0.25 + 0.2 * x - 0.2 * a
            y = min(x + 1, 2) if a else max(x - 1, 0)
            for to, chance in ((min(s + 1, 2), worse), (max(s - 1, 0), 0.8 - worse), (s, 0.1)):
                moves[h, a, level.index((to, y))] += chance
            moves[h, a, 9] = 0.1
            pay[h, a] = -1.0 * s + 0.6 * a - 1.2 * x
    logging = np.array([[0.75 if x else 0.45, 0.25 if x else 0.55] for _, x in level])
    seen = np.array([s for s, _ in level])
    return HiddenWorld("history: tolerance", "history", moves, pay, np.eye(9)[3], seen, logging,
                       np.tile([0.15, 0.85], (3, 1)), (-400.0, 50.0))  # fmt: skip


def repeated_action() -> HiddenWorld:
    """The second of two equal actions in a row costs; the log shows three states and not what was done before."""
    level = [(s, b) for s in range(3) for b in (0, 1)]
    moves, pay = np.zeros((6, 2, 7)), np.zeros((6, 2))
    for h, (s, b) in enumerate(level):
        for a in (0, 1):
            for to in range(3):
                moves[h, a, level.index((to, a))] = 0.875 * (0.6 if to == (s + a) % 3 else 0.2)
            moves[h, a, 6] = 0.125
            pay[h, a] = 0.5 * a - 1.4 * (a and b)
    logging = np.array([[0.3, 0.7] if b == 0 else [0.8, 0.2] for _, b in level])
    return HiddenWorld("history: repeated action", "history", moves, pay, np.eye(6)[0],
                       np.array([s for s, _ in level]), logging, np.tile([0.1, 0.9], (3, 1)), (-200.0, 100.0),
                       noise=lambda h, a, rng: rng.normal(0, 0.5, len(h)))  # fmt: skip


def severity(strength: float, *, one_decision: bool = False) -> HiddenWorld:
    """Half of all people are severely ill, which is not recorded: they are treated more often and do worse."""
    level = [(s, u) for s in range(3) for u in (0, 1)]
    moves, pay = np.zeros((6, 2, 7)), np.zeros((6, 2))
    for h, (s, u) in enumerate(level):
        for a in (0, 1):
            for to in range(3):
                moves[h, a, level.index((to, u))] = (0 if one_decision else 0.75) * (0.5 if to == s else 0.25)
            moves[h, a, 6] = 1.0 if one_decision else 0.25
            pay[h, a] = 0.12 * a - 1.0 * u - 0.2 * s
    odds = np.array([strength if u else 1 / strength for _, u in level])
    logging = np.column_stack([1 / (1 + odds), odds / (1 + odds)])
    kind = "one decision" if one_decision else "several"
    return HiddenWorld(f"severity {strength:g}, {kind}", "unrecorded reasons", moves, pay, np.full(6, 1 / 6),
                       np.array([s for s, _ in level]), logging, np.tile([0.2, 0.8], (3, 1)), (-100.0, 20.0),
                       noise=lambda h, a, rng: rng.normal(0, 0.5, len(h)))  # fmt: skip


def tired_two_decisions_later() -> HiddenWorld:
    """An action pays unless it was taken two decisions before, when it costs more; the record shows the state only."""
    level = [(s, last, second) for s in (0, 1) for last in (0, 1) for second in (0, 1)]
    moves, pay = np.zeros((8, 2, 9)), np.zeros((8, 2))
    for h, (s, last, second) in enumerate(level):
        for a in (0, 1):
            for to in (0, 1):
                moves[h, a, level.index((to, a, last))] = 0.85 * (0.7 if to == s ^ a else 0.3)
            moves[h, a, 8] = 0.15
            pay[h, a] = 0.3 * s + a * (1.0 - 2.2 * second)
    start = np.array([0.5 * (last == second == 0) for _, last, second in level])
    return HiddenWorld("history: two before", "history", moves, pay, start, np.array([s for s, _, _ in level]),
                       np.tile([0.75, 0.25], (8, 1)), np.tile([0.15, 0.85], (2, 1)), (-150.0, 150.0),
                       noise=lambda h, a, rng: rng.normal(0, 0.3, len(h)))  # fmt: skip


def aliased() -> HiddenWorld:
    """The machine with its wear shown as low or high only."""
    return replace(machine(), name="aliasing: machine", breaks="history", seen=np.arange(6) // 3,
                   proposed=np.array([[0.9, 0.1], [0.2, 0.8]]))  # fmt: skip


def drifting() -> HiddenWorld:
    """The machine of the second half of the log wears out less and service costs more."""
    base = machine()
    late = replace(base, pay=np.column_stack([1.0 - 0.1 * np.arange(6), np.full(6, -0.8)]))
    return replace(base, name="drift: machine", breaks="drift", late=late)


def repeated_people() -> HiddenWorld:
    """Episodes of 20 to 200 people, whom an action suits or does not, all episodes of one together."""
    return replace(machine(), name="repeated people", breaks="independence", people=(50, 0.6))


def rare_loss() -> HiddenWorld:
    """An action earns a little and loses very much once in five hundred times."""
    base = severity(1.0, one_decision=True)

    def lost(h: IntArray, a: IntArray, rng: np.random.Generator) -> FloatArray:
        return rng.normal(0, 0.2, len(h)) + a * (200.0 / 500 - 200.0 * (rng.random(len(h)) < 1 / 500))

    pay = base.pay.copy()
    pay[:, 1] += 0.18 - 200.0 / 500
    return replace(base, name="rare loss", breaks="rare events", pay=pay, noise=lost, range=(-203.0, 3.0))


def cut_by_state() -> HiddenWorld:
    """The machine's record often stops where wear is high."""
    return replace(machine(), name="cuts by state", breaks="cut episodes", cut=np.array([0.0, 0, 0, 0.1, 0.2, 0.3]))


def wrong_propensities() -> HiddenWorld:
    """The machine with recorded probabilities whose odds are off by a half."""
    return replace(machine(), name="wrong propensities", breaks="propensities", stated=0.4)


def outliers() -> HiddenWorld:
    """The machine with one reward in three hundred a hundred times as noisy."""

    def heavy(h: IntArray, a: IntArray, rng: np.random.Generator) -> FloatArray:
        return rng.normal(0, 0.3, len(h)) * np.where(rng.random(len(h)) < 1 / 300, 100.0, 1.0)

    return replace(machine(), name="outliers", noise=heavy, range=(-300.0, 300.0))


def fixed_length(world: HiddenWorld, steps: int) -> HiddenWorld:
    """The world with episodes of so many decisions, whatever happens in them; the log does not show how many are left.

    A hidden state is the world's own and the number of decisions so far.
    """
    size, actions = world.logging.shape
    inside = world.moves[:, :, :-1] / world.moves[:, :, :-1].sum(axis=2, keepdims=True)
    moves = np.zeros((steps, size, actions, steps, size))
    moves[np.arange(steps - 1), :, :, np.arange(1, steps)] = inside
    end = np.zeros((steps, size, actions, 1))
    end[-1] = 1.0
    noise = world.noise
    return replace(
        world, name=f"{world.name}, {steps} decisions each", pay=np.tile(world.pay, (steps, 1)),
        moves=np.concatenate([moves.reshape(steps, size, actions, -1), end], axis=3).reshape(steps * size, actions, -1),
        start=np.append(world.start, np.zeros((steps - 1) * size)), seen=np.tile(world.seen, steps),
        logging=np.tile(world.logging, (steps, 1)),
        noise=None if noise is None else lambda h, a, rng: noise(h % size, a, rng),
    )  # fmt: skip


def worlds() -> list[HiddenWorld]:
    """All, the clean ones first."""
    return [
        random_world(), machine(), queue(), outliers(), tolerance(), repeated_action(), tired_two_decisions_later(),
        *(severity(g) for g in (1.2, 1.6, 2.5)), *(severity(g, one_decision=True) for g in (1.2, 1.6, 2.5)),
        aliased(), drifting(), repeated_people(), rare_loss(), cut_by_state(), wrong_propensities(),
        fixed_length(machine(), 5), fixed_length(queue(), 10), fixed_length(random_world(), 8),
        fixed_length(tolerance(), 8), fixed_length(repeated_action(), 5),
        fixed_length(replace(machine(), name="clean: machine, range ±8", range=(-8.0, 8.0)), 5),
    ]  # fmt: skip
