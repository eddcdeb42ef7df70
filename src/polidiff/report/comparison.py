"""Two results side by side: what is said about them, and its tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from polidiff.explanation.said import Answer, Block, Said, blocks_of
from polidiff.explanation.words import amount_text, bounds_text, few
from polidiff.records.numbers import percent
from polidiff.records.outcome import Interval
from polidiff.records.plan import DifferenceChange, ResultComparison, VerdictChange
from polidiff.report.tables import Table

AS_BEFORE = "as before"
MOST_TOLD = 3
STATUSES = ("new", "gone", "larger", "smaller", "same")
TITLE = "What is different since the last result"


def render_comparison(comparison: ResultComparison) -> str:
    """The comparison as printed."""
    return say(comparison).text()


def say(comparison: ResultComparison) -> Said:
    """What is said about two results."""
    answered = answers(comparison)
    done = tuple(_line(row) for row in differences_table(comparison).rows if row[0] != AS_BEFORE)
    resting = (f"{name}: {before}, now {after}" for name, before, after in assumption_rows(comparison))
    blocks = blocks_of(
        Block("now", "What now", (answered[0].spoken,), listed=False),
        Block("differences", "What is done differently", done),
        Block("outcomes", "Outcomes", tuple(verdict_line(change, comparison) for change in comparison.verdicts)),
        Block("worse", "Who loses", tuple(map(_line, losers_table(comparison).rows))),
        Block("rests", "What it rests on", tuple(resting)),
        Block("notes", "Note", comparison.cautions),
    )
    title = f"{comparison.study}: {TITLE[0].lower()}{TITLE[1:]}" if comparison.study else TITLE
    return Said(title, (headline(comparison),), answered, blocks)


def _line(row: tuple[str, ...]) -> str:
    status, words, before, after, place = row
    sizes = before if before == after else " → ".join(size for size in (before, after) if size != "–")
    return f"{status}: {words} ({sizes or 'size not known'}{f'; was where {place}' if place else ''})"


def headline(comparison: ResultComparison) -> str:
    """How many differences are new, gone, larger, smaller and as before; how many verdicts have turned."""
    counts = {status: sum(change.status == status for change in comparison.differences) for status in STATUSES}
    what = "Changes of the best plan" if comparison.kind == "frontier" else "Regions in which they differ"
    parts = [f"{count} {'as before' if status == 'same' else status}" for status, count in counts.items() if count]
    turned = sum(verdict.status == "turned" for verdict in comparison.verdicts)
    verdicts = f"{turned} of {len(comparison.verdicts)} verdicts turned" if turned else "no verdict turned"
    return f"{what}: {few(parts) or 'none in either result'}; {verdicts}."


def answers(comparison: ResultComparison) -> tuple[Answer, ...]:
    """What now, what is done differently since then, what that does, who newly loses, whether they can be compared."""
    as_before = comparison.advice_before == comparison.advice_after
    advice = "As before." if as_before else f"Before: {comparison.advice_before}"
    done = [f"{change.status}: {change.words}" for change in comparison.differences if change.status != "same"]
    verdicts = [verdict_line(change, comparison) for change in comparison.verdicts if change.status != "same"]
    losing = [f"{c.status}: {c.words}" for c in comparison.losers if c.status in ("new", "larger")]
    eased = [f"{c.words} ({c.status})" for c in comparison.losers if c.status in ("smaller", "gone")]
    less = (f"Losses that are less or gone: {_first(eased)}",) if eased else ()
    return (
        Answer("What now?", comparison.advice_after, (advice,)),
        Answer("What is done differently?", _first(done) or "Nothing new."),
        Answer("Is it better than then?", _first(verdicts) or "As before."),
        Answer("Who newly loses?", _first(losing) or "Nobody is shown to.", less),
        Answer("Can they be compared?", " ".join(comparison.cautions) or "Nothing speaks against it."),
    )


def _first(lines: list[str]) -> str:
    """The first of some lines as a sentence; nothing of none."""
    more = f"; and {len(lines) - MOST_TOLD} more below" if len(lines) > MOST_TOLD else ""
    text = f"{'; '.join(lines[:MOST_TOLD])}{more}."
    return f"{text[0].upper()}{text[1:]}" if lines else ""


def status_words(change: DifferenceChange) -> str:
    """The status, and whether its place has moved."""
    if change.status != "same":
        return change.status
    return "moved" if change.place_before else AS_BEFORE


def differences_table(comparison: ResultComparison) -> Table:
    """One row per difference: what is new and gone first."""
    share = comparison.kind == "explanation"

    aim = next((one for one in comparison.outcomes if comparison.measure == f"worth in {one.name}"), None)

    def size(of: Interval) -> str:
        return f"{percent(of.estimate)} of decisions" if share else f"worth {bounds_text(of, aim, difference=True)}"

    rows = tuple(_row(change, size) for change in comparison.differences)
    return Table(("since then", "what is done", f"{comparison.measure} then", "now", "where it was"), rows)


def losers_table(comparison: ResultComparison) -> Table:
    """One row per group that loses, in either result."""
    rows = []
    for change in comparison.losers:
        lost = next((o for o in comparison.outcomes if change.words.startswith(f"{o.name} for ")), None)
        rows.append(_row(change, partial(amount_text, outcome=lost)))
    return Table(("since then", "who loses what", "by how much then", "now", "who it was"), tuple(rows))


def _row(change: DifferenceChange, size: Callable[[Interval], str]) -> tuple[str, ...]:
    sizes = ("–" if of is None else size(of) for of in (change.before, change.after))
    return (status_words(change), change.words, *sizes, change.place_before or "")


def verdicts_table(comparison: ResultComparison) -> Table:
    """One row per outcome."""
    rows = tuple(
        (change.outcome, _verdict_words(change), *(figure or "–" for figure in _figures(change, comparison)))
        for change in comparison.verdicts
    )
    return Table(("outcome", "verdict", "difference then", "difference now"), rows)


def verdict_line(change: VerdictChange, comparison: ResultComparison) -> str:
    """One outcome: how the verdict has changed, and the two differences."""
    figures = dict.fromkeys(filter(None, _figures(change, comparison)))
    return f"{change.outcome} {_verdict_words(change)} ({' → '.join(figures)})"


def _figures(change: VerdictChange, comparison: ResultComparison) -> list[str]:
    """The differences of an outcome then and now; nothing where it was not looked at."""
    outcome = next((o for o in comparison.outcomes if o.name == change.outcome), None)
    both = (change.before, change.after)
    return ["" if size is None else bounds_text(size, outcome, difference=True) for size in both]


def _verdict_words(change: VerdictChange) -> str:
    before, after = ("the same" if read == "same" else read for read in (change.reading_before, change.reading_after))
    return {
        "turned": f"was {before}, is now {after}",
        "same": f"is {after}, as before",
        "larger": f"is {after}, by more than before",
        "smaller": f"is {after}, by less than before",
        "new": f"is {after} and was not looked at before",
        "gone": f"was {before} and is not looked at any more",
    }[change.status]


def assumption_rows(comparison: ResultComparison) -> tuple[tuple[str, str, str], ...]:
    """Assumptions whose status has changed."""
    return tuple((a.name, a.before or "not tested", a.after or "not tested") for a in comparison.assumptions)
