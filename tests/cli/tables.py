"""Tables as people have them, made by chance."""

from __future__ import annotations

import numpy as np
import polars as pl


def campaign() -> pl.DataFrame:
    """Customers who come back; a channel chosen by age; behind the profit what they then had in the basket."""
    rng = np.random.default_rng(0)
    age = rng.integers(20, 80, 2000)
    mail = rng.random(2000) < 1 / (1 + np.exp((50 - age) / 10))
    profit = rng.random(2000) + 0.3 * mail + age / 100
    return pl.DataFrame({
        "cust": [f"C{k}" for k in rng.integers(0, 700, 2000)], "age": age, "income": rng.normal(50, 9, 2000) + age,
        "visits": rng.poisson(3, 2000), "channel": np.where(mail, "mail", "web"), "profit": profit,
        "basket": 20 * profit + rng.normal(0, 5, 2000), "mood": rng.random(2000),
    })  # fmt: skip


def two_arms(**columns):
    rng = np.random.default_rng(0)
    return pl.DataFrame({"age": rng.integers(20, 90, 200), "arm": rng.choice(["old", "new"], 200), **columns})


def ward_rows(ended: bool) -> pl.DataFrame:
    """Stays of three or four days; whether somebody went home stands in the last row only."""
    rng, rows = np.random.default_rng(0), []
    for stay in range(40):
        days, pulse = 3 + stay % 2, rng.integers(60, 100)
        for day in range(days):
            last = day == days - 1
            rows.append({
                "stay_id": stay, "day": day, "pulse": int(pulse), "ward": "ab"[stay % 2], "drug": "ny"[rng.integers(2)],
                "went_home": int(last and stay % 3 > 0), "score": rng.random(), "ended": last,
            })  # fmt: skip
            pulse += rng.integers(-3, 4)
    return pl.DataFrame(rows) if ended else pl.DataFrame(rows).drop("ended")


def lots(rows: int = 600, seed: int = 0) -> dict[str, object]:
    """Arms drawn by lot, and measurements that do not depend on them."""
    rng = np.random.default_rng(seed)
    return {
        "arms": rng.choice(["none", "one", "two"], rows),
        "age": rng.integers(20, 80, rows),
        "weight": rng.normal(70, 10, rows).round(1),
        "smoker": rng.integers(0, 2, rows),
        "lab0": rng.normal(size=rows).round(3),
    }
