"""Run all benchmarks, or those named, and keep what they return.

::

    python -m benchmarks                    # every benchmark at full size -> benchmarks/results/<name>.json
    python -m benchmarks rollouts rules     # these two
    python -m benchmarks --smoke            # every case once, at its smallest size; nothing is kept
"""

from __future__ import annotations

import argparse
import json
import os
import pkgutil
import platform
import sys
import time
import traceback
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # ratios of work, not of threads; read when numpy is first imported

HERE = Path(__file__).resolve().parent
LIBRARIES = ("numpy", "scipy", "highspy", "scikit-learn", "polars", "joblib", "gymnasium")
SEED = 0


def benchmarks() -> dict[str, Any]:
    """Modules with a function `run`, by name."""
    names = sorted(found.name for found in pkgutil.iter_modules([str(HERE)]) if found.name != "__main__")
    modules = {name: import_module(f"benchmarks.{name}") for name in names}
    return {name: module for name, module in modules.items() if callable(getattr(module, "run", None))}


def circumstances() -> dict[str, Any]:
    """What a figure depends on beside the code."""
    installed = {}
    for library in LIBRARIES:
        try:
            installed[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            continue
    return {
        "machine": {"processor": _processor(), "cores": os.cpu_count(), "system": platform.system()},
        "versions": {"python": platform.python_version(), **installed},
        "seed": SEED,
    }


def main(arguments: list[str]) -> int:
    """Run what was asked for; 1 if a benchmark failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Run benchmarks and keep their results.")
    parser.add_argument("names", nargs="*", help="which ones; all if none is named")
    parser.add_argument("--smoke", action="store_true", help="every case once, at its smallest size; keep nothing")
    options = parser.parse_args(arguments)
    known = benchmarks()
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"unknown benchmark {unknown[0]!r}; there are {', '.join(known)}")
    failed = [name for name in options.names or known if not _run(name, known[name], options.smoke)]
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _run(name: str, module: Any, smoke: bool) -> bool:
    begin = time.perf_counter()
    try:
        results = module.run(smoke)
        text = json.dumps({**circumstances(), **results}, indent=1, ensure_ascii=False) + "\n"
    except Exception:
        traceback.print_exc()
        return False
    if not smoke:
        target = HERE / "results" / f"{name}.json"
        target.parent.mkdir(exist_ok=True)
        target.write_text(text, encoding="utf-8")
    print(f"{name}: done in {time.perf_counter() - begin:.1f} s", file=sys.stderr)
    return True


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
