"""The published schemas say what is written."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from polidiff.records.codec import SCHEMAS, to_dict
from polidiff.records.plan import CheckResult
from tests.report import extremes, samples
from tests.report.schemas import schema_text, schemas

PUBLISHED = Path(__file__).parents[2] / "docs" / "schema"
RECORDS = {
    "plain": samples.plain,
    "chain": samples.chain,
    "hostile": extremes.hostile,
    "frontier": samples.frontier,
    "rules": samples.rule_frontier,
    "patch": samples.patch,
    "check": lambda: CheckResult(False, ("too many",), ("few",)),
}


def published(name: str) -> dict:
    return json.loads((PUBLISHED / f"{name}-{SCHEMAS[name][1]}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", sorted(schemas()))
def test_the_published_schema_is_that_of_the_records(name):
    path = PUBLISHED / f"{name}-{SCHEMAS[name][1]}.json"
    assert path.read_text(encoding="utf-8") == schema_text(name), "run python -m tests.report.schemas docs/schema"
    jsonschema.Draft202012Validator.check_schema(published(name))


@pytest.mark.parametrize("name", RECORDS)
def test_what_is_written_is_valid(name):
    document = json.loads(json.dumps(to_dict(RECORDS[name]())))
    jsonschema.validate(document, published(document["schema"].removeprefix("polidiff/")))


def test_what_is_wrong_is_not_valid():
    document = json.loads(json.dumps(to_dict(samples.plain())))
    wrong = [
        {**document, "version": 2},
        {**document, "changes": "many"},
        {**document, "lead": "other"},
        {key: value for key, value in document.items() if key != "regions"},
    ]
    for case in wrong:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(case, published("explanation"))
