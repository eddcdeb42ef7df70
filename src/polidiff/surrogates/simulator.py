"""A simulator as a table over the cells of a grid, for rules about features.

In every cell one may do as now or take one action throughout. Each episode follows a plan over cells, except that it
draws another choice for a few of them, or does one thing in a whole box, so that choices are seen near where the plan
leads. The table is wrong where a cell is not a state; so it is estimated again near the best plan, a few times, every
plan that was ever found is played, and the best for each number of rules is kept and judged by other episodes. Rules of
one condition are played without the table too. An episode that is cut at the horizon H has
not ended; the table is discounted by 1 − 1/H instead, unless H is so small that ends are seen often.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from polidiff.options import ImproveOptions
from polidiff.policies import CallablePolicy, Policy, one_hot, top_actions
from polidiff.policies.protocol import Candidates, PolicyLike
from polidiff.progress import track
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.numbers import counted
from polidiff.records.patch import AS_NOW, Edit, Patch
from polidiff.records.plan import Frontier, Plan, PlanRule
from polidiff.records.rule import Rule, covers_any
from polidiff.rules.cell_grid import MOST_CELLS, Box, Grid, Trials, grid_of_rows
from polidiff.streams import Stream
from polidiff.surrogates.record import (
    NO_LOG,
    WITH_RULES,
    Note,
    frozen_rules,
    listed_candidates,
    refuse,
    split_support,
    told_of_world,
)
from polidiff.surrogates.simulator_cells import (
    OTHERS,
    Assigned,
    CellCounts,
    PairedEpisodes,
    PlayedCells,
    PlayEffort,
    count_assigned,
    effort_for,
    played_table,
)
from polidiff.surrogates.simulator_regions import reduce_to_regions
from polidiff.surrogates.table import Surrogate
from polidiff.worlds.protocol import aim, policy_in, world_summary
from polidiff.worlds.rollouts import Rollouts, roll_out
from polidiff.worlds.simulator import Simulator
from polidiff.worlds.tabular import TabularMDP

ROUNDS = 3
SHORT = 20  # decisions of an episode up to which a cut counts as its end
ENOUGH = 30  # visits of a choice in a cell below which it is not offered
FEWEST_CELLS = 24
MORE = 10  # times as many episodes as usual, where they are short
MOST_TRIED, MOST_SAMPLED = 200_000, 20_000  # decisions that place the cuts: by what actions bring, by what differs
VALUES = 48  # leaves that tell what the rest of an episode brings
EXPLORING = 0.1  # of the decisions, in the episodes that place the cuts
RATES = (0.02, 0.1, 0.3)  # share of cells in which an episode draws another choice
BOLD = (0.3, 1.0)  # the same, where episodes that do as now stay in few cells, so that few choices were seen
FEW_LEARNED = 0.25  # of the choices in all cells that were met
BOXED = 0.3  # of the episodes: they do one thing in a whole box of cells
TO_EXPLORE, TO_RACE, TO_LEARN, TO_CHOOSE, TO_JUDGE = 0.1, 0.1, 0.15, 0.2, 0.25  # of the effort; learning in each round
KEEP = "keep"


@dataclass(frozen=True, eq=False)
class CellGames:
    """Where plans over cells are played."""

    world: Simulator
    current: Policy
    cells: Grid
    frozen: tuple[Rule, ...]
    least: int  # visits from which a choice is offered
    effort: PlayEffort

    def of(self, states: AnyArray) -> IntArray:
        """Cell of each state, −1 where nothing may change."""
        features = self.world.features_of(states)
        cell = self.cells.of(np.asarray(features, dtype=np.float64))
        return np.where(covers_any(self.frozen, features), -1, cell) if self.frozen else cell

    def assigned(self, draw: Callable[[int, np.random.Generator], IntArray], horizon: int) -> Assigned:
        """Episodes whose choices (episodes, K) are drawn: an action, or one past the last for "as now"."""
        world, as_now = self.world, np.full(self.cells.size, self.world.n_actions)
        ends = world.horizon <= SHORT
        return Assigned(world, self.current, self.of, draw, as_now, world.n_actions + 1, ends, horizon)


@dataclass(frozen=True)
class Played:
    """A lifted plan, what it returned when it was played to choose, and how much it changed."""

    plan: Plan
    mean: float
    changes: float
    length: float  # decisions of an episode


@dataclass(frozen=True, eq=False, kw_only=True)
class PlayedGrid(PlayedCells):
    """A table over cells, learned near the best plan so far."""

    games: CellGames
    pool: dict[Patch, Played] = field(default_factory=dict)  # every plan that was found, played
    round: int = 0

    def lift(self, plan: Plan) -> Plan:
        """The rules as edits of the current policy, with the return of the whole episode."""
        return self.with_patch(plan, rules_patch(self.games, plan.rules))

    def nearer(self, plans: Sequence[Plan]) -> PlayedGrid | None:
        """Plans are played; in all rounds but the last the table is learned again near the best so far."""
        clock = self.effort.clock
        for plan in track("plans played to choose", list(plans)):
            if plan.patch not in self.pool and not (self.pool and clock.over()):
                self.pool[plan.patch] = self._played(plan)
        if not self.round and self.options.max_rules and self.any_rule and not clock.over():
            easy = self._easy(plans[0], bound=max(plan.bound for plan in plans))
            self.pool.setdefault(easy.plan.patch, easy)
        played = self.counts.moves.sum(axis=2)
        learned = (played[:, :-1] >= self.games.least).sum() / max(1, played.any(axis=1).sum() * (played.shape[1] - 1))
        if self.round + 1 == ROUNDS or clock.over() or not learned:
            return None
        best = max(self.pool.values(), key=lambda played: played.mean)
        seed = (self.options.seed, Stream.CELL_GAMES, self.round + 1)
        near, rates = choices_of(self.games, best.plan.rules), RATES if learned > FEW_LEARNED else BOLD
        counts = self.counts + count_near(self.games, near, length=best.length, seed=seed, rates=rates)
        return replace(self, table=cell_table(self.games, counts), counts=counts, round=self.round + 1)

    @property
    def any_rule(self) -> bool:
        """Whether a rule may be any: no limit on moves or support."""
        options = self.options
        return options.moves == "actions" and options.fallback == KEEP and options.min_support is None

    def _easy(self, nothing: Plan, bound: float) -> Played:
        """The best plan of one condition, which the table may not show where it is wrong."""
        box, action, mean = best_half(self.games, (self.options.seed, Stream.CELL_GAMES, ROUNDS))
        move, literals = self.world.actions[action].name, self.games.cells.literals(box)
        rule = PlanRule(self.games.cells.rule(box), move, 1.0, 0.0, nothing.expected_return)
        plan = replace(nothing, rules=(rule,), literals=literals, expected_return=mean, bound=max(bound, mean))
        played = self._played(self.lift(plan))
        return replace(played, plan=replace(played.plan, rules=(replace(rule, changes=played.changes),)))

    def _played(self, plan: Plan) -> Played:
        games = ROUNDS * int(self.options.max_rules or 0) + 1
        episodes = self.episodes(TO_CHOOSE / games, Stream.CHOOSING_PLANS)
        played = episodes.play(plan.policy)
        mean = float(played.totals[:, aim(self.world)[0]].mean())
        return Played(plan, mean, episodes.changes(plan.policy, played).estimate, float(played.lengths.mean()))

    @cached_property
    def judging(self) -> PairedEpisodes:
        """Episodes that neither made the table nor chose a plan."""
        most = int(self.options.max_rules or 0)
        return self.episodes(TO_JUDGE / (most + 1), Stream.JUDGING_PLANS, most=2.0, family=max(1, most))

    def judge(self, plans: Sequence[Plan]) -> tuple[Plan, ...]:
        """For each number of rules the plan that returned most, if that is more than with fewer."""
        judging, chosen = self.judging, self._best_of_each()
        if self.effort.clock.over():
            chosen = list(dict.fromkeys([chosen[0], chosen[-1]]))
        return tuple(judging.judge(p.plan) for p in track("plans played in the world", chosen))

    def _best_of_each(self) -> list[Played]:
        budget = self.options.budget
        within = [p for p in self.pool.values() if budget is None or not p.plan.rules or p.changes <= budget]
        chosen: list[Played] = []
        for size in sorted({len(played.plan.rules) for played in within}):
            best = max((p for p in within if len(p.plan.rules) == size), key=lambda played: played.mean)
            if not chosen or best.mean > chosen[-1].mean:
                chosen.append(best)
        return chosen

    def conclude(self, solved: Frontier, plans: tuple[Plan, ...]) -> Frontier:
        """Returns of played episodes."""
        method = (
            f"{counted(len(self.judging.before), 'episode')} of the current policy, and as many decisions of each plan"
        )
        return replace(
            told_of_world(solved, plans, world_summary(self.world), method),
            baselines=(),
            outcomes=self.world.outcomes,
            gap=max(plan.gap for plan in plans),
            optimum=plans[-1].expected_return + solved.optimum - solved.best.expected_return,
            context=self,
        )

    def notes(self, plans: Sequence[Plan]) -> tuple[Note, ...]:
        """What the table is, and which actions no cell has seen often enough."""
        met = np.asarray(self.table.allowed)[: self.games.cells.size, : self.world.n_actions].sum(axis=0)
        lost = [action.name for action, count in zip(self.world.actions, met, strict=True) if not count]
        which = "No action" if len(lost) == len(met) else f"Not {', '.join(lost[:7])}: no such action"
        rare = f"{which} was played at least {self.games.least} times in any cell; rules cannot prescribe it."
        if self.options.freeze and not self.counts.moves.any():
            rare = "Every state that was met is frozen: nothing may change."
        return (
            *self._undecided(plans),
            *self._fewer_rules(plans),
            *self.hurried(),
            f"Plans were searched in a table over {self.games.cells.size} cells that was learned by playing: better "
            "ones may exist. Returns and gains are of episodes that neither made the table nor chose a plan.",
            *((rare,) if lost else ()),
        )

    def _fewer_rules(self, plans: Sequence[Plan]) -> tuple[str, ...]:
        """That plans have fewer rules than were allowed."""
        asked, most = int(self.options.max_rules or 0), max(len(plan.rules) for plan in plans)
        if not 0 < most < asked:
            return ()
        more = counted(asked, "rule") if asked == most + 1 else f"{most + 1} to {asked} rules"
        tried = len([played for played in self.pool.values() if len(played.plan.rules) > most])
        reason = f"the {tried} played to choose returned no more" if tried else "the table over cells offered none"
        return (f"No plan of {more} was seen to gain over {counted(most, 'rule')}: {reason}.",)

    def _undecided(self, plans: Sequence[Plan]) -> tuple[str, ...]:
        """That nothing is shown to gain, and what was played to find out."""
        if any(plan.gain is not None and plan.gain.low > 0 for plan in plans):
            return ()
        tried = len([patch for patch in self.pool if patch.edits])
        if not tried:
            return ("The current policy stays: nothing that was tried in episodes near it seemed to gain.",)
        return (
            f"The current policy stays: no plan is shown to gain ({tried} played). A gain may exist that no rule over "
            f"these cells makes, or that {counted(len(self.judging.before), 'episode')} cannot tell from none.",
        )


def reduce_to_grid(world: Simulator, current: Policy, options: ImproveOptions) -> PlayedGrid:
    """The table over cells where sampled episodes get."""
    share, least = split_support(options.min_support, ENOUGH)
    frozen = frozen_rules(options.freeze, world.feature_names)
    effort = effort_for(world, current, time_limit=options.time_limit, seed=options.seed)
    explored = _explored(world, current, effort, options.seed)
    effort = replace(effort, length=max(effort.length, float(explored.lengths.mean())))
    cells = _sampled_grid(world, current, explored, effort, least, options.seed)
    games = CellGames(as_cut(world, explored), current, cells, frozen, least, effort)
    as_now = np.full(games.cells.size, world.n_actions)
    counts = count_near(games, as_now, length=0.0, seed=(options.seed, Stream.CELL_GAMES, 0))
    return PlayedGrid(
        world=world,
        table=cell_table(games, counts),
        base=np.append(as_now, [as_now[0]] * OTHERS),
        by_rules=True,
        grid=games.cells.padded(OTHERS),
        where="a simulator",
        min_support=share,
        node_limit=0,
        current=current,
        effort=effort,
        games=games,
        counts=counts,
        options=options,
    )


def _explored(world: Simulator, current: Policy, effort: PlayEffort, seed: int) -> Rollouts:
    """Episodes of the current policy that now and then try something else."""
    episodes, horizon = effort.exploring(TO_EXPLORE, MORE, world.horizon)
    return roll_out(
        world,
        CallablePolicy(partial(_exploring, current), world.n_actions),
        episodes=episodes,
        seed=(seed, Stream.EXPLORED_STATES),
        horizon=horizon,
        record=True,
        what="sampled states",
    )


def as_cut(world: Simulator, played: Rollouts) -> Simulator:
    """The world with the horizon at which it cuts its episodes itself, where that is sooner."""
    cut, shorter = played.lengths[played.truncated], copy.copy(world)
    shorter.horizon = min(world.horizon, int(cut.max(initial=0)) or world.horizon)
    return shorter


def _sampled_grid(
    world: Simulator, current: Policy, played: Rollouts, effort: PlayEffort, least: int, seed: int
) -> Grid:
    """Cells where exploring episodes get; no more than can be learned."""
    episodes, horizon = effort.exploring(TO_LEARN, MORE, world.horizon)
    tried = episodes * min(effort.length, horizon) * float(np.mean(RATES)) / (world.n_actions + 1)
    most = int(np.clip(tried / least, FEWEST_CELLS, MOST_CELLS))
    visits = played.visits
    assert visits is not None
    some = np.random.default_rng((seed, Stream.SAMPLED_STATES)).permutation(len(visits.actions))[:MOST_TRIED]
    states, episode = visits.states[some], visits.episode[some]
    features = np.asarray(world.features_of(states), dtype=np.float64)
    usual, togo = top_actions(current.probabilities(states)), played.lengths[episode] - visits.step[some]
    trials = _trials(world, played, features, some, usual, seed) if np.isfinite(features).all() else []
    signals = np.hstack([one_hot(usual, world.n_actions), togo[:, None], played.totals[episode]])[:MOST_SAMPLED]
    return grid_of_rows(features[:MOST_SAMPLED], signals, world.feature_names, trials=trials, most=most, seed=seed)


def _trials(
    world: Simulator, played: Rollouts, features: FloatArray, some: IntArray, usual: IntArray, seed: int
) -> list[Trials]:
    """Where each action was tried, and what it brought: its gain and the value of where it led, less that before it.

    Values tell the rest of the return by how many decisions were made, a cubic, and what is left of it by a tree over
    the features: in long episodes nearly all of it is what is still to come. A decision at the cut is left out.
    """
    from sklearn.tree import DecisionTreeRegressor

    visits, main = played.visits, aim(world)[0]
    assert visits is not None
    episode, after = visits.episode[some], np.minimum(some + 1, len(visits.step) - 1)
    last = visits.step[some] + 1 == played.lengths[episode]
    rest = played.totals[episode, main] - visits.before[some, main]
    gain = np.where(last, rest, visits.before[after, main] - visits.before[some, main])
    step = visits.step[some]
    by_time = np.polynomial.Polynomial.fit(step, rest, min(3, len(np.unique(step)) - 1), [0, max(1, step.max())])
    tree = DecisionTreeRegressor(max_leaf_nodes=VALUES, min_samples_leaf=ENOUGH, random_state=seed % 2**32)
    tree.fit(features, rest - by_time(step))
    next_features = np.nan_to_num(np.asarray(world.features_of(visits.states[after]), dtype=np.float64))
    led_to = tree.predict(next_features) + by_time(step + 1)
    effect = gain + np.where(last, 0.0, led_to) - tree.predict(features) - by_time(step)
    known = ~last | ~played.truncated[episode] | (played.lengths[episode] == 1)
    tried = [known & (visits.actions[some] == action) & (usual != action) for action in range(world.n_actions)]
    return [(features[rows], effect[rows]) for rows in tried if np.count_nonzero(rows) >= 2 * ENOUGH]


def _exploring(base: Policy, states: AnyArray) -> FloatArray:
    """Chances of the policy in use, with a small chance of any other action."""
    return (1 - EXPLORING) * base.probabilities(states) + EXPLORING / base.n_actions


def count_near(
    games: CellGames, plan: IntArray, *, length: float, seed: tuple[int, ...], rates: Sequence[float] = RATES
) -> CellCounts:
    """Play near a plan (K,) of choices (an action, or one past the last for "as now"), and count.

    `length` is that of the plan's own episodes. Some draw another choice in a share of cells that is one of `rates`;
    others take one action in a whole box of cells, as a rule would: where several changes pay only together, no few
    cells show it.
    """
    world = games.world
    effort = replace(games.effort, length=max(length, games.effort.length))
    episodes, horizon = effort.exploring(TO_LEARN, MORE, world.horizon)
    draw = partial(_drawn, games.cells, plan, world.n_actions, rates)
    game = games.assigned(draw, horizon)
    return count_assigned(game, episodes=episodes, seed=seed, what="roll-outs over cells")[0]


def best_half(games: CellGames, seed: tuple[int, ...]) -> tuple[Box, int, float]:
    """The side of a cut and the action there that return most, the current policy acting elsewhere, and their mean.

    All of them are played a little, a quarter of them again, and a quarter of these, each time as many episodes.
    """
    world, cells = games.world, games.cells
    episodes, horizon = games.effort.exploring(TO_RACE / 3, MORE, world.horizon)
    episodes, ends = min(episodes, world.chunk), enumerate(cells.sizes.tolist())
    sides = [(j, *side) for j, size in ends for cut in range(1, size) for side in ((0, cut - 1), (cut, size - 1))]
    rules = [(side, action) for side in sides for action in range(world.n_actions)]
    left = [rules[k] for k in np.random.default_rng(seed).permutation(len(rules))[:episodes]]
    for turn in range(3):
        choices = np.array([np.where(cells.covers((side,)), action, world.n_actions) for side, action in left])
        game, played = games.assigned(partial(_in_turn, choices), horizon), episodes - episodes % len(left)
        totals = count_assigned(game, episodes=played, seed=(*seed, turn), what="rules of one condition")[1]
        means = totals[:, aim(world)[0]].reshape(-1, len(left)).mean(axis=0)
        best = np.argsort(-means, kind="stable")[: max(1, len(left) // 4)]
        left = [left[k] for k in best]
    return (left[0][0],), left[0][1], float(means[best[0]])


def _in_turn(choices: IntArray, count: int, rng: np.random.Generator) -> IntArray:
    return choices[np.arange(count) % len(choices)]


def _drawn(
    cells: Grid, plan: IntArray, as_now: int, rates: Sequence[float], count: int, rng: np.random.Generator
) -> IntArray:
    """(count, K) choice of each episode in each cell."""
    rate = rng.choice(np.array(rates), size=(count, 1))
    other = rng.integers(0, as_now + 1, size=(count, len(plan)))
    single = np.where(rng.random((count, len(plan))) < rate, other, plan[None, :])
    boxed, action = rng.random((count, 1)) < BOXED, rng.integers(0, as_now, size=(count, 1))
    return np.where(boxed, np.where(_random_boxes(cells, count, rng), action, plan[None, :]), single)


def _random_boxes(cells: Grid, count: int, rng: np.random.Generator) -> BoolArray:
    """(count, K) cells of random boxes with intervals of two columns, which may be one."""
    inside = np.ones((count, cells.size), dtype=np.bool_)
    for _ in range(2):
        column = rng.integers(0, len(cells.columns), size=count)
        first, last = np.sort(rng.integers(0, cells.sizes[column], size=(2, count)), axis=0)[:, :, None]
        code = cells.codes[column]
        inside &= (first <= code) & (code <= last)
    return inside


def cell_table(games: CellGames, counts: CellCounts) -> TabularMDP:
    """The estimated table; choices seen too rarely are not offered."""
    world, cells = games.world, games.cells.size
    allowed = counts.moves.sum(axis=2) >= games.least
    allowed[:, -1] = True
    actions = [*(action.name for action in world.actions), AS_NOW]
    names = [f"cell {k}" for k in range(cells)]
    discount = 1.0 if world.horizon <= SHORT else 1 - 1 / world.horizon
    return played_table(world, counts, allowed, actions, names, discount=discount)


def choices_of(games: CellGames, rules: Sequence[PlanRule]) -> IntArray:
    """Choices (K,) of a plan in the cells: the first rule that covers the cell."""
    names = [action.name for action in games.world.actions]
    points = games.cells.points
    choice = np.full(games.cells.size, games.world.n_actions)
    for entry in reversed(rules):
        choice[entry.rule.covers(points)] = names.index(entry.move) if entry.move != KEEP else games.world.n_actions
    return choice


def rules_patch(games: CellGames, rules: Sequence[PlanRule]) -> Patch:
    """Edits that follow the rules, first match wins: a rule also holds back later ones where it changes nothing."""
    world = games.world
    names = [action.name for action in world.actions]
    edits = [Edit(rule, None, None) for rule in games.frozen]
    edits += [Edit(entry.rule, None, None if entry.move == KEEP else names.index(entry.move)) for entry in rules]
    return Patch(tuple(edits) if rules else (), tuple(names), world.feature_names, world.features_of)


def reduce(world: Simulator, current: PolicyLike, candidates: Candidates, options: ImproveOptions) -> Surrogate:
    """Rules over features if they are asked for without candidates; else plans over the candidates' regions."""
    refuse(options, ("pessimism",), NO_LOG)
    refuse(options, ("unit", "change_cost"), "needs the states and starts of a table; a simulator has no list of them")
    place, base = with_return(world), policy_in(world, current)
    if options.max_rules is not None and candidates is None:
        refuse(options, ("max_states",), WITH_RULES)
        return reduce_to_grid(place.with_numbers(), base, options)
    listed = listed_candidates(candidates, "or max_rules=2 for rules over features")
    return reduce_to_regions(place, base, [policy_in(world, one) for one in listed], options)


def with_return(world: Simulator) -> Simulator:
    """The world, telling its return first."""
    place = copy.copy(world)
    if world.return_outcome.name not in [outcome.name for outcome in world.outcomes]:
        place.outcomes = (world.return_outcome, *world.outcomes)
    return place
