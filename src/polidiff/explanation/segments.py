"""One decision per episode: nothing is met in order, so every region is a segment with verdicts of its own."""

from __future__ import annotations

from collections.abc import Sequence

from polidiff.evaluation.logged.compare import LogComparison
from polidiff.records.explanation import Region, Sentence, Support, WorseOff


def segments(regions: Sequence[Region], found: LogComparison) -> tuple[Sentence, ...]:
    """A sentence per region; group 0 of the comparison is everyone, group k + 1 the members of region k."""
    return tuple(
        Sentence(
            start=region.rule,
            share=float(episodes / found.episodes[0]),
            path=(region.id,),
            path_share=1.0,
            verdicts=found.verdicts[k + 1],
            support=Support(
                int(episodes), int(episodes), float(episodes / found.episodes[0]), float(found.unsupported[k + 1])
            ),
            precision=region.precision,
        )
        for k, (region, episodes) in enumerate(zip(regions, found.episodes[1:], strict=True))
    )


def losing_segments(sentences: Sequence[Sentence]) -> tuple[WorseOff, ...]:
    """Segments for which an outcome gets worse beyond doubt, the most people first."""
    losing = [
        WorseOff(verdict.outcome, sentence.start, sentence.share, verdict.difference)
        for sentence in sentences
        if sentence.start is not None
        for verdict in sentence.verdicts
        if verdict.valence == "worse"
    ]
    return tuple(sorted(losing, key=lambda entry: -entry.share))
