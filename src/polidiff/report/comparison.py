"""Two results side by side: what is said about them, and its tables."""

from __future__ import annotations

from polidiff.explanation.said import Answer, Block, Said, blocks_of
from polidiff.explanation.words import amount_text, bounds_text, few
from polidiff.records.numbers import percent
from polidiff.records.outcome import Interval
from polidiff.records.plan import DifferenceChange, ResultComparison, VerdictChange
from polidiff.report.tables import Table

STATUSES = ("new", "gone", "larger", "smaller", "same")
TITLE = "What is different since the last result"


def render_comparison(comparison: ResultComparison) -> str:
    """The comparison as printed."""
    return say(comparison).text()


def say(comparison: ResultComparison) -> Said:
    """What is said about two results."""
    changed = [change for change in comparison.differences if change.status != "same" or change.place_before]
    told = answers(comparison)
    done = tuple(map(_line, differences_table(comparison, changed).rows))
    resting = (f"{name}: {before}, now {after}" for name, before, after in assumption_rows(comparison))
    blocks = blocks_of(
        Block("now", "What now", (told[0].spoken,), listed=False),
        Block("differences", "What is done differently", done),
        Block("outcomes", "Outcomes", tuple(verdict_line(change, comparison) for change in comparison.verdicts)),
        Block("worse", "Who loses", tuple(map(_line, losers_table(comparison).rows))),
        Block("rests", "What it rests on", tuple(resting)),
        Block("notes", "Note", comparison.cautions),
    )
    title = f"{comparison.study}: {TITLE[0].lower()}{TITLE[1:]}" if comparison.study else TITLE
    return Said(title, (headline(comparison),), told, blocks)


def _line(row: tuple[str, ...]) -> str:
    status, words, before, after, place = row
    sizes = before if before == after else " → ".join(size for size in (before, after) if size != "–")
    return f"{status}: {words} ({sizes or 'size not known'}{f'; was where {place}' if place else ''})"


def headline(comparison: ResultComparison) -> str:
    """How many differences are new, gone, larger, smaller and as before; how many verdicts have turned."""
    counts = {status: sum(change.status == status for change in comparison.differences) for status in STATUSES}
    what = "Changes of the best plan" if comparison.kind == "frontier" else "Regions in which they differ"
    told = [f"{count} {'as before' if status == 'same' else status}" for status, count in counts.items() if count]
    turned = sum(verdict.status == "turned" for verdict in comparison.verdicts)
    verdicts = f"{turned} of {len(comparison.verdicts)} verdicts turned" if turned else "no verdict turned"
    return f"{what}: {few(told) or 'none in either result'}; {verdicts}."


def answers(comparison: ResultComparison) -> tuple[Answer, ...]:
    """What now, what is done differently since then, what that does, who newly loses, whether they can be compared."""
    as_before = comparison.advice_before == comparison.advice_after
    advice = ("As before.",) if as_before else (f"Before: {comparison.advice_before}",)
    told = [f"{status_words(change)}: {change.words}" for change in comparison.differences if change.status != "same"]
    verdicts = [verdict_line(change, comparison) for change in comparison.verdicts if change.status != "same"]
    newly = ("new", "larger")
    losing = [f"{change.status}: {change.words}" for change in comparison.losers if change.status in newly]
    eased = [f"{c.words} ({c.status})" for c in comparison.losers if c.status in ("smaller", "gone")]
    return (
        Answer("What now?", comparison.advice_after, advice),
        Answer("What is done differently?", f"{'; '.join(told[:3])}{_others(told)}." if told else "Nothing new."),
        Answer(
            "Is it better than then?", f"{'; '.join(verdicts[:3])}{_others(verdicts)}." if verdicts else "As before."
        ),
        Answer(
            "Who newly loses?",
            f"{'; '.join(losing[:3])}{_others(losing)}." if losing else "Nobody is shown to.",
            (f"Losses that are less or gone: {'; '.join(eased[:3])}{_others(eased)}.",) if eased else (),
        ),
        Answer("Can they be compared?", " ".join(comparison.cautions) or "Nothing speaks against it."),
    )


def _others(lines: list[str]) -> str:
    return f"; and {len(lines) - 3} more below" if len(lines) > 3 else ""


def status_words(change: DifferenceChange) -> str:
    """The status, and whether its place has moved."""
    if change.status != "same":
        return change.status
    return "moved" if change.place_before else "as before"


def differences_table(comparison: ResultComparison, changes: list[DifferenceChange] | None = None) -> Table:
    """One row per difference: what is new and gone first."""
    share = comparison.kind == "explanation"
    rows = tuple(
        (
            status_words(change),
            change.words,
            _size(change.before, share),
            _size(change.after, share),
            change.place_before or "",
        )
        for change in (comparison.differences if changes is None else changes)
    )
    return Table(("since then", "what is done", f"{comparison.measure} then", "now", "where it was"), rows)


def _size(size: Interval | None, share: bool) -> str:
    if size is None:
        return "–"
    return f"{percent(size.estimate)} of decisions" if share else f"worth {bounds_text(size, difference=True)}"


def losers_table(comparison: ResultComparison) -> Table:
    """One row per group that loses, in either result."""
    outcomes = {outcome.name: outcome for outcome in comparison.outcomes}
    rows = []
    for change in comparison.losers:
        outcome = next((o for name, o in outcomes.items() if change.words.startswith(f"{name} for ")), None)
        sizes = [amount_text(size, outcome) if size is not None else "–" for size in (change.before, change.after)]
        rows.append((status_words(change), change.words, *sizes, change.place_before or ""))
    return Table(("since then", "who loses what", "by how much then", "now", "who it was"), tuple(rows))


def verdicts_table(comparison: ResultComparison) -> Table:
    """One row per outcome."""
    outcomes = {outcome.name: outcome for outcome in comparison.outcomes}
    rows = tuple(
        (
            change.outcome,
            _verdict_words(change),
            *(
                "–" if size is None else bounds_text(size, outcomes.get(change.outcome), difference=True)
                for size in (change.before, change.after)
            ),
        )
        for change in comparison.verdicts
    )
    return Table(("outcome", "verdict", "difference then", "difference now"), rows)


def verdict_line(change: VerdictChange, comparison: ResultComparison) -> str:
    """One outcome: how the verdict has changed, and the two differences."""
    outcome = next((o for o in comparison.outcomes if o.name == change.outcome), None)
    figures = [bounds_text(i, outcome, difference=True) for i in (change.before, change.after) if i is not None]
    return f"{change.outcome} {_verdict_words(change)} ({' → '.join(dict.fromkeys(figures))})"


def _verdict_words(change: VerdictChange) -> str:
    return {
        "turned": f"was {change.reading_before}, is now {change.reading_after}",
        "same": f"is {change.reading_after}, as before",
        "larger": f"is {change.reading_after}, by more than before",
        "smaller": f"is {change.reading_after}, by less than before",
        "new": f"is {change.reading_after} and was not looked at before",
        "gone": f"was {change.reading_before} and is not looked at any more",
    }[change.status]


def assumption_rows(comparison: ResultComparison) -> tuple[tuple[str, str, str], ...]:
    """Assumptions whose status has changed."""
    return tuple((a.name, a.before or "not tested", a.after or "not tested") for a in comparison.assumptions)
