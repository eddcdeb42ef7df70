"""Groups too small to show: a report made from a log must not point at people.

From a log, a region, a group of starts, a group that is worse off or a cell of a picture with fewer than `min_group`
episodes behind it is left out, and the result says how many were.
"""

from __future__ import annotations

from dataclasses import replace

from polidiff.errors import InvalidOptionError
from polidiff.records.explanation import Explanation, Picture, Region, Sentence, WorseOff

MIN_GROUP = 10


def suppressed(record: Explanation, min_group: int = MIN_GROUP) -> Explanation:
    """The result without groups smaller than `min_group`; unchanged unless it comes from a log."""
    if min_group < 1:
        raise InvalidOptionError(f"min_group must be at least 1; got {min_group!r}")
    if record.world.kind != "log":
        return record
    regions = tuple(region for region in record.regions if region.support.episodes >= min_group)
    known = {region.id for region in regions}
    sentences = tuple(
        _of_known_regions(sentence, known)
        for sentence in record.sentences
        if sentence.support.episodes >= min_group and _speaks_of(sentence, known)
    )
    worse = tuple(group for group in record.worse_off if _episodes(group, record) >= min_group)
    pictures = tuple(
        _without_small_cells(picture, min_group / _all_episodes(record), known) for picture in record.pictures
    )
    line = _line(record, regions, sentences, worse, min_group)
    return replace(
        record,
        regions=tuple(replace(region, states=()) for region in regions),
        sentences=tuple(replace(sentence, starts=()) for sentence in sentences),
        worse_off=tuple(replace(group, starts=()) for group in worse),
        pictures=pictures,
        warnings=(*record.warnings, line) if line else record.warnings,
    )


def _speaks_of(sentence: Sentence, known: set[str]) -> bool:
    """Whether the regions shown suffice for what a sentence says: all of its path, some of its meetings."""
    met = {meeting.region for meeting in sentence.meetings}
    return set(sentence.path) <= known and (not met or bool(met & known))


def _of_known_regions(sentence: Sentence, known: set[str]) -> Sentence:
    return replace(
        sentence,
        meetings=tuple(meeting for meeting in sentence.meetings if meeting.region in known),
        others=tuple(other for other in sentence.others if set(other.path) <= known),
    )


def _all_episodes(record: Explanation) -> float:
    episodes = record.world.facts.get("episodes")
    return float(episodes) if isinstance(episodes, (int, float)) and episodes > 0 else 1.0


def _episodes(group: WorseOff, record: Explanation) -> float:
    """Episodes behind a share of starts."""
    return group.share * _all_episodes(record)


def _without_small_cells(picture: Picture, least: float, known: set[str]) -> Picture:
    """Only cells with at least a share `least` of all visits.

    A cell counts visits, not people: even if every episode spent all its time in one cell, one with this share would
    hold `min_group` of them.
    """
    enough = least * sum(cell.visits for cell in picture.cells)
    kept = tuple(
        cell if cell.region in known else replace(cell, region=None) for cell in picture.cells if cell.visits >= enough
    )
    return replace(picture, cells=kept, trajectories=(), proposed_trajectories=())


def _line(
    record: Explanation,
    regions: tuple[Region, ...],
    sentences: tuple[Sentence, ...],
    worse: tuple[WorseOff, ...],
    min_group: int,
) -> str:
    counts = (
        (len(record.regions) - len(regions), "region"),
        (len(record.sentences) - len(sentences), "group of starts"),
        (len(record.worse_off) - len(worse), "group that is worse off"),
    )
    left_out = [f"{count} × {what}" for count, what in counts if count]
    if not left_out:
        return ""
    return f"Left out because fewer than {min_group} episodes stand behind them: {', '.join(left_out)}."
