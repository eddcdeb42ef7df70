"""Run the sections named on the command line (all if none) and keep their results."""

from __future__ import annotations

import json
import sys

from benchmarks.rules import ROOT, SECTIONS, run_section

names = [name for name in sys.argv[1:] if not name.startswith("-")] or list(SECTIONS)
target = ROOT / "benchmarks" / "results" / "rules.json"
results = json.loads(target.read_text()) if target.exists() else {}
for name in names:
    results[name] = run_section(name, "--smoke" in sys.argv)
    if "--smoke" not in sys.argv:
        target.parent.mkdir(exist_ok=True)
        target.write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps({name: results[name]}, indent=1))
