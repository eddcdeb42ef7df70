"""Options are declared once: Python, the study file and the command line take the same keys with the same defaults."""

from __future__ import annotations

import inspect
import re

import polars as pl
import pytest

from polidiff import Log, api, explain, improve
from polidiff.cli import studies
from polidiff.cli.options import FLAGS
from polidiff.cli.study import SECTIONS, WORLDS
from polidiff.domains import chain, frozen_lake
from polidiff.errors import InvalidOptionError
from polidiff.options import CheckOptions, EvaluateOptions, ExplainOptions, ImproveOptions, declarations

VERBS = {
    api.explain: ExplainOptions,
    api.improve: ImproveOptions,
    api.evaluate: EvaluateOptions,
    api.check: CheckOptions,
}
COMMANDS = {
    studies.explain_command: (ExplainOptions,),
    studies.improve_command: (ImproveOptions,),
    studies.check_command: (ExplainOptions, CheckOptions),
}
SHARED = {"outcomes"}  # [[outcomes]] of a study


def keys(record, door):
    return {name: declared for name, _, declared in declarations(record) if declared.only in (None, door)}


@pytest.mark.parametrize("verb", VERBS)
def test_the_arguments_of_a_verb_are_its_declared_options_with_their_defaults(verb):
    arguments = inspect.signature(verb).parameters.values()
    spoken = {a.name: a.default for a in arguments if a.kind is a.KEYWORD_ONLY and a.name not in SHARED}
    assert spoken == {name: default for name, default, _ in declarations(VERBS[verb])}


@pytest.mark.parametrize("verb", VERBS)
def test_the_arguments_of_a_verb_have_the_declared_types(verb):
    spoken = inspect.get_annotations(verb)
    declared = inspect.get_annotations(VERBS[verb])
    assert {name: spoken[name] for name in declared} == declared


def test_the_keys_of_a_study_are_the_declared_options():
    declared: dict[str, set[str]] = {}
    for record in {record for records in COMMANDS.values() for record in records}:
        for name, option in keys(record, "study").items():
            declared.setdefault(option.section or record.section, set()).add(name)
    assert {name: set(known) for name, known in SECTIONS.items() if name != "policies"} == declared


@pytest.mark.parametrize("command", COMMANDS)
def test_the_flags_of_a_command_are_the_declared_options(command):
    flags = {parameter.name for parameter in command.params}
    shared = {"study", "settings", "trust", "workers", "engine", "address", "work_folder"}
    here = {"as_json", "output", "report", "quiet", "verbose", "patch", "junit"}
    declared = {name for record in COMMANDS[command] for name in keys(record, "study")}
    assert flags - shared - here - set(FLAGS) == declared


@pytest.mark.parametrize("command", COMMANDS)
def test_a_flag_tells_the_declared_default_and_gives_nothing_unless_it_is_given(command):
    declared = {
        name: default for record in COMMANDS[command] for name, default, option in declarations(record)
        if option.only != "python"
    }  # fmt: skip
    given = command.make_context("polidiff", ["study.toml"], help_option_names=["-h", "--help"]).params
    for parameter in command.params:
        if parameter.name in declared:
            assert not given[parameter.name]
            told = re.search(r"\[default: (.*)\]", parameter.help)
            assert told is None or told[1] == str(declared[parameter.name])


def test_policies_and_worlds_of_a_study_have_flags():
    keys = [key.split(".") for key, _, _ in FLAGS.values()]
    assert {key for section, key in (key for key in keys if key[0] == "policies")} == set(SECTIONS["policies"])
    assert {kind for _, kind, _ in (key for key in keys if key[0] == "world")} == set(WORLDS)


@pytest.mark.parametrize(
    ("record", "values", "message"),
    [
        (ExplainOptions, {"level": 95}, "level must be between 0 and 1, such as 0.95; got 95"),
        (ExplainOptions, {"max_rules": 0}, "max_rules must be a whole number of at least 1; got 0"),
        (ExplainOptions, {"style": "terse"}, "style must be 'plain' or 'paper'; got 'terse'"),
        (ImproveOptions, {"seed": True}, "seed must be a whole number of at least 0; got True"),
        (ImproveOptions, {"budget": float("nan")}, "budget must be a number of changes, 0 or more; got nan"),
        (ImproveOptions, {"keep": 5}, "keep must be a guard such as 'mortality<=current', or a list of guards; got 5"),
        (ImproveOptions, {"freeze": (5,)}, "a list of these, or a mask of states; got (5,)"),
        (
            ImproveOptions,
            {"min_support": "3"},
            "min_support must be a whole number of at least 1 (a count) or a share below 1; got '3'",
        ),
        (ImproveOptions, {"change_cost": "a"}, "change_cost must be a number, or numbers by action or by state and"),
        (ImproveOptions, {"moves": 5}, "moves must be 'actions', 'levels' or a list of moves; got 5"),
        (CheckOptions, {"allow_unknown": "no"}, "allow_unknown must be True or False; got 'no'"),
        (CheckOptions, {"max_changes": -1}, "max_changes must be a number of changes, 0 or more; got -1"),
        (
            CheckOptions,
            {"keep": None},
            "keep must be a guard such as 'mortality<=current', or a list of guards; got None",
        ),
    ],
)
def test_a_record_of_options_refuses_what_it_does_not_take(record, values, message):
    with pytest.raises(InvalidOptionError, match=re.escape(message)):
        record(**values)


@pytest.mark.parametrize("verb", ["explain", "explain a log", "improve by rules"])
def test_a_seed_may_be_longer_than_libraries_take(verb):
    long = 2**100
    if verb == "explain":
        assert explain(chain.world(), chain.current(), chain.proposed(), seed=long).regions
    elif verb == "explain a log":
        rows = [(float(k % 10), k % 3 % 2, float(k % 3)) for k in range(120)]
        log = Log(pl.DataFrame(rows, schema=["x", "do", "pays"], orient="row"), state=["x"], action="do", reward="pays")
        assert explain(log, "log", "always:1", seed=long).methods.seed == long
    else:
        assert len(improve(frozen_lake.world(4), frozen_lake.current(4), max_rules=1, seed=long)) >= 1
