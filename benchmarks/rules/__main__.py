"""Run the sections named on the command line (all if none) and keep their results."""

from __future__ import annotations

import json
import sys

from benchmarks.rules import ROOT, SECTIONS, run_section

names = [name for name in sys.argv[1:] if not name.startswith("-")] or list(SECTIONS)
target = ROOT / "benchmarks" / "results" / "rules.json"
for name in names:
    found = run_section(name, "--smoke" in sys.argv)
    print(json.dumps({name: found}, indent=1))
    if "--smoke" not in sys.argv:
        kept = json.loads(target.read_text()) if target.exists() else {}
        target.parent.mkdir(exist_ok=True)
        target.write_text(json.dumps(kept | {name: found}, indent=1) + "\n")
