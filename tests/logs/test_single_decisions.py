"""What a log of single decisions says of its units: decisions, or people where it knows them, never episodes."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest

from polidiff import Log, explain, improve


def log_of(**given) -> Log:
    rng = np.random.default_rng(1)
    word, taken = rng.choice(["u", "v", "w"], 300), rng.integers(0, 2, 300)
    paid = taken * (word == "u") + rng.normal(size=300)
    rows = {"word": word, "x": rng.normal(size=300), "taken": taken, "paid": paid, "who": np.arange(300) // 3}
    return Log(pl.DataFrame(rows), action="taken", reward="paid", **given)


@pytest.mark.parametrize(
    "given", [{"state": ["word", "x"]}, {"state": ["word", "x"], "group": "who"}, {"state": "word"}]
)
def test_no_line_about_single_decisions_speaks_of_episodes(given, tmp_path):
    log = log_of(**given)
    results = [explain(log, "log", "always:1"), improve(log, "log", max_rules=1)]
    texts = [str(log.check), *map(str, results)]
    for result in results:
        result.save(tmp_path / "result.md")
        texts.append((tmp_path / "result.md").read_text(encoding="utf-8"))
        texts += [f"{a.tested} {a.detail} {a.consequence}" for a in result.assumptions] + [*result.warnings]
    assert [line for text in texts for line in text.splitlines() if re.search(r"\bepisodes?\b", line)] == []
