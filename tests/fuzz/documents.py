"""Study files, result files and patches: valid ones with a branch cut, swapped or replaced, and with damaged bytes."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from polidiff import as_policy, check, explain, load
from polidiff.cli.loading import load_policy, load_world
from polidiff.cli.results import lines, load_patch
from polidiff.cli.study import Study, read_study
from polidiff.errors import PolidiffError
from polidiff.records.codec import dumps, from_dict
from polidiff.records.explanation import Explanation
from polidiff.records.plan import Frontier
from polidiff.report import answers
from polidiff.report.markdown import markdown
from tests.fuzz import seeds
from tests.fuzz.judge import FailureError, written
from tests.fuzz.mutate import as_json, mostly_whole, mutated


def enter_study(content: bytes, folder: Path) -> None:
    """Read and loaded; in one case of three explained, if its world is a table."""
    read = read_study(written(folder, "study.toml", content), {})
    study = Study(read.values, seeds.folder(), read.source)
    world = load_world(study)
    policies = [load_policy(study, role, world) for role in ("current", "proposed")]
    options = study.section("options")
    if world.kind == "table" and len(content) % 3 == 0:
        str(explain(world, *policies, **options))


def _toml(tree: Any) -> bytes:
    return seeds.toml_of(tree).encode("utf-8", "replace")


studies = mostly_whole(
    st.sampled_from(sorted(seeds.STUDIES)).flatmap(lambda name: mutated(seeds.STUDIES[name])).map(_toml)
)


def enter_result(content: bytes, folder: Path) -> None:
    """Everything that commands do with a result that was read, but for drawing it."""
    record = load(written(folder, "result.json", content))
    text = dumps(record)
    if dumps(from_dict(json.loads(text))) != text:
        raise FailureError("a result that changes when it is written and read", text)
    str(record)
    if isinstance(record, Explanation):
        markdown(record)
        str(check(record))
        for question in _questions(record):
            with contextlib.suppress(PolidiffError):
                str(question())
    if isinstance(record, Frontier):
        markdown(record)
        record.to_frame()
        record.at(1e9)


def _questions(record: Explanation) -> Iterator[Any]:
    features = [feature.name for feature in record.world.features]
    for action in record.world.actions[:2]:
        yield lambda: answers.when(record, action.name)  # noqa: B023  (asked at once)
    for region in record.regions[:2]:
        yield lambda: answers.why_not(record, region.current, region.id)  # noqa: B023
    for name in features[:2]:
        yield lambda: answers.what_if(record, f'"{name}" < 0.5')  # noqa: B023
    yield lambda: record.case(dict.fromkeys(features, 0.25))
    yield lambda: record.case(dict.fromkeys(features, "word"))


def _mutated_one(trees: Any) -> st.SearchStrategy[bytes]:
    """One of the trees that a function gives, made wrong; they are made when first needed."""
    chosen = st.deferred(lambda: st.sampled_from(sorted(trees())).flatmap(lambda name: mutated(trees()[name])))
    return mostly_whole(chosen.map(as_json))


results = _mutated_one(seeds.results)
patches = _mutated_one(seeds.patches)


def enter_patch(content: bytes, folder: Path) -> None:
    """Read, written in words, Python and SQL, applied and undone."""
    patch = load_patch(written(folder, "patch.json", content))
    for form in ("text", "python", "sql"):
        told = "\n".join(lines(patch, form))
        around = 3 if form == "sql" and len(patch) else 0  # CASE, ELSE, END
        if len(told.splitlines()) != max(len(patch.joined) + around, 1):
            raise FailureError("an edit that is not one line", told)
    count = len(patch.actions) or 2
    base = as_policy(np.arange(12) % min(count, 2), n_actions=count)
    for made in (patch.apply(base), patch.undo(base)):
        table = made.probabilities(np.arange(12))
        if table.shape != (12, count) or not np.allclose(table.sum(axis=1), 1.0):
            raise FailureError("a patched policy whose rows do not sum to 1", str(table))
