"""Small logs, written in pieces, and their counts by the definition and a plain loop."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import polars as pl
import pyarrow.parquet as pq

NAMES = {"state": "s", "action": "a", "episode": "e", "step": "t", "reward": "r", "terminated": "end"}


def by_hand(frame, blocks):
    """Counts, sums of rewards and starts per block, by the definition and a plain loop."""
    rows = frame.rows(named=True)
    counts, sums, starts = Counter(), Counter(), Counter()
    number = -1
    for index, row in enumerate(rows):
        if index == 0 or rows[index - 1]["e"] != row["e"]:
            number += 1
            starts[number % blocks, str(row["s"])] += 1
        to = "cut"
        if row["end"]:
            to = "end"
        elif index + 1 < len(rows) and rows[index + 1]["e"] == row["e"] and rows[index + 1]["t"] == row["t"] + 1:
            to = str(rows[index + 1]["s"])
        key = (number % blocks, str(row["s"]), row["a"], to)
        counts[key] += 1
        sums[key] += row["r"]
    return counts, sums, starts


def told(log, counts):
    """The same shape from counts."""
    names = [*log.states, "end", "cut"]
    keys = [
        (int(b), names[s], int(a), names[t])
        for b, s, a, t in zip(counts.block, counts.state, counts.action, counts.to, strict=True)
    ]
    starts = {(int(b), names[s]): counts.starts[b, s] for b, s in zip(*np.nonzero(counts.starts), strict=True)}
    return dict(zip(keys, counts.count, strict=True)), dict(zip(keys, counts.sums[:, 0], strict=True)), starts


def written(frame, folder, cuts, group):
    """The rows in several files of small row groups."""
    folder.mkdir(exist_ok=True)
    for file in folder.iterdir():
        file.unlink()
    ends = sorted({0, frame.height, *(cut for cut in cuts if 0 < cut < frame.height)})
    for number, (low, high) in enumerate(pairwise(ends)):
        frame[low:high].write_parquet(folder / f"{number:03}.parquet", row_group_size=group)
    return folder


def episodes(count=12, length=3):
    """Episodes of equal length over five states; all end."""
    size = count * length
    step = np.tile(np.arange(length), count)
    return pl.DataFrame({
        "e": np.repeat(np.arange(count), length), "t": step, "s": np.arange(size) % 5, "a": np.arange(size) % 2,
        "r": np.ones(size), "end": step == length - 1,
    })  # fmt: skip


def spoilt(path, group):
    """The file with the pages of one row group overwritten."""
    column = pq.ParquetFile(path).metadata.row_group(group)
    data = bytearray(path.read_bytes())
    for k in range(column.num_columns):
        begin = column.column(k).data_page_offset
        data[begin : begin + column.column(k).total_compressed_size] = b"\xff" * column.column(k).total_compressed_size
    path.write_bytes(data)
