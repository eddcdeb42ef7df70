"""The lists once more, beside the trees that an earlier run found: ``python -m benchmarks.trees``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks.__main__ import circumstances
from benchmarks.trees import SECONDS, lists
from benchmarks.trees.tables import TABLES

PLACE = Path(__file__).parent.parent / "results" / "trees.json"

if __name__ == "__main__":
    kept = json.loads(PLACE.read_text(encoding="utf-8"))
    for row in kept["rows"]:
        row.update(lists(TABLES[row["table"]](), row["depth"], SECONDS))
        print(row["table"], row["list, as many comparisons"], row["list"], file=sys.stderr, flush=True)
    kept["lists run again"] = circumstances()
    PLACE.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
