"""What do roll-outs cost beside a bare loop that records the same arrays?

Stage: `polidiff.worlds.rollouts.roll_out`. Each case is timed in turns with its bare loop, in one process; the ratio is
the median over the turns, of processor time, so that other work on the machine counts little. Episodes that are over
rest while the others go on, because two policies can only share their luck if every episode keeps its place in the
batch; `keeps places` is the bare loop that does the same, and `drops ended` the one that need not compare anything and
leaves ended episodes out.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from polidiff import Simulator, as_policy
from polidiff.domains import navigation
from polidiff.worlds.rollouts import roll_out

SEED = 0
LIMIT = 1.3


class Walk:
    """A drifting walk on a line whose episodes have very different lengths."""

    n_actions = 2
    horizon = 400

    def reset(self, count: int, rng: np.random.Generator) -> Any:
        """Near the middle."""
        return rng.uniform(-1, 1, size=(count, 4))

    def step(self, states: Any, actions: Any, rng: np.random.Generator) -> tuple[Any, Any, Any]:
        """A push against noise; over when the first coordinate leaves ± 4."""
        moved = 0.99 * states + rng.normal(0.0, 0.5, size=states.shape)
        moved[:, 0] += 0.1 * (2 * actions - 1)
        return moved, -np.ones(len(moved)), np.abs(moved[:, 0]) > 4


def towards_the_middle(states: Any) -> Any:
    """Pushes back."""
    return (states[:, 0] < 0).astype(np.int64)


@dataclass
class Record:
    """What a roll-out gives: first states, sums, lengths, cuts, and every decision."""

    starts: Any
    totals: Any
    lengths: Any
    truncated: Any
    visits: tuple[Any, Any, Any, Any]


def ordered(log: list[tuple[Any, Any, Any]], lengths: Any) -> tuple[Any, Any, Any, Any]:
    """Decisions by episode and step."""
    before = np.cumsum(lengths) - lengths
    step = np.repeat(np.arange(len(log)), [len(entry[0]) for entry in log])
    episode, states, actions = (np.concatenate([entry[part] for entry in log]) for part in range(3))
    order = np.empty(len(episode), dtype=np.int64)
    order[before[episode] + step] = np.arange(len(episode))
    return episode[order], step[order], states[order], actions[order]


def loop_dropping_ended(model: Any, policy: Callable[[Any], Any], count: int, gains: list[Any], limit: int) -> Record:
    """The shortest loop over a vectorised model."""
    rng = np.random.default_rng(SEED)
    states = first = model.reset(count, rng)
    running, log = np.arange(count), []
    totals, lengths = np.zeros((count, 1 + len(gains))), np.zeros(count, dtype=np.int64)
    for _ in range(limit):
        actions = policy(states)
        moved, rewards, over = model.step(states, actions, rng)
        totals[running, 0] += rewards
        for column, gain in enumerate(gains, start=1):
            totals[running, column] += gain(states, actions, moved)
        log.append((running, states, actions))
        lengths[running] += 1
        running, states = running[~over], moved[~over]
        if not running.size:
            break
    truncated = np.isin(np.arange(count), running)
    return Record(first, totals, lengths, truncated, ordered(log, lengths))


def loop_keeping_places(model: Any, policy: Callable[[Any], Any], count: int, gains: list[Any], limit: int) -> Record:
    """The same, with a stream of luck per step and every episode in its place."""
    states = first = model.reset(count, np.random.default_rng((SEED, 0)))
    running, over, log = np.arange(count), np.zeros(count, dtype=bool), []
    totals, lengths = np.zeros((count, 1 + len(gains))), np.zeros(count, dtype=np.int64)
    actions = np.zeros(count, dtype=np.int64)
    for step in range(1, limit + 1):
        here = states[running]
        actions[running] = policy(here)
        moved, rewards, ended = model.step(states, actions, np.random.default_rng((SEED, step)))
        totals[running, 0] += rewards[running]
        for column, gain in enumerate(gains, start=1):
            totals[running, column] += gain(here, actions[running], moved[running])
        log.append((running, here, actions[running]))
        lengths[running] += 1
        states = np.where(over[:, None], states, moved)
        over |= ended
        running = np.flatnonzero(~over)
        if not running.size:
            break
    return Record(first, totals, lengths, ~over, ordered(log, lengths))


def loop_over_environments(envs: list[Any], policy: Callable[[Any], Any]) -> Record:
    """Environments stepped by hand side by side, one call of the policy per step."""
    count = len(envs)
    first = np.array([env.reset(seed=SEED + index)[0] for index, env in enumerate(envs)])
    states, running, log = first, np.arange(count), []
    totals, lengths, truncated = np.zeros((count, 1)), np.zeros(count, dtype=np.int64), np.zeros(count, dtype=bool)
    while running.size:
        actions = policy(states)
        results = [envs[index].step(action) for index, action in zip(running.tolist(), actions.tolist(), strict=True)]
        moved, rewards, ended, cut = (np.array([result[part] for result in results]) for part in range(4))
        totals[running, 0] += rewards
        log.append((running, states, actions))
        lengths[running] += 1
        truncated[running] |= cut
        on = ~(ended | cut)
        running, states = running[on], moved[on]
    return Record(first, totals, lengths, truncated, ordered(log, lengths))


def compared(ours: Callable[[], Any], bare: Callable[[], Any], turns: int) -> dict[str, Any]:
    """Ratio of times per decision, taken in turns."""
    seconds: dict[str, list[float]] = {"ours": [], "bare": []}
    for turn in range(turns + 1):
        for name, call in (("ours", ours), ("bare", bare)):
            begin = time.process_time()
            played = call()
            if turn:  # the first turn warms caches up
                seconds[name].append((time.process_time() - begin) / played.lengths.sum())
    ratios = sorted(one / other for one, other in zip(seconds["ours"], seconds["bare"], strict=True))
    return {
        "ratio": round(statistics.median(ratios), 3),
        "quartiles": [round(float(q), 3) for q in np.quantile(ratios, [0.25, 0.75])],
        "microseconds per decision": {name: round(1e6 * statistics.median(t), 3) for name, t in seconds.items()},
        "turns": turns,
    }


def model_case(
    model: Any, policy: Any, gains: dict[str, Any], loop: Callable[..., Record], episodes: int, turns: int
) -> dict[str, Any]:
    """Roll-outs of a vectorised model against one of the loops."""
    from polidiff import Outcome

    world = Simulator(model, outcomes=[Outcome(name, gain) for name, gain in gains.items()])
    ours = as_policy(policy, n_actions=world.n_actions)
    found = compared(
        lambda: roll_out(world, ours, episodes=episodes, seed=(SEED,), record=True),
        lambda: loop(model, policy, episodes, list(gains.values()), world.horizon),
        turns,
    )
    return {"episodes": episodes, **found}


def environment_case(env_id: str, policy: Any, episodes: int, turns: int) -> dict[str, Any]:
    """Roll-outs of an environment against the same environments stepped by hand."""
    world = Simulator(env_id)
    ours = as_policy(policy, n_actions=world.n_actions)
    envs = [gymnasium.make(env_id, disable_env_checker=True) for _ in range(episodes)]
    found = compared(
        lambda: roll_out(world, ours, episodes=episodes, seed=(SEED,), record=True),
        lambda: loop_over_environments(envs, policy),
        turns,
    )
    return {"environment": env_id, "episodes": episodes, **found}


def lean(states: Any) -> Any:
    """Pushes the cart under the pole."""
    return (states[:, 2] + 0.5 * states[:, 3] > 0).astype(np.int64)


def rightwards(states: Any) -> Any:
    """Down and right in turns, by the number of the tile."""
    return 1 + np.asarray(states) % 2


def run(smoke: bool) -> dict[str, Any]:
    """Ratios of all cases; those that a promise stands on are marked with its limit."""
    episodes, turns, envs = (512, 2, 8) if smoke else (8192, 21, 64)
    stay = {"stay": navigation.in_desired_region}
    plain, uneven = navigation.NavigationModel(), Walk()
    cases = {
        "model, navigation, drops ended": model_case(
            plain, navigation.current, stay, loop_dropping_ended, episodes, turns
        ),
        "model, navigation, keeps places": model_case(
            plain, navigation.current, stay, loop_keeping_places, episodes, turns
        ),
        "model, uneven lengths, keeps places": model_case(
            uneven, towards_the_middle, {}, loop_keeping_places, episodes, turns
        ),
        "environments, CartPole": environment_case("CartPole-v1", lean, envs, max(2, turns // 2)),
        "environments, FrozenLake": environment_case("FrozenLake8x8-v1", rightwards, envs, max(2, turns // 2)),
    }
    beside = {
        "model, uneven lengths, drops ended": model_case(
            uneven, towards_the_middle, {}, loop_dropping_ended, episodes, max(2, turns // 4)
        ),
    }
    return {"limit": LIMIT, "cases": cases, "not comparable with common luck": beside}
