"""Which column of a table plays which part: read from its name, and from what its values look like.

Names are hints, values decide. An identifier is told by a value of its own in nearly every row, an episode by values
that repeat, a step by values that rise within an episode, an action by a few values that differ, a copy of the action
by values that follow from it. What a decision may depend on must be known before it: columns whose names say that they
came after are left out, with the reason, and so is what could not be read as a measurement.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from polidiff.cli.main import near_miss
from polidiff.errors import InvalidInputError, InvalidLogError

LOOKED_AT = 200_000  # rows that guesses rest on
MOST_ACTIONS = 60
MOST_WORDS = 50  # different values up to which a column of text is a category
MOSTLY = 0.98  # distinct values per row from which on a column names its rows
FEWEST_ROWS = 10  # of an action before its values are taken for more than chance
HARDLY_FILLED = 0.5  # share of rows without a value from which on a column is no state
ROLES = ("episode", "step", "action", "reward", "terminated", "probability", "group")
WORDS = {
    "action": r"^(action|act|decision|treat|treated|treatment|rx|arm|dose|offer|choice|assignment|assigned|intervention"
    r"|exposure|exposed|campaign|segment|variant|drug|item_id|any)s?(_|$)",
    "episode": r"(episode|stay|session|trajectory|traj|encounter|admission|visit_group|icustay)(_?(id|no|nr|number))?$",
    "group": r"^(patient|subject|user|customer|person|client|member|pat|participant)(_?(id|no|nr|number))?$",
    "step": r"^(step|t|time|timestep|hour|day|week|visit|charttime|timestamp|seq|order|date|datetime|bloc)(_|$)",
    "reward": r"^(reward|r|return|survived|survival|conversion|converted|convert|profit|revenue|sales|spend|earnings"
    r"|income|click|clicks|clicked|success|recovered|response|got|score|y|outcome|result|re78)(_|$)",
    "terminated": r"(^terminated$|^terminal$|^done$|died_or_left|^end$|^ended$|^is_last$|^last$|discharged)",
    "probability": r"(^prob|probability$|propensity|^pscore)",
}
GOOD = (
    r"^(reward|r|return|survived|survival|conversion|converted|convert|profit|revenue|sales|earnings|income|clicks?"
    r"|clicked|success|recovered|re78)(_|$)"
)
HARMFUL = (
    r"(^|_)(cost|costs|died|death|dead|mortality|harm|bleed|bleeding|readmission|readmitted|relapse|infection|churn"
    r"|complication|failure|loss|default|adverse|pancreatitis)(_|$)"
)
AFTERWARDS = (
    r"(^|_)(after|post|followup|follow_up|later|outcome|result|discharge|paid|uplift|margin|clicks?|next)(_|$)|"
    + HARMFUL
)
IDENTIFIER = r"^(id|rownames?|index|row|unnamed.*|uuid|key|name)$|(_|^)(id|uuid|key|no|nr)$"


@dataclass(frozen=True)
class Column:
    """One column and what its values look like."""

    name: str
    kind: str  # "number", "whole", "text", "flag" or "time"
    distinct: int
    missing: float  # share of rows
    values: tuple[str, ...]  # of a column with few of them, most frequent first
    shares: tuple[float, ...]  # of those values
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Proposal:
    """The part of every column, and why some have none."""

    columns: tuple[Column, ...]
    roles: Mapping[str, str]
    state: tuple[str, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)  # column -> why
    rows: int = 0

    def column(self, name: str) -> Column:
        """The column of a name."""
        return next(column for column in self.columns if column.name == name)

    @property
    def prefer(self) -> str | None:
        """Whether more or less of the outcome is better; None where the name does not tell."""
        name = self.roles.get("reward", "").lower()
        return "less" if re.search(HARMFUL, name) else "more" if re.search(GOOD, name) else None


def read_table(data: Path) -> pl.DataFrame:
    """The first rows of a table, CSV or Parquet."""
    from polidiff.worlds.log_source import lazy_frame

    if not data.exists() and not any(sign in str(data) for sign in "*?["):
        raise InvalidLogError(f"there is no file {str(data)!r}. Hint: a CSV or Parquet file, a folder or a glob")
    frame = lazy_frame(str(data)).head(LOOKED_AT).collect()
    if frame.width < 2:
        raise InvalidLogError(f"{data} must have a column for the state and one for the action; it has {frame.columns}")
    if not frame.height:
        raise InvalidLogError(f"{data} has no rows. Hint: one row per decision, with a header")
    return frame


def look_at(frame: pl.DataFrame) -> tuple[Column, ...]:
    """Every column with its kind, how many values it has and which."""
    return tuple(_column(frame[name]) for name in frame.columns)


def _column(series: pl.Series) -> Column:
    present = series.drop_nulls()
    distinct = present.n_unique()
    kind = _kind(series.dtype)
    counts = present.value_counts(sort=True).head(MOST_ACTIONS) if distinct <= MOST_ACTIONS else None
    values = () if counts is None else tuple(str(value) for value in counts[series.name].to_list())
    shares = () if counts is None else tuple((counts["count"] / max(len(present), 1)).to_list())
    ends: tuple[float | None, float | None] = (None, None)
    if kind in ("number", "whole") and len(present):
        ends = float(present.min()), float(present.max())  # type: ignore[arg-type]
    missing = 1 - len(present) / max(len(series), 1)
    return Column(series.name, kind, distinct, missing, values, shares, *ends)


def _kind(dtype: pl.DataType) -> str:
    if dtype.is_temporal():
        return "time"
    if dtype.is_numeric():
        return "whole" if dtype.is_integer() else "number"
    return "flag" if dtype == pl.Boolean else "text"


def propose(frame: pl.DataFrame, given: Mapping[str, str] | None = None, state: Sequence[str] = ()) -> Proposal:
    """A part for every column; what is `given` (role -> column, "" for none) stands."""
    given = dict(given or {})
    columns = look_at(frame)
    names = [column.name for column in columns]
    for name in (*(name for name in given.values() if name), *state):
        if name not in names:
            raise InvalidInputError(f"there is no column {name!r}{near_miss(name, names)}")
    roles = {role: name for role, name in given.items() if name}
    asked = set(given)
    for role in ("action", "probability", "terminated", "step", "episode", "group", "reward"):
        if role in asked:
            continue
        column = _candidate(role, columns, frame, roles, state)
        if column is not None:
            roles[role] = column
    if "action" not in roles:
        raise InvalidInputError(
            f"which column is the action? None of {', '.join(names)} looks like it. Hint: --action COLUMN"
        )
    roles = _without_order_alone(roles, given)
    left_out = {column.name: why for column in columns if (why := _why_no_state(column, frame, roles))}
    chosen = tuple(state) or tuple(c.name for c in columns if c.name not in {*roles.values(), *left_out})
    if not chosen:
        chosen = tuple(name for name in names if name not in roles.values())[:1]
    if not chosen:
        raise InvalidInputError("no column is left for the state. Hint: --state COLUMN")
    unused = {name: why for name, why in left_out.items() if name not in chosen and name not in roles.values()}
    return Proposal(columns, roles, chosen, unused, frame.height)


def _without_order_alone(roles: dict[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """A person seen once is no episode, and a step orders nothing without one."""
    if "episode" not in roles and "group" in roles and "step" in roles and "group" not in given:
        return {**{role: name for role, name in roles.items() if role != "group"}, "episode": roles["group"]}
    if "episode" not in roles:
        return {role: name for role, name in roles.items() if role not in ("step", "terminated")}
    return roles


def _candidate(
    role: str, columns: Iterable[Column], frame: pl.DataFrame, roles: Mapping[str, str], state: Sequence[str]
) -> str | None:
    """The first column that fits a role, by its name and by its values."""
    free = [column for column in columns if column.name not in roles.values() and column.name not in state]
    named = [column for column in free if re.search(WORDS[role], column.name.lower())]
    fitting = [column for column in named if _fits(role, column, frame, roles)]
    if fitting:
        return fitting[0].name
    if role == "reward":  # people put what they measured last
        last = [column for column in free if re.search(HARMFUL, column.name.lower())] + free[-1:]
        return next((column.name for column in last if _fits(role, column, frame, roles)), None)
    return None


def _fits(role: str, column: Column, frame: pl.DataFrame, roles: Mapping[str, str]) -> bool:
    """Whether the values could play the part."""
    repeats = column.distinct < MOSTLY * frame.height
    if role == "action":
        return 2 <= column.distinct <= MOST_ACTIONS and column.kind != "time" and repeats
    if role in ("episode", "group"):
        return column.distinct > 1 and repeats and column.kind != "number"
    if role == "step":
        return column.kind in ("whole", "number", "time", "text") and column.distinct > 1
    if role == "terminated":
        return column.distinct <= 2
    if role == "probability":
        return column.low is not None and column.high is not None and column.low > 0 and column.high <= 1
    return column.kind in ("number", "whole", "flag") or _two_words(column)


def _two_words(column: Column) -> bool:
    """A yes and a no, whatever they are called."""
    return column.kind == "text" and column.distinct == 2


def _why_no_state(column: Column, frame: pl.DataFrame, roles: Mapping[str, str]) -> str | None:
    """Why a decision should not be told to depend on a column; None if it may."""
    if column.name in roles.values():
        return "has another part"
    if column.kind != "number" and column.distinct >= MOSTLY * frame.height and frame.height > 20:
        return "names the row"
    if re.search(IDENTIFIER, column.name.lower()) and column.distinct > MOST_WORDS:
        return "is an identifier"
    if column.distinct < 2:
        return "has one value"
    if column.missing > HARDLY_FILLED:
        return f"is empty in {column.missing:.0%} of the rows"
    if re.search(AFTERWARDS, column.name.lower()):
        return "looks as if it came after the decision"
    if column.kind == "time":
        return "is a time"
    if column.kind == "text" and column.distinct > MOST_WORDS:
        return f"has {column.distinct} different words"
    return "follows from the action" if _copies(frame, column.name, roles["action"]) else None


def _copies(frame: pl.DataFrame, name: str, action: str) -> bool:
    """Whether the column says the action again: one value for each, or one action alone with a value of its own."""
    pairs = frame.select(name, action).drop_nulls().unique()
    if 1 < len(pairs) == pairs[name].n_unique() == pairs[action].n_unique():
        return True
    rows = frame.select(name, action).drop_nulls().group_by(action).agg(pl.col(name).first(), pl.len().alias("rows"))
    single = pairs.group_by(action).agg(pl.len().alias("values")).filter(pl.col("values") == 1)
    alone = rows.join(single, on=action).filter(pl.col("rows") >= FEWEST_ROWS)[name].to_list()
    own = any(pairs.filter(pl.col(name) == value)[action].n_unique() == 1 for value in alone)
    return own and pairs[name].n_unique() > 2


def with_roles(frame: pl.DataFrame, proposal: Proposal, answers: Mapping[str, str]) -> Proposal:
    """The proposal after a person has said which column plays which part."""
    renewed = propose(frame, {**dict.fromkeys(ROLES, ""), **answers})
    return replace(renewed, rows=proposal.rows)
