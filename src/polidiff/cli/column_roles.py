"""Which column of a table plays which part: read from its name, and from what its values look like.

Names are hints, values decide. An identifier is told by a value of its own in nearly every row, an episode by values
that repeat and in which other actions are taken, a person by values that repeat with one action, a step by values that
rise within an episode, an action by a few values that differ, a copy of the action or of the outcome by values that
follow from it. What a decision may depend on must be known before it: columns are left out, with the reason, if their
name says that they came after, or if they stand to the right of the action and differ between actions that otherwise
look drawn by lot.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from polidiff.cli.main import near_miss
from polidiff.cli.table_columns import (
    AFTERWARDS,
    BEFORE,
    BY_CHANCE,
    DOSE,
    EVENT,
    GOOD,
    IDENTIFIER,
    MOST_ACTIONS,
    MOSTLY,
    NUMBERED,
    PLACE,
    SURVIVAL,
    TESTED,
    UNTREATED,
    WORDS,
    Column,
    by_chance,
    copies,
    counts_on,
    counts_through,
    determines,
    goes_with,
    latest_year,
    look_at,
    names_rows,
    often_held,
    says_again,
    taken_up,
    tells_empty,
    told_by_action,
)
from polidiff.errors import InvalidInputError
from polidiff.evaluation.scores.decisions import ROWS_OF_LEVEL
from polidiff.records.action import as_actions
from polidiff.records.numbers import percent
from polidiff.worlds.log_columns import HARMFUL, nearest_levels, plain_name
from polidiff.worlds.messy_tables import HOLDS
from polidiff.worlds.text_tables import yes_or_no

MOST_WORDS = 50  # different values up to which a column of text is a category in any case
MOST_CODES = 12  # levels up to which whole numbers that begin elsewhere than at 0 or 1 stand for actions
MOST_ENDS = 6  # different words up to which a column may say how things ended
NAMES_ROW, IDENTIFIES = "names the row", "is an identifier"
GOES_WITH = "stands behind action and outcome and goes with the outcome"
DIFFERS = "stands behind the action and differs between actions, as nothing before them does"
HARDLY_FILLED = 0.5  # share of rows without a value from which on a column is no state


@dataclass(frozen=True)
class Proposal:
    """The part of every column, and why some have none."""

    columns: tuple[Column, ...]
    roles: Mapping[str, str]
    state: tuple[str, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)  # column -> why
    rows: int = 0
    doubtful: Mapping[str, str] = field(default_factory=dict)  # of the state: what may have come after, and why
    levels: tuple[str, ...] = ()  # of an action in real numbers, as they are called, the largest first
    direction: str | None = None  # as a person said: "more", "less", "neither"
    limits: tuple[float, float] | None = None  # as a person said: smallest and largest outcome that is possible
    met: tuple[float, float] | None = None  # smallest and largest outcome of an episode, where it is a number
    told: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # column -> value that many have -> its share

    @property
    def unnamed_outcome(self) -> bool:
        """Whether no name told the outcome, so that it is a guess."""
        return bool(self.roles.get("reward")) and not _names_outcome(self.column(self.roles["reward"]))

    @property
    def identifiers(self) -> list[str]:
        """Columns that tell rows, people or episodes apart."""
        named = [name for name, why in self.left_out.items() if why.startswith((NAMES_ROW, IDENTIFIES))]
        return [*named, *(self.roles[role] for role in ("group", "episode") if role in self.roles)]

    @property
    def event(self) -> str | None:
        """The value that counts, of an outcome in words other than yes and no."""
        column = self.column(self.roles["reward"])
        if column.kind != "text" or yes_or_no(pl.Series(column.values)):
            return None
        events = [*_events(column), *(value.strip() for value in reversed(column.values))]
        told = {value.strip() for value in self.told.get(column.name, {})}
        return next((event for event in events if event in told), events[0])

    @property
    def outcome(self) -> str:
        """What the outcome is called."""
        return " ".join(filter(None, (self.roles["reward"], self.event)))

    @property
    def outcome_column(self) -> str:
        """What a study says of where the outcome is found."""
        return HOLDS.join(filter(None, (self.roles["reward"], self.event)))

    def column(self, name: str) -> Column:
        """The column of a name."""
        return next(column for column in self.columns if column.name == name)

    @property
    def yes_or_no(self) -> bool:
        """Whether each row is an episode of which the outcome holds or does not."""
        two = self.column(self.roles["reward"]).distinct == 2 or self.event is not None
        return "episode" not in self.roles and two and (self.met is None or self.met == (0.0, 1.0))

    @property
    def prefer(self) -> str | None:
        """Whether more or less of the outcome is better; None where the name does not tell."""
        if self.direction is not None:
            return self.direction if self.direction != "neither" else None
        name = plain_name(self.event or self.roles["reward"]) if self.roles.get("reward") else ""
        return "less" if re.search(HARMFUL, name) else "more" if re.search(GOOD, name) else None


def _names_outcome(column: Column) -> bool:
    """Whether the name of a column is that of an outcome."""
    return any(re.search(words, column.plain) for words in (*WORDS["reward"], HARMFUL))


def _events(column: Column) -> list[str]:
    """Values of a column of words that name a gain or a harm, the rarer first; where none does, either of two."""
    rare_first = [value.strip() for value in reversed(column.values)]
    telling = [value for value in rare_first if re.search(f"{GOOD}|{HARMFUL}", plain_name(value))]
    return telling or (rare_first if len(rare_first) == 2 else [])


def propose(frame: pl.DataFrame, given: Mapping[str, str] | None = None, state: Sequence[str] = ()) -> Proposal:
    """A part for every column; what is `given` (role -> column, "" for none) stands."""
    given = dict(given or {})
    columns = look_at(frame)
    names = [column.name for column in columns]
    for name in (*(name for name in given.values() if name), *state):
        if name not in names:
            raise InvalidInputError(f"there is no column {name!r}{near_miss(name, names)}")
    roles, levels = {role: name for role, name in given.items() if name}, tuple[str, ...]()
    for role in ("action", "probability", "terminated", "step", "episode", "group", "reward"):
        if role not in given:
            offered = columns if role != "reward" else _could_be_outcome(columns, frame, roles, given)
            column = _candidate(role, offered, frame, roles, state)
            if column is not None:
                roles[role] = column
        if role == "action" and "action" in roles:
            frame, levels = _with_levels(frame, roles["action"])
    if "action" not in roles:
        raise InvalidInputError(_which_action(columns, frame))
    roles = _with_units(roles, given, frame)
    left_out = _left_out(columns, frame, roles)
    chosen = tuple(state) or tuple(c.name for c in columns if c.name not in {*roles.values(), *left_out})
    if not chosen and "episode" in roles:  # of a single column, what is paid may follow from where one is
        free = (name for name in names if name not in roles.values())
        chosen = tuple(name for name in free if not told_by_action(frame, name, roles["action"]))[:1]
    unused = {name: why for name, why in left_out.items() if name not in chosen and name not in roles.values()}
    doubtful = {} if state else _doubtful(chosen, columns, frame, roles)
    person, met = roles.get("group") or roles.get("episode"), _outcomes_met(frame, roles)
    told = {column.name: often_held(frame, column, person) for column in columns if column.values}
    return Proposal(columns, roles, chosen, unused, frame.height, doubtful, levels, met=met, told=told)


def _with_levels(frame: pl.DataFrame, action: str) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """The table with an action in real numbers at the nearest of its levels, and what a log calls these."""
    if not frame[action].dtype.is_float() or (frame[action] % 1 == 0).all():
        return frame, ()
    nearest, levels = nearest_levels(frame.lazy(), action, None)
    named = as_actions([{action: level} for level in levels[::-1, 0].tolist()], len(levels))
    return frame.with_columns(nearest), tuple(level.name for level in named)


def _could_be_outcome(
    columns: Sequence[Column], frame: pl.DataFrame, roles: dict[str, str], given: Mapping[str, str]
) -> Sequence[Column]:
    """Columns without those that the action alone tells, unless it also tells what comes next in an episode."""
    if "action" not in roles or "episode" in _with_units(roles, given, frame):
        return columns
    return [column for column in columns if not told_by_action(frame, column.name, roles["action"])]


def _outcomes_met(frame: pl.DataFrame, roles: Mapping[str, str]) -> tuple[float, float] | None:
    """The smallest and the largest outcome of an episode, or of a row where each is one."""
    name = roles.get("reward")
    if name is None or not frame[name].dtype.is_numeric() or frame[name].null_count() == frame.height:
        return None
    paid = frame[name].drop_nulls()
    if "episode" in roles:
        paid = frame.group_by(roles["episode"]).agg(pl.col(name).cast(pl.Float64).sum())[name]
    return float(paid.min()), float(paid.max())  # type: ignore[arg-type]


def _which_action(columns: Sequence[Column], frame: pl.DataFrame) -> str:
    """The question that names alone do not answer, with the columns whose values could."""
    could = [c for c in columns if _fits("action", c, frame) and not re.search(BEFORE, c.plain)]
    could = sorted(could, key=lambda c: c.distinct)[:8]  # what was done has few values
    often = [(c, list(often_held(frame, c, None))[:3]) for c in could]
    listed = ", ".join(f"{c.name} ({', '.join([*some, *['…'] * (c.distinct > len(some))])})" for c, some in often)
    said = f"by its values it could be {listed}" if could else "no column has a few values that repeat"
    alone = [c.name for c in columns if c.distinct < 2 and any(re.search(words, c.plain) for words in WORDS["action"])]
    named = f"{alone[0]!r} has one value, so there is nothing to compare" if alone else "None has a name that tells"
    return f"which column is the action? {named}; {said}. Hint: --action COLUMN"


def _with_units(roles: dict[str, str], given: Mapping[str, str], frame: pl.DataFrame) -> dict[str, str]:
    """Rows of one person are an episode only if order and end are known and the next row may have another action."""
    ordered = "step" in roles and ("terminated" in roles or "step" in given)
    if "episode" not in roles and "group" in roles and ordered and "group" not in given:
        person = roles["group"]
        if _is_episode(person, frame, roles, counted=False):
            return {**{role: name for role, name in roles.items() if role != "group"}, "episode": person}
    if "episode" not in roles:
        return {role: name for role, name in roles.items() if role not in ("step", "terminated")}
    return roles


def _is_episode(name: str, frame: pl.DataFrame, roles: Mapping[str, str], *, counted: bool) -> bool:
    """Whether the rows of each value have steps of their own and some take several actions.

    Of `counted` ones steps count 0, 1, 2 … (or from 1) anew for each value; then lengths may differ instead.
    """
    step = roles.get("step")
    if step is None or (counted and (not frame[step].dtype.is_integer() or frame[step].null_count() > 0)):
        return False
    at, action = pl.col(step), pl.col(roles["action"]) if "action" in roles else pl.lit(0)
    runs = frame.group_by(name).agg(
        rows=pl.len(), steps=at.n_unique(), first=at.min(), last=at.max(), actions=action.drop_nulls().n_unique()
    )
    rows, first, several = runs["rows"], runs["first"], bool((runs["actions"] > 1).any())
    if (rows != runs["steps"]).any():
        return False
    if not counted:
        return several
    through = first.n_unique() == 1 and first[0] in (0, 1) and bool((rows == runs["last"] - first + 1).all())
    return through and (several or rows.n_unique() > 1)


def _candidate(
    role: str, columns: Iterable[Column], frame: pl.DataFrame, roles: Mapping[str, str], state: Sequence[str]
) -> str | None:
    """The column that fits a role best, by its name and by its values."""
    taken = {*roles.values(), *state}
    free = [column for column in columns if column.name not in taken and _fits(role, column, frame)]
    for words in WORDS[role]:
        named = [column for column in free if re.search(words, column.plain)]
        if role == "action":  # the finest of several that say the same: arms rather than treated
            named = [c for c in named if not any(determines(frame, other.name, c.name) for other in named)]
        if role == "reward":
            named += [column for column in free if re.search(HARMFUL, column.plain) and words == WORDS[role][0]]
            cut = [c.name for c in named if c.plain.startswith("cens")]  # an event says more, if there is one
            named.sort(key=lambda c: (re.search(EVENT, c.plain) is None, c.name in cut, c.distinct != 2, -c.number))
        if named:
            return named[0].name
    if role == "action":
        texts = [c for c in free if c.kind == "text" and c.distinct <= MOST_CODES]
        return next((c.name for c in texts if any(re.search(UNTREATED, value.lower()) for value in c.values)), None)
    if role == "episode":
        return next((column.name for column in free if _is_episode(column.name, frame, roles, counted=True)), None)
    if role != "reward":
        return None
    # what differs between actions that look drawn by lot; else what was measured last, where people put it
    could = [c for c in free if not re.search(f"{BEFORE}|{IDENTIFIER}", c.plain)]
    others = [c for c in columns if c.name not in taken and not names_rows(c, frame)]
    odd = _differing(others, frame, roles["action"], fewest=2) if "action" in roles else []
    return next((c.name for c in could if c.name in odd), could[-1].name if could else None)


def _fits(role: str, column: Column, frame: pl.DataFrame) -> bool:
    """Whether the values could play the part."""
    repeats = column.distinct < MOSTLY * frame.height
    if role == "action":
        if column.kind == "number" and not (column.values and all(value.endswith(".0") for value in column.values)):
            return column.distinct > 1 and bool(re.search(DOSE, column.plain))
        graded = column.kind == "whole" and column.low not in (0, 1) and column.distinct > MOST_CODES  # as marks are
        coded = not graded or bool(re.search(DOSE, column.plain))
        return 2 <= column.distinct <= MOST_ACTIONS and column.kind != "time" and repeats and coded
    if role in ("episode", "group"):
        return column.distinct > (1 if role == "episode" else 2) and repeats and column.kind != "number"
    if role == "step":
        return column.kind in ("whole", "number", "time", "text") and column.distinct > 1
    if role == "terminated":
        return column.distinct <= (1 if column.missing else 2)  # with gaps only ends are marked
    if role == "probability":
        return column.low is not None and column.high is not None and column.low > 0 and column.high <= 1
    return (
        column.distinct > 1
        and not names_rows(column, frame)
        and (column.kind in ("number", "whole", "flag") or bool(column.kind == "text" and _events(column)))
        and (column.kind != "text" or column.distinct == 2 or (column.distinct <= MOST_ENDS and _names_outcome(column)))
    )


def _left_out(columns: Sequence[Column], frame: pl.DataFrame, roles: Mapping[str, str]) -> dict[str, str]:
    """Columns that a decision should not be told to depend on, and why."""
    reasons = {column.name: why for column in columns if (why := _why_no_state(column, frame, roles, columns))}
    if "episode" in roles:  # what an action does shows in the next rows of the episode
        late = _known_at_the_end([c.name for c in columns if c.name not in reasons], frame, roles)
        return reasons | dict.fromkeys(late, "is known only at the end of an episode")
    why = "differs between actions that otherwise look drawn by lot: it may have come after the decision"
    rest = [column for column in columns if column.name not in reasons]
    people = frame.unique(roles["group"], keep="first", maintain_order=True) if "group" in roles else frame
    odd = _differing(rest, people, roles["action"])
    later = frame.columns[frame.columns.index(roles["action"]) :]  # what stands before the action is a reason for it
    return reasons | {name: why for name in odd if name in later and not re.search(BEFORE, plain_name(name))}


def _known_at_the_end(names: Sequence[str], frame: pl.DataFrame, roles: Mapping[str, str]) -> list[str]:
    """Columns that change within episodes, but only from the last row but one to the last, beyond chance."""
    if not names:
        return []
    episode, step = roles["episode"], roles.get("step")
    rows = frame.sort(episode, step, maintain_order=True) if step else frame.sort(episode, maintain_order=True)
    later = (rows[episode] == rows[episode].shift(1)).fill_null(value=False)
    last = later & (rows[episode] != rows[episode].shift(-1)).fill_null(value=True)
    share = float(last.sum()) / max(int(later.sum()), 1)
    changed = {name: rows[name].ne_missing(rows[name].shift(1)) & later for name in names}
    counts = {name: int(where.sum()) for name, where in changed.items() if not (where & ~last).any()}
    return [name for name, count in counts.items() if count and share**count < BY_CHANCE]


def _differing(columns: Iterable[Column], frame: pl.DataFrame, action: str, fewest: int = 4) -> list[str]:
    """Of so many columns at least, those that differ between actions, where two in three do not, or all but one."""
    chances = {column.name: by_chance(frame, column, action) for column in columns if column.kind != "time"}
    odd = [name for name, chance in chances.items() if chance < BY_CHANCE / len(chances)]
    return odd if len(chances) >= fewest and len(odd) <= max(1, len(chances) / 3) else []


def _why_no_state(
    column: Column, frame: pl.DataFrame, roles: Mapping[str, str], columns: Sequence[Column]
) -> str | None:
    """Why a decision should not be told to depend on a column; None if it may."""
    if column.name in roles.values():
        return "has another part"
    if column.distinct < 2:
        return "has one value" if column.distinct else "is empty"
    if names_rows(column, frame):
        return NAMES_ROW
    named = re.search(IDENTIFIER, column.plain) or counts_through(column, frame)
    if named and column.distinct > MOST_WORDS:
        return IDENTIFIES + _who(column, frame, roles)
    if re.search(PLACE, column.plain) and column.kind == "whole" and column.distinct > MOST_WORDS:
        return "numbers places, which are no measurement"
    if column.missing > HARDLY_FILLED:
        return f"is empty in {percent(column.missing)} of the rows"
    if copies(frame, column.name, roles["action"]):
        return "follows from the action"
    outcome = roles.get("reward", "")
    if re.search(AFTERWARDS, column.plain) or _later(column, outcome, columns) or _is_event(column, frame, roles):
        return "looks as if it came after the decision"
    if taken_up(frame, column.name, roles["action"], outcome):
        return "stands behind the outcome and tells the action in part, as what comes after it does"
    if column.kind == "time":
        return "is a time"
    if column.kind == "text" and column.distinct > MOST_WORDS and _mostly_rare(frame[column.name]):
        rare = f"has {column.distinct} different words, most of them in fewer than {ROWS_OF_LEVEL} rows"
        return rare + _who(column, frame, roles)
    if outcome and says_again(frame, column, outcome):
        return "follows from the outcome"
    if column.distinct == 2 and (other := tells_empty(frame, column, columns)):
        return f"says where {other} is empty"
    return None


def _who(column: Column, frame: pl.DataFrame, roles: Mapping[str, str]) -> str:
    """What to write if a column tells people, or whatever else has several rows, apart."""
    if column.distinct >= MOSTLY * (1 - column.missing) * frame.height or {"group", "episode"} & {*roles}:
        return ""
    return f'; if rows of one belong together, as those of a person do, write group = "{column.name}"'


def _doubtful(
    chosen: Sequence[str], columns: Sequence[Column], frame: pl.DataFrame, roles: Mapping[str, str]
) -> dict[str, str]:
    """Of the state, columns behind the action that may have come after it, and why.

    They stand behind the outcome too and go with it, where most of the state stands before them; or they differ between
    actions, where nothing that stands before the action does.
    """
    names, outcome, action = frame.columns, roles.get("reward"), roles["action"]
    if outcome is None or "episode" in roles:
        return {}
    state, at = [c for c in columns if c.name in chosen], names.index(action)
    before = [c for c in state if c.name in names[:at]]
    behind = [c for c in state if c.name in names[at:] and not re.search(BEFORE, c.plain)]
    late = [c for c in behind if c.name in names[max(names.index(outcome), at) :]]
    late = late if len(late) <= len(chosen) / 2 else []
    why = {c.name: GOES_WITH for c in late if goes_with(frame, c.name, outcome) < BY_CHANCE / len(late)}
    odd = [c for c in state if by_chance(frame, c, action) < BY_CHANCE / len(state)]
    drawn = before and not any(c in odd for c in before)
    return ({c.name: DIFFERS for c in behind if c in odd} if drawn else {}) | why


def _is_event(column: Column, frame: pl.DataFrame, roles: Mapping[str, str]) -> bool:
    """Whether a column of a few values behind the action is named as an outcome, though another one was chosen."""
    behind = column.name in frame.columns[frame.columns.index(roles["action"]) :]
    named = len(column.plain) > 1 and re.search(f"{WORDS['reward'][0]}|{EVENT}", column.plain)
    return bool(behind and named and column.distinct <= MOST_ENDS)


def _mostly_rare(words: pl.Series) -> bool:
    """Whether most rows hold a word that only few hold, so that no two of them could be compared by it."""
    counts = words.drop_nulls().value_counts()["count"]
    return bool(counts.filter(counts >= ROWS_OF_LEVEL).sum() < counts.sum() / 2)


def _later(column: Column, outcome: str, columns: Sequence[Column]) -> bool:
    """Whether names say that a column was measured with the outcome or after a first measurement.

    re78 is the outcome: unem78 is as late, re75 is not, nor is wt71 where wt82_71 is the outcome. bdi.2m comes after
    bdi.pre, cd420 after cd40. Days and status go together, and so do marks of pupils.
    """
    both = all(re.search(TESTED, name) for name in (column.plain, plain_name(outcome)))
    if both and not re.search(BEFORE, column.plain):
        return True
    if counts_on(column.plain, {other.plain for other in columns}):
        return True
    if re.search(SURVIVAL, column.plain) and any(re.search(EVENT, other.plain) for other in columns):
        return True
    own, its = re.match(NUMBERED, column.plain), re.match(NUMBERED, plain_name(outcome))
    if own is None or not own[2].isdigit():
        return False
    if its is not None and its[2].isdigit() and own[1] and own[1] == its[1] and int(own[2]) > int(its[2]):
        return True
    siblings = [match for other in columns if (match := re.match(NUMBERED, other.plain)) and match[1] == own[1]]
    if own[1] and any(not sibling[2].isdigit() for sibling in siblings):
        return True
    ends = its is not None and its[2].isdigit() and len(its[2]) == 2 == len(own[2])
    return ends and latest_year(column.plain) >= latest_year(plain_name(outcome))
