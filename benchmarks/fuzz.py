"""Does anything that comes in from outside make polidiff fail in a way it does not mean to?

At every door (study files, results, patches, rule text, policies, tables, logs, questions, reports, the command line)
10,000 documents that are nearly right: valid ones with a branch cut, swapped, renamed or replaced, or with damaged
bytes. Each is accepted, or refused in one line; a traceback, a warning, a second line, five seconds of computing or a
gigabyte of memory are failures. Where ``POLIDIFF_ATHERIS`` names a Python with atheris, bytes are also searched for
with its help, guided by which lines of the code they reach.

Every door is tried in processes of its own, so that its memory is its own, and so that a crash is seen.
``POLIDIFF_DOORS=patches,reports`` tries these again and keeps what was recorded of the others;
``POLIDIFF_SEED=3000000`` tries other cases, ``POLIDIFF_RUN_WITH=nice`` is put before every process. What came of each
part is told on stderr as soon as it has ended::

    POLIDIFF_DOORS="whole studies" POLIDIFF_SEED=3000000 POLIDIFF_RUN_WITH="nice -n 10" python -m benchmarks fuzz
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

CASES = 10_000
PART = 500  # cases of one process
SEED = 20_261
ROOT = Path(__file__).resolve().parent.parent
MOST_MEMORY = 1_000  # megabytes that a door may take above what it has after its first cases


def run(smoke: bool) -> dict[str, Any]:
    """Cases, what came of them, time, memory and failures of every door."""
    from tests.fuzz.doors import DOORS

    count = 20 if smoke else CASES
    asked = os.environ.get("POLIDIFF_DOORS")
    tried = {name: _told(name, _alone(name, count)) for name in (asked.split(",") if asked else DOORS)}
    python = os.environ.get("POLIDIFF_ATHERIS")
    guided = {"guided by coverage": _guided(python)} if python and not smoke else {}
    kept = _recorded() if asked and not smoke else {"doors": {}}
    doors = {name: (kept["doors"] | tried)[name] for name in DOORS if name in kept["doors"] or name in tried}
    return {**kept, "settings": {"cases per door": count, "seed": SEED}, "doors": doors, **guided}


def _recorded() -> dict[str, Any]:
    """What was found before."""
    place = ROOT / "benchmarks" / "results" / "fuzz.json"
    found: dict[str, Any] = json.loads(place.read_text(encoding="utf-8")) if place.exists() else {"doors": {}}
    return {key: found[key] for key in ("doors", "guided by coverage") if key in found}


def _told(name: str, found: dict[str, Any]) -> dict[str, Any]:
    print(f"{name}: {json.dumps(found, ensure_ascii=False)[:3_000]}", file=sys.stderr, flush=True)
    return found


def _alone(name: str, count: int) -> dict[str, Any]:
    """One door, in processes of at most `PART` cases with seeds of their own."""
    first = int(os.environ.get("POLIDIFF_SEED", SEED))
    parts = [_part(name, min(PART, count - begin), first + begin) for begin in range(0, count, PART)]
    return {**merged(parts), "first seed": first}


def merged(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """What came of several parts of a door, which may have been run apart."""
    failures: dict[str, int] = {}
    for kind, times in (entry for part in parts for entry in part["failures"].items()):
        failures[kind] = failures.get(kind, 0) + times
    return {
        **{key: sum(part.get(key, 0) for part in parts) for key in ("cases", "accepted", "refused")},
        "failures": failures,
        "examples": {kind: case for part in parts for kind, case in part["examples"].items()},
        "seconds of computing": round(sum(part.get("seconds", 0.0) for part in parts), 1),
        "slowest case, seconds": max(part.get("slowest", 0.0) for part in parts),
        "memory above the first cases, MB": max(part.get("memory", 0) for part in parts),
    }


def _part(name: str, count: int, seed: int) -> dict[str, Any]:
    before = os.environ.get("POLIDIFF_RUN_WITH", "").split()
    words = [*before, sys.executable, "-m", "benchmarks.fuzz", name, str(count), str(seed)]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)  # failures are told at once
    if done.returncode:
        return {"failures": {f"the process ended with {done.returncode}": 1}, "examples": {}}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return _told(f"{name}, from {seed}", found)


def _guided(python: str) -> dict[str, Any]:
    """Inputs found by following which lines are reached."""
    words = [*os.environ.get("POLIDIFF_RUN_WITH", "").split(), python, "-m", "tests.fuzz.guided", str(CASES)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the guided search ended with {done.returncode}: {done.stderr[-2_000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def one_part(name: str, count: int, seed: int) -> dict[str, Any]:
    """What came of `count` cases at a door, in this process."""
    import resource

    from tests.fuzz.doors import DOORS
    from tests.fuzz.judge import try_door

    try_door(DOORS[name], 20, start=1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tally = try_door(DOORS[name], count, start=seed)
    taken = round((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1_024)
    too_much = {f"more than {MOST_MEMORY} MB of memory": 1} if taken > MOST_MEMORY else {}
    return {
        "cases": tally.cases,
        "accepted": tally.accepted,
        "refused": tally.refused,
        "failures": dict(tally.failures) | too_much,
        "examples": tally.examples,
        "seconds": tally.seconds,
        "slowest": round(tally.slowest, 2),
        "memory": taken,
    }


if __name__ == "__main__":
    print(json.dumps(one_part(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])), ensure_ascii=False))
