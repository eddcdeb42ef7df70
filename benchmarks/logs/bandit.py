"""Two policies that each wrote a log: what one log says of the other policy, and what that policy's own log says.

The sample of the Open Bandit Dataset (Saito et al. 2020; Apache 2.0 in the package ``obp``): recommendations in three
places of a page, written by a uniformly random policy and by Bernoulli Thompson sampling, with propensities. The data
are not part of this repository. ``POLIDIFF_OPEN_BANDIT`` names the folder ``obp/dataset/obd`` of an unpacked wheel;
without it this part is left out.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from polidiff import Log
from polidiff.evaluation.log import evaluate_log
from polidiff.records.arrays import FloatArray

WRITERS = ("random", "bts")


def run(smoke: bool) -> list[dict[str, Any]]:
    """Every campaign, in both directions."""
    folder = os.environ.get("POLIDIFF_OPEN_BANDIT")
    if folder is None:
        return []
    campaigns = ("all",) if smoke else ("all", "men", "women")
    return [
        _one(Path(folder), campaign, written, judged)
        for campaign in campaigns
        for written, judged in (WRITERS, WRITERS[::-1])
    ]


def _read(folder: Path, writer: str, campaign: str) -> pl.DataFrame:
    frame = pl.read_csv(folder / writer / campaign / f"{campaign}.csv")
    place = pl.col("position").rank("dense").cast(pl.Int64) - 1
    return frame.select(place.alias("place"), "item_id", "click", pl.col("propensity_score").alias("chance"))


def _policy(frame: pl.DataFrame, n_items: int) -> FloatArray:
    """(places, items) mean propensity of each logged pair; a pair that was not shown gets what is left, evenly."""
    shown = frame.group_by("place", "item_id").agg(pl.col("chance").mean())
    table = np.full((frame["place"].n_unique(), n_items), np.nan)
    table[shown["place"].to_numpy(), shown["item_id"].to_numpy()] = shown["chance"].to_numpy()
    left = np.maximum(1 - np.nansum(table, axis=1, keepdims=True), 0.0)
    empty = np.isnan(table)
    table = np.where(empty, left / np.maximum(empty.sum(axis=1, keepdims=True), 1), table)
    return np.asarray(table / table.sum(axis=1, keepdims=True))


def _one(folder: Path, campaign: str, written: str, judged: str) -> dict[str, Any]:
    theirs, own = _read(folder, written, campaign), _read(folder, judged, campaign)
    items = int(max(theirs["item_id"].max(), own["item_id"].max())) + 1
    log = Log(theirs, state="place", action="item_id", reward="click", probability="chance", return_range=(0, 1),
              actions=items)  # fmt: skip
    found = evaluate_log(log, _policy(own, items))
    rate, careful = float(own["click"].mean()), found.outcomes["return"]
    error = float(np.sqrt(rate * (1 - rate) / own.height))
    weighted = [found.details[f"return: {name}"] for name in ("WIS", "WIS low", "WIS high")]
    shown = bool(np.isfinite(weighted).all())  # too few effective decisions give no interval
    return {
        "campaign": campaign,
        "log of": written,
        "policy": judged,
        "rows": theirs.height,
        "clicks in the log": int(theirs["click"].sum()),
        "effective decisions": round(found.details["effective episodes"], 1),
        "unsupported": round(found.details["unsupported"], 4),
        "own log, click rate": [round(v, 5) for v in (rate, rate - 1.96 * error, rate + 1.96 * error)],
        "careful": [round(v, 5) for v in (careful.estimate, careful.low, careful.high)],
        "WIS": [round(v, 5) for v in (weighted if shown else weighted[:1])],
        "own rate within careful": bool(careful.low <= rate <= careful.high),
        "own rate within WIS": bool(weighted[1] <= rate <= weighted[2]) if shown else None,
    }
