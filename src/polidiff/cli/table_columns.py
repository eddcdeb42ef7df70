"""What the name and the values of a column say, before it is asked what part the column plays.

And what two columns tell of each other: whether one follows from the other, says it again, or differs by it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from polidiff.worlds.log_columns import HARMFUL, plain_name

MOST_ACTIONS = 200
FEWEST_ROWS = 10  # of an action before its values are taken for more than chance
BY_CHANCE = 1e-3  # probability, for all columns together, below which a column depends on the action
COPIED = 0.995  # correlation of ranks from which on a column says the outcome again
MOSTLY = 0.98  # distinct values per row from which on a column names its rows
FEWEST_NAMED = 20  # rows up to which values that all differ may be chance
DENSE = 3  # times as many whole numbers as rows, at most, are numbers in a row; more are a measurement
MOST_LISTED = 60  # values of a column that are listed
TESTED = r"(^|_)t?(math|read)(s|ing|ss\w*|_\w+|)$|(^|_)(gpa|exam|test_?scores?)$"  # what pupils reach
POST = r"post(?!_?code|al|leitzahl)\w*"  # after the decision; not where somebody lives
GAINS = (  # names of outcomes of which more is better
    r"reward|return|survived|survival|conversion|converted|convert|profit|revenue|sales|clicks?|clicked|success|recovered"
    r"|re\d\d|takeup|bought|purchased?|ordered|subscribed|renewed|retained|donated|donation|voted|cured"
    r"|improved|improvement|satisfaction|satisfied"
)
GOOD = rf"^({GAINS}|r|earnings|income)(_|$)|(^|_)alive$|_({GAINS})$"
OF = r"(_(?!(comp\w*|date|time|days?|duration|costs?|start|end|reason|response|outcome|failure|success)(_|$))|$)"
NO_HISTORY = r"^(?!(.*_)?(prior|pre|prev\w*|last|past|base\w*|before|history|ever|old|since|after|reason)_)"
WORDS = {  # in descending order of strength
    "action": (
        rf"^(action|act|decision|treat|treated|treatment|trt|tx|rx|arms?|assignment|assigned|intervention|variant)s?{OF}",
        r"^(group|allocat\w+|randomi[sz]\w+)$",
        r"^(drug|dose|offer|campaign|therapy|program|programme|training|train|plan|exposure|exposed|medication|surgery"
        r"|vasopressor|antibiotic|discount|voucher|promo|promotion)s?(_|$)",
        r"^(channel|method|script)(_|$)|_ordered$"
        r"|(^|_)(used|given|sent|offered|shown|chosen|applied|received|prescribed|administered|assigned|performed)$",
        r"^(item(_id)?|choice|any|class\w?|policy|participation|incentive|coupon|mailing)s?(_|$)",
        rf"^segment(_|$)|{NO_HISTORY}.*_(action|arm|variant|treatment|treated|offer|drug)$",
    ),
    "episode": (
        r"(episode|stay|session|trajectory|traj|encounter|admission|visit_group|icustay)(_?(id|no|nr|number))?$",
    ),
    "group": (
        r"^((id|no|nr)_)?(patient|subject|user|customer|person|individual|respondent|client|member|pat|participant"
        r"|student|pupil|employee|donor|id|pid|mrn)(_?(id|no|nr|number|num))?$",
    ),
    "step": (
        r"^(step|t|time|timestep|hour|day|week|visit|charttime|timestamp|seq|order|date|datetime|bloc|period)(_|$)",
    ),
    "reward": (
        rf"^({GAINS}|spend|response|responded?|outcome|result|y)(_|$)|(^|_)alive$",
        rf"^(earnings|l?wages?|salary|score|got|r|status|fustat|event|cens\w*|{POST})(_|$)",
        rf"{NO_HISTORY}.*_({GAINS})$",
        TESTED,
    ),
    "terminated": (r"(^terminated$|^terminal$|^done$|died_or_left|^end$|^ended$|^(is_)?last(_|$)|discharged$)",),
    "probability": (r"(^prob|probability$|propensity|^pscore)",),
}
AFTERWARDS = (
    rf"(^|_)(after|{POST}|followup|follow_up|fup|later|time_to|outcome|result|discharge|paid|uplift|margin|clicks?|next"
    rf"|off_?(trt|treat\w*|drug|study)?|los|length_of_stay|disposition|complian\w+|adheren\w+|aes?)(_|$)|{HARMFUL}"
)
UNTREATED = r"^(placebos?|controls?|ctrl|kontroll\w*|sham|untreated|(usual|standard) care)\b"  # a value of an action
BEFORE = (
    r"(^|_)(age\w*|sex|gender|(fe)?male|race|black|white|asian|hisp\w*|married|educ\w*|base\w*|pre\w*|prior\w*|history|site|cent(er|re)|region|"
    r"ward|height|bmi)(_|$)"
)
SURVIVAL = (  # until an event, or the end of the record
    r"^(time|days|futime|s(urv\w*)?_?(time|days|months)|duration|weeks?|months|t?stop|followup|follow_up)$"
)
EVENT = r"^(status|fustat|event|cens\w*|died|death|dead|arrest|survived|alive)$"
IDENTIFIER = (
    r"^(|id|rownames?|index|row|unnamed.*|uuid|key|name|case|record|mrn|ssn)$|(_|^)(id|uuid|key|no|nr)$|^(id|no|nr)_|(num|_code)$"
    r"|^sch\w{0,4}id|^seq(n|no|nr|num)?$"
)
PLACE = r"^(zip|postal|post)(_?code)?$|^plz$"
DOSE = r"(^|_)(dose|dosage)(_|$)"  # an action, even in real numbers
TIME_UNIT = r"(^|_)(week|wk|month|mo|day|visit|year|hour|time)s?_?$"  # before a number
MOMENT, SINCE_1970 = r"(^|_)(ts|time|timestamp|datetime|date|epoch)(_(ms|utc))?$|_at$", 1e8  # seconds, or finer
DATE = r"^\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})"
NUMBERED = r"^(.*?)[._]?(pre|base|baseline|\d+)[a-z]?$"  # bdi.pre, bdi.2m, re78


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

    @property
    def plain(self) -> str:
        """The name as patterns see it."""
        return plain_name(self.name)

    @property
    def number(self) -> int:
        """The number at the end of the name: of re75 and re78, the later is the outcome; −1 if there is none."""
        match = re.match(NUMBERED, self.plain)
        return int(match[2]) if match and match[2].isdigit() else -1


def counts_on(name: str, names: Collection[str]) -> bool:
    """Whether a name counts on from one that ends in 0.

    >>> counts_on("cd420", {"cd40"}), counts_on("week4", {"week0", "week1"}), counts_on("x2", {"x0", "x1"})
    (True, True, False)
    """
    stem = name.rstrip("0123456789")
    stems = [name[:k] for k in range(max(1, len(stem)), len(name)) if name[k] != "0"]
    return any(s + "0" in names and (s + "1" not in names or re.search(TIME_UNIT, s)) for s in stems)


def latest_year(name: str) -> int:
    """The largest number of two digits in a name: a change from 1971 to 1982 is known in 1982; −1 if there is none.

    >>> latest_year("wt82_71"), latest_year("wt71"), latest_year("x2")
    (82, 71, -1)
    """
    return max(map(int, re.findall(r"(?<!\d)\d\d(?!\d)", name)), default=-1)


def counts_through(column: Column, frame: pl.DataFrame) -> bool:
    """Whether a column counts 1, 2, 3 … (or from 0) from the first row to the last, as numbers of people do."""
    if column.kind != "whole" or column.missing or re.search(WORDS["step"][0], column.plain):
        return False
    whole = column.low in (0, 1) and column.distinct == column.high - column.low + 1  # type: ignore[operator]
    return whole and frame[column.name].is_sorted()


def plain_columns(frame: pl.DataFrame) -> pl.DataFrame:
    """The columns of single values: categories as words, what is no number as nothing."""
    single = [
        name for name, kind in frame.schema.items() if not kind.is_nested() and kind not in (pl.Binary, pl.Object)
    ]
    worded = pl.col(pl.Categorical, pl.Enum).cast(pl.String)
    return frame.select(single).with_columns(worded, pl.col(pl.Float32, pl.Float64).fill_nan(None))


def look_at(frame: pl.DataFrame) -> tuple[Column, ...]:
    """Every column with its kind, how many values it has and which."""
    return tuple(_column(frame[name]) for name in frame.columns)


def _column(series: pl.Series) -> Column:
    present = series.drop_nulls()
    distinct = present.n_unique()
    kind = _kind(series.dtype)
    if kind == "text" and len(present) and present.str.contains(DATE).all():
        kind = "time"
    counts = present.value_counts(sort=True).head(MOST_LISTED) if distinct <= MOST_ACTIONS else None
    values = () if counts is None else tuple(str(value) for value in counts[series.name].to_list())
    shares = () if counts is None else tuple((counts["count"] / max(len(present), 1)).to_list())
    ends: tuple[float | None, float | None] = (None, None)
    if kind in ("number", "whole") and len(present):
        ends = float(present.min()), float(present.max())  # type: ignore[arg-type]
    if ends[0] is not None and ends[0] > SINCE_1970 and re.search(MOMENT, plain_name(series.name)):
        kind = "time"
    missing = 1 - len(present) / max(len(series), 1)
    return Column(series.name, kind, distinct, missing, values, shares, *ends)


def often_held(frame: pl.DataFrame, column: Column, person: str | None) -> dict[str, float]:
    """Values that at least `FEWEST_ROWS` people have, rows where no column tells people apart, and their shares."""
    who = pl.int_range(pl.len()) if person is None else pl.col(person)
    rows = frame.select(value=column.name, person=who).drop_nulls("value").group_by("value")
    people = {str(value): count for value, count in rows.agg(pl.col("person").n_unique()).iter_rows()}
    shares = zip(column.values, column.shares, strict=True)
    return {value: share for value, share in shares if people.get(value, 0) >= FEWEST_ROWS}


def _kind(dtype: pl.DataType) -> str:
    if dtype.is_temporal():
        return "time"
    if dtype.is_numeric():
        return "whole" if dtype.is_integer() else "number"
    return "flag" if dtype == pl.Boolean else "text"


def names_rows(column: Column, frame: pl.DataFrame) -> bool:
    """Whether a column tells rows apart and nothing else: words, numbers in a row, or whatever an identifier holds."""
    numbers = frame[column.name].drop_nulls()
    measured = (column.kind == "number" and (numbers % 1 != 0).any()) or re.search(BEFORE, column.plain)
    if column.distinct < MOSTLY * (1 - column.missing) * frame.height or measured:
        return False
    if re.search(f"{IDENTIFIER}|{WORDS['group'][0]}", column.plain):
        return True
    if column.low is None or column.high is None:
        return frame.height > FEWEST_NAMED
    in_a_row = column.high - column.low < DENSE * len(numbers) or bool(numbers.is_sorted())
    return frame.height > FEWEST_NAMED and in_a_row


def _crosstab(frame: pl.DataFrame, name: str, action: str) -> pl.DataFrame:
    """Rows of each value x of a column with each action a; how many actions there are with x, and values with a."""
    pairs = frame.select(x=name, a=action).drop_nulls().group_by("x", "a").agg(rows=pl.len())
    return pairs.with_columns(actions=pl.len().over("x"), values=pl.len().over("a"))


def _share(of: str) -> pl.Expr:
    """The share of a value or an action among all rows of a crosstab."""
    return pl.col("rows").sum().over(of) / pl.col("rows").sum()


def determines(frame: pl.DataFrame, name: str, other: str) -> bool:
    """Whether a column tells another one, and is told by it no more than in part."""
    pairs = _crosstab(frame, name, other)
    return bool((pairs["actions"] == 1).all()) and pairs["x"].n_unique() > pairs["a"].n_unique()


def told_by_action(frame: pl.DataFrame, name: str, action: str) -> bool:
    """Whether all rows of an action have one value and actions differ in it, beyond chance."""
    pairs = _crosstab(frame, name, action)
    if name == action or pairs["x"].n_unique() < 2 or (pairs["values"] > 1).any():
        return False
    return pairs.select(((pl.col("rows") - 1) * _share("x").log()).sum()).item() < math.log(BY_CHANCE)


def copies(frame: pl.DataFrame, name: str, action: str) -> bool:
    """Whether the action alone tells the column, or one action alone has a value of its own."""
    pairs = _crosstab(frame, name, action)
    own = (pairs["values"] == 1) & (pairs["actions"] == 1) & (pairs["rows"] >= FEWEST_ROWS)
    return (pairs["x"].n_unique() > 2 and bool(own.any())) or told_by_action(frame, name, action)


def taken_up(frame: pl.DataFrame, name: str, action: str, outcome: str) -> bool:
    """Whether a column behind action and outcome tells the action in part: an offer that was taken, its price or 0.

    Of two values one comes with a single action, or of more an action has one alone, beyond chance.
    """
    if name not in frame.columns[max(frame.columns.index(c) for c in (action, outcome or action)) :]:
        return False
    pairs = _crosstab(frame, name, action)
    alone, of = ("actions", "a") if pairs["x"].n_unique() == 2 else ("values", "x")
    single = (pl.col(alone) == 1) & (pl.col("rows") >= FEWEST_ROWS)
    return bool(pairs.select((single & (_share(of) ** pl.col("rows") < BY_CHANCE)).any()).item())


def tells_empty(frame: pl.DataFrame, column: Column, columns: Sequence[Column]) -> str | None:
    """A column that has values exactly where a column of two values has one of them."""
    high = frame[column.name] == frame[column.name].max()
    others = [other.name for other in columns if 0 < other.missing < 1 and other is not column]
    return next((name for name in others if (high == frame[name].is_null()).mean() in (0.0, 1.0)), None)


def says_again(frame: pl.DataFrame, column: Column, outcome: str) -> bool:
    """Whether a column and the outcome rise together, or one is a threshold of the other."""
    from scipy.stats import mannwhitneyu

    ranks = frame.select(x=pl.col(column.name).rank(), y=pl.col(outcome).rank()).drop_nulls()
    few, many = sorted((ranks["x"], ranks["y"]), key=lambda values: values.n_unique())
    if len(ranks) < FEWEST_ROWS or few.n_unique() < 2:
        return False
    if few.n_unique() > 2:
        return abs(float(np.corrcoef(few, many)[0, 1])) > COPIED
    above, below = many.filter(few == few.max()), many.filter(few < few.max())
    auc = mannwhitneyu(above, below, method="asymptotic").statistic / (len(above) * len(below))
    return bool(max(auc, 1 - auc) >= (1.0 if many.n_unique() == 2 else COPIED))


def by_chance(frame: pl.DataFrame, column: Column, action: str) -> float:
    """The probability that a column differs between actions as much as it does if it does not depend on them."""
    from scipy.stats import chi2_contingency, kruskal

    pairs = frame.select(x=column.name, a=action).drop_nulls()
    if column.kind in ("text", "flag") or column.distinct <= 2:
        counts = pairs.group_by("x", "a").len().pivot("a", index="x", values="len").fill_null(0).drop("x").to_numpy()
        return float(chi2_contingency(counts, correction=False)[1]) if min(counts.shape, default=0) > 1 else 1.0
    groups = [part["x"].cast(pl.Float64).to_numpy() for part in pairs.partition_by("a") if len(part) >= FEWEST_ROWS]
    varied = len(groups) > 1 and any(group.min() != group.max() for group in groups)
    return float(kruskal(*groups, nan_policy="omit")[1]) if varied else 1.0


def goes_with(frame: pl.DataFrame, name: str, outcome: str) -> float:
    """The probability that the ranks of a column and of the outcome agree as much as they do by chance."""
    from scipy.stats import spearmanr

    ranks = frame.select(x=pl.col(name).rank(), y=pl.col(outcome).rank()).drop_nulls()
    varied = len(ranks) >= FEWEST_ROWS and min(ranks[of].n_unique() for of in ("x", "y")) > 1
    return float(spearmanr(ranks["x"], ranks["y"]).pvalue) if varied else 1.0
