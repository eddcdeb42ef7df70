"""The result of `explain`: regions, sentences, verdicts, quality, and what is needed to draw and to ask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from polidiff.records.action import Action, Direction, Shift
from polidiff.records.codec import Json, Result, renderer, schema
from polidiff.records.outcome import Assumption, Interval, Outcome
from polidiff.records.patch import Patch
from polidiff.records.rule import MOST_VALUES, Condition, Rule

IDLE = "share of changed decisions without effect"  # fact: at once, or too small a difference to be told
FOLLOWED = "episodes played for paths"  # fact of a table: how many, where chance decides which changes are met
VerdictDirection = Literal["more", "less", "same", "unknown"]


@dataclass(frozen=True)
class ActionSupport:
    """How often an action is taken in a region."""

    action: str
    people: int  # people (or episodes) of the log who got it there at least once; 0 without a log
    current: float  # share of the region's decisions in which the current policy takes it
    proposed: float  # and the proposed one


@dataclass(frozen=True)
class Support:
    """What stands behind a region or a sentence."""

    states: int  # distinct states of a table, or sampled states
    episodes: int  # episodes that meet it; for a table, starts that can
    share: float  # share of all decisions of ½ current + ½ proposed that fall in it
    unsupported: float | None = None  # share of its visits that the log cannot speak about; None without a log
    actions: tuple[ActionSupport, ...] = ()  # of a log, but none where rows are a sample; without one, where mixed


@dataclass(frozen=True)
class SwapShare:
    """One pair of actions within a region and how much of it that pair makes up."""

    current: str
    proposed: str
    share: float


@dataclass(frozen=True)
class RegionEffect:
    """What one change does to each outcome: differences that hold together; none where episodes would never end."""

    alone: Mapping[str, Interval]  # outcome -> the proposed policy acts in this region only
    without: Mapping[str, Interval]  # outcome -> it acts everywhere but in this region


@dataclass(frozen=True)
class Region:
    """One conjunction of conditions in which the proposed policy does one thing instead of another."""

    id: str
    rule: Rule
    current: str  # name of the current action (of the most frequent pair, where a direction is told)
    proposed: str
    support: Support
    precision: float  # share of its visits that truly have this swap
    recall: float  # share of all visits with this swap that it covers
    shift: Shift | None = None  # same action, other probability
    direction: Direction | None = None  # several swaps told as one direction
    swaps: tuple[SwapShare, ...] = ()  # pairs inside, most frequent first
    states: tuple[str, ...] = ()  # names of the states of a table, at most 50
    action_values: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # outcome -> action -> expected sum
    merged: bool = False  # several states of a table without features, told together
    key: str = ""  # made from swap and place alone, so that two results can be compared; `id` is for reading
    effect: RegionEffect | None = None  # None where no episode visits it, and for all but the most visited regions
    intervals: Mapping[str, Interval] = field(default_factory=dict)  # of "precision" and "recall"; see `Quality`
    beside_few: bool = False  # whether an earlier region that is not shown has a part of its place


@dataclass(frozen=True)
class Verdict:
    """What the proposed policy does to one outcome."""

    outcome: str
    direction: VerdictDirection
    difference: Interval  # proposed − current, simultaneous over all verdicts shown; this one decides
    pointwise: Interval  # the same for this comparison alone
    valence: Literal["better", "worse"] | None
    current: Interval | None = None
    proposed: Interval | None = None
    unsupported: float | None = None  # share of the proposed policy's visits that the log cannot speak about
    note: str | None = None  # why unknown, in words
    holds_up_to: float | None = None  # strength Γ of unrecorded reasons at which the interval meets 0; logs only
    rests_on: str | None = None  # how many people, what was tested, what cannot be, what would change it; logs only


@dataclass(frozen=True)
class PathShare:
    """A sequence of regions and the share of episodes that meet exactly it."""

    path: tuple[str, ...]
    share: float


@dataclass(frozen=True)
class Meeting:
    """How many episodes meet a region, and when it is typically first met."""

    region: str
    share: float
    first: float  # median number of decisions before it is first met


@dataclass(frozen=True)
class Sentence:
    """For these starts: which regions are met, in which order, and what that does."""

    start: Rule | None  # None: all starts
    share: float  # of the start distribution
    path: tuple[str, ...]  # region ids; empty: they act the same
    path_share: float  # share of this group's episodes on exactly this path
    verdicts: tuple[Verdict, ...]
    support: Support
    also: tuple[Rule, ...] = ()  # further rules whose starts join this sentence
    others: tuple[PathShare, ...] = ()  # the next most frequent paths
    meetings: tuple[Meeting, ...] = ()  # told instead of a path where no path is typical
    starts: tuple[str, ...] = ()  # names of the starts of a table, at most 50
    path_fidelity: float | None = None  # share of these starts whose own modal path is the one told; None without one
    precision: float | None = None  # share of the visits in its regions that have the swap told; None without regions
    left_out: int = 0  # regions that it meets and that are not shown, because too few people stand behind them
    beside_few: bool = False  # whether an earlier group that is not shown has some of these starts

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The starts that it tells of, unless an earlier sentence does; none: all starts."""
        return () if self.start is None else (self.start, *self.also)


@dataclass(frozen=True)
class WorseOff:
    """A group of starts for which an outcome gets worse, the worst first."""

    outcome: str
    start: Rule | None
    share: float
    difference: Interval
    starts: tuple[str, ...] = ()
    people: int | None = None  # of a log: how many stand behind it
    also: tuple[Rule, ...] = ()  # further rules whose starts it has
    other: bool = False  # a group told before it has some of these starts

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The starts that it has; none: all starts."""
        return () if self.start is None else (self.start, *self.also)

    def behind(self, units: float) -> float:
        """How many of so many people it has; by its share, where they were not counted."""
        return self.share * units if self.people is None else float(self.people)


@dataclass(frozen=True)
class Tail:
    """Differences over starts: the worst tenth beside the mean."""

    outcome: str
    mean: float
    worst_tenth: float  # mean difference of the worst 10 % of starts, worst in the outcome's own sense
    share_worse: float  # share of starts whose difference is worse beyond the margin


@dataclass(frozen=True)
class TradeoffPoint:
    """How well a number of rules describes the difference."""

    rules: int
    literals: int
    f1: float
    chosen: bool


@dataclass(frozen=True)
class Length:
    """What a reader has to take in."""

    sentences: int
    rules: int
    literals: int
    predicates: int
    words: int


@dataclass(frozen=True)
class FormScore:
    """One way of telling the difference, and how well a reader who has only that text does."""

    form: str  # "polidiff", "paths and immediate effects", "outcomes only", "complete policy", "none"
    length: Length
    action_accuracy: float  # share of held-out visits whose proposed action the reader predicts
    changed_accuracy: float | None  # the same where the policies differ
    direction_accuracy: float | None  # share of outcome directions predicted
    choice_accuracy: float | None  # share of preferences over outcomes for which the better policy is picked


@dataclass(frozen=True)
class Quality:
    """How true the explanation is, measured on visits that did not make it."""

    precision: float
    recall: float
    f1: float
    swap_accuracy: float | None  # of the changed visits it describes, share with the right pair; None if none
    completeness: Mapping[str, float | None]  # outcome -> share of the difference that the patch recovers
    path_fidelity: float | None  # share of starts whose told path is the simulated modal path
    path_distance: float | None  # mean edit distance between told and simulated path
    length: Length
    abstained: float  # share of verdicts that are unknown
    forms: tuple[FormScore, ...] = ()
    stability: float | None = None  # mean Jaccard of regions over resamples; None unless asked for
    held_out: bool = True  # whether these visits made no rules; else they are all that are known
    intervals: Mapping[str, Interval] = field(default_factory=dict)  # of "precision", "recall", "f1" of played visits
    patched: Mapping[str, float] = field(default_factory=dict)  # outcome -> what the patch adds, where completeness < 0


@dataclass(frozen=True)
class Feature:
    """A feature that rules speak about, with the range seen."""

    name: str
    kind: Literal["number", "category"]
    low: float | None = None
    high: float | None = None
    values: tuple[str, ...] = ()  # categories, at most `MOST_VALUES`
    behind: int | None = None  # of a log: episodes that reach each end of the range, or go beyond


@dataclass(frozen=True)
class WorldSummary:
    """What the reader of a result needs to know about the world."""

    kind: Literal["table", "simulator", "log"]
    actions: tuple[Action, ...]
    features: tuple[Feature, ...]
    facts: Mapping[str, str | float | int]  # states, starts, horizon, restore mode, rows, episodes, …
    people: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # of a log: feature -> category -> people
    takers: Mapping[str, int] = field(default_factory=dict)  # of a log: action -> people who got it
    spread: Mapping[str, float] = field(default_factory=dict)  # of a log: outcome -> standard deviation of episodes

    @property
    def values(self) -> dict[str, tuple[str, ...]]:
        """The words that each feature may be, none for a number; without features of which only some are listed."""
        most = 0 if self.kind == "simulator" else MOST_VALUES
        return {f.name: f.values for f in self.features if f.kind == "number" or 0 < len(f.values) < most}

    @property
    def recorded(self) -> bool:
        """Whether it is a log, so that somebody stands behind every number."""
        return self.kind == "log"

    @property
    def counted_in(self) -> Literal["people", "decisions", "episodes"]:
        """What stands behind the numbers of a log."""
        return "people" if "people" in self.facts else "decisions" if self.one_step else "episodes"

    @property
    def units(self) -> float:
        """How many people a log has; episodes, where it does not know people."""
        return float(self.facts.get("people") or self.facts.get("episodes") or 1.0)

    @property
    def starts(self) -> str:
        """What groups are groups of."""
        return "decisions" if self.one_step else "starts"

    @property
    def played(self) -> bool:
        """Whether it is known by episodes that were played."""
        return not self.enumerated and not self.recorded

    @property
    def enumerated(self) -> bool:
        """Whether all states are known, so that rules are made from and judged on all of them."""
        return self.kind == "table"

    @property
    def one_step(self) -> bool:
        """Whether every logged episode is a single decision."""
        return self.recorded and self.facts.get("rows") == self.facts.get("episodes")

    @property
    def discounted(self) -> str:
        """What stands before "decisions per episode" where later decisions count less, as sums do: "discounted "."""
        return "discounted " * (self.facts.get("discount", 1.0) != 1.0)


@dataclass(frozen=True)
class Cell:
    """A box of the picture: which share of all visits falls in it."""

    x: float
    y: float
    visits: float
    region: str | None  # the region of most of its visits


@dataclass(frozen=True)
class Picture:
    """Visits over two features, aggregated: what a chart of the regions is drawn from."""

    x: str
    y: str
    x_step: float
    y_step: float
    cells: tuple[Cell, ...]
    trajectories: tuple[tuple[tuple[float, float], ...], ...] = ()  # a few of the current policy, never from a log
    proposed_trajectories: tuple[tuple[tuple[float, float], ...], ...] = ()
    x_values: tuple[float, ...] = ()  # of x, where each cell holds visits of one value only
    y_values: tuple[float, ...] = ()

    def place(self, cell: Cell) -> Rule:
        """Where the visits of a cell lie: between its sides, or at the one value that it holds."""
        across = _side(self.x, 0, cell.x, self.x_step, self.x_values)
        return Rule((across, _side(self.y, 1, cell.y, self.y_step, self.y_values)))

    def holding(self, cells: tuple[Cell, ...]) -> Picture:
        """The picture with these cells alone: no episodes, and no value that none of them holds."""
        met = [{v for cell in cells for v in self.place(cell).conditions[k].values or ()} for k in (0, 1)]
        values = [tuple(v for v in known if v in met[k]) for k, known in enumerate((self.x_values, self.y_values))]
        return Picture(self.x, self.y, self.x_step, self.y_step, cells, (), (), *values)


def _side(name: str, column: int, centre: float, step: float, values: tuple[float, ...]) -> Condition:
    low, high = (float(f"{centre + side * step:.15g}") for side in (-0.5, 0.5))
    held = next((value for value in values if low <= value + 1e-9 * step < high), None)
    return Condition(name, column, low, high) if held is None else Condition(name, column, values=(held,))


@dataclass(frozen=True)
class EpisodePair:
    """What both policies do, decision by decision, from one start; never from a log."""

    current: tuple[str, ...]  # actions, at most the first 60
    proposed: tuple[str, ...]


@dataclass(frozen=True)
class SampledState:
    """A visited state, kept so that a result can be asked about boxes drawn later; never one of a log."""

    values: tuple[float | str, ...]  # of the features, in their order
    share: float  # of the visits that it stands for
    current: str
    proposed: str


@dataclass(frozen=True)
class Arrow:
    """A move of the state graph of a small table."""

    source: str
    target: str
    policy: Literal["current", "proposed", "both"]
    probability: float


@dataclass(frozen=True)
class Methods:
    """How the result was made."""

    style: str
    level: float
    policy_tolerance: float
    transition_tolerance: float
    seed: int
    family: int  # number of verdicts over which the level holds
    evaluation: str  # "exact", "10000 paired episodes", …
    versions: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)  # file -> hash
    study: Mapping[str, Json] = field(default_factory=dict)  # the study file, if there was one
    min_group: int = 10  # groups of a log with fewer people (or episodes) are left out of every output
    classifier: str = ""  # what learned the regions; empty where states are told by name


@schema("explanation", 1)
@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Result):
    """Where two policies act differently, in which order that is met, and what it does."""

    regions: tuple[Region, ...]
    sentences: tuple[Sentence, ...]
    changes: float  # expected changed decisions per episode of the proposed policy
    outcomes: tuple[Outcome, ...]
    verdicts: tuple[Verdict, ...]  # over all starts
    worse_off: tuple[WorseOff, ...]
    tails: tuple[Tail, ...]
    patch: Patch
    quality: Quality
    tradeoff: tuple[TradeoffPoint, ...]
    world: WorldSummary
    methods: Methods
    warnings: tuple[str, ...] = ()
    assumptions: tuple[Assumption, ...] = ()  # what verdicts from a log rest on
    forms: Mapping[str, str] = field(default_factory=dict)  # the earlier forms and the complete one, as text
    lead: Literal["difference", "complete"] = "difference"  # "complete" where the policies differ nearly everywhere
    pictures: tuple[Picture, ...] = ()
    episodes: tuple[EpisodePair, ...] = ()  # a few from shared starts
    graph: tuple[Arrow, ...] = ()
    sample: tuple[SampledState, ...] = ()  # at most 400
    withheld: int = 0  # regions that are not shown, because too few people stand behind them
    changes_interval: Interval | None = None  # of `changes`, where they were counted in played episodes
    context: Any = field(default=None, repr=False, metadata={"json": False})  # world and policies, for .case()

    def __str__(self) -> str:
        return renderer("text")(self)

    def case(self, state: object) -> Case:
        """What changes for one case: same or other action, by which rule, what to expect."""
        return renderer("case")(self, state)

    def chart(self, which: str = "regions") -> Any:
        """A chart object for a notebook: "regions", "outcomes" or "paths"."""
        return renderer("chart")(self, which)


@schema("case", 1)
@dataclass(frozen=True)
class Case:
    """What the proposed policy means for one state."""

    state: str
    current: str
    proposed: str
    region: str | None  # id of the region that covers it
    expected: tuple[Verdict, ...]  # from this state on; of the region's start group where the state is no start
    text: str

    def __str__(self) -> str:
        return self.text


@schema("answer", 1)
@dataclass(frozen=True)
class Answer:
    """What a result says to a question about an action or a place."""

    question: Literal["why-not", "when", "what-if"]
    about: str  # the action, or the conditions
    text: str
    regions: tuple[Region, ...]  # that the answer speaks of
