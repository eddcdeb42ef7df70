"""Bytes searched for with atheris, guided by which lines of polidiff they reach.

::

    python -m tests.fuzz.guided 10000             # every door that takes bytes, one process each; a line of JSON
    python -m tests.fuzz.guided 10000 "patches"   # one door, in this process

Needs atheris, in an environment of its own (``pip install atheris hypothesis -e .``).
"""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SEED = 20_261
TOGETHER = ["-timeout=0", "-print_final_stats=1", f"-seed={SEED}", "-max_len=20000", "-rss_limit_mb=4000"]


def main(arguments: list[str]) -> None:
    """All doors, or one."""
    count = int(arguments[0])
    if len(arguments) > 1:
        search(arguments[1], count)
        return
    names = ("result files", "patches", "study files", "rule text", *(f"policy {e}" for e in (".npy", ".npz", ".csv")))
    found = {name: _alone(name, count) for name in (*names, "policy .json", "policy .onnx", "CSV logs", "Parquet logs")}
    print(json.dumps(found, ensure_ascii=False))


def _alone(name: str, count: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "tests.fuzz.guided", str(count), name, folder]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        kinds = Path(folder) / "failures.json"
        failures = json.loads(kinds.read_text(encoding="utf-8")) if kinds.exists() else {}
    ran = re.search(r"number_of_executed_units:\s*(\d+)", done.stderr)
    if ran is None:
        failures[f"the process ended with {done.returncode}"] = done.stderr[-1_000:]
    told = {"cases": int(ran[1]) if ran else 0, "failures": failures}
    print(name, told, file=sys.stderr, flush=True)
    return told


def search(name: str, count: int) -> None:
    """Search at one door; kinds of failures go to a file as they come, and the search goes on."""
    import atheris

    with atheris.instrument_imports(include=["polidiff"]):
        from tests.fuzz.doors import DOORS
        from tests.fuzz.judge import FailureError, verdict
    place = Path(sys.argv[3]) if len(sys.argv) > 3 else Path(tempfile.mkdtemp())
    door = DOORS["policy files" if name.startswith("policy") else name]
    kinds: dict[str, str] = {}

    def one(data: bytes) -> None:
        case = _case(name, data)
        try:
            verdict(door, case, place)
        except FailureError as failure:
            if failure.kind not in kinds:
                kinds[failure.kind] = f"{failure} from {data!r}"[:3_000]
                (place / "failures.json").write_text(json.dumps(kinds, ensure_ascii=False), encoding="utf-8")

    corpus = place / "corpus"
    corpus.mkdir()
    for number, content in enumerate(_beginnings(name)):
        (corpus / str(number)).write_bytes(content)
    atheris.Setup([sys.argv[0], str(corpus), f"-runs={count}", *TOGETHER], one)
    atheris.Fuzz()


def _case(name: str, data: bytes) -> Any:
    """What a door takes, made of bytes."""
    from tests.fuzz.logs import ROLES

    if name.startswith("policy"):
        return name.removeprefix("policy "), data
    if name == "rule text":
        return data.decode("utf-8", "replace")
    if name.endswith("logs"):
        return data, ROLES[0]
    return data


def _beginnings(name: str) -> list[bytes]:
    """Valid documents to start from."""
    import numpy as np
    import polars as pl

    from tests.fuzz import arrays, logs, seeds
    from tests.fuzz.mutate import as_json

    if name == "study files":
        return [seeds.toml_of(tree).encode() for tree in seeds.STUDIES.values()]
    if name == "rule text":
        return [
            b'0.2 <= "y" < 0.3 and x is missing',
            b"x in {1, 'a'} or y > -2e5",
            b"x <= current + 0.1",
            b"x = 1, y = a",
        ]
    if name == "CSV logs":
        return [seeds.csv_of(seeds.LOG).encode()]
    if name == "Parquet logs":
        stream = io.BytesIO()
        pl.DataFrame(logs.FRAME).write_parquet(stream, compression="uncompressed")
        return [stream.getvalue()]
    stored = {
        "policy .npy": [arrays.npy(array) for array in arrays.ARRAYS[:2]],
        "policy .npz": [arrays.npz([("policy.npy", arrays.npy(np.array([0, 1])))])],
        "policy .csv": [b"state,action\n0,1\n1,0\n", b"0.5,0.5\n1,0\n"],
        "policy .json": [as_json(tree) for tree in arrays.STORED],
        "policy .onnx": [arrays.ONNX],
        "patches": [as_json(tree) for tree in seeds.patches().values()],
        "result files": [as_json(tree) for tree in seeds.results().values()],
    }
    return stored[name]


if __name__ == "__main__":
    main(sys.argv[1:])
