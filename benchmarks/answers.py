"""Does polidiff give the same answers as before?

A fixed set of small cases through the public names only: every example domain, CartPole, and logs of every kind. Each
case asks for explanations, evaluations and plans, and writes all that came back (records, text, Markdown, or the text
of the error) as one JSON document. Two folders of such documents are compared field by field::

    python -m benchmarks.answers run OUT            # every case, or --only NAME ...
    python -m benchmarks.answers compare OLD NEW    # exit 1 if an answer differs

Versions are left out. Numbers agree within a relative 1e-9, or an absolute 1e-12 for what is zero but for rounding.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy is first imported

import numpy as np

from benchmarks.answer_logs import LOGS, LogCase
from polidiff import Simulator, changelog, check, compare_forms, evaluate, explain, improve, load
from polidiff.domains import chain, frozen_lake, icu_sepsis, inventory, navigation, queues
from polidiff.rules import RuleClassifier

RELATIVE, ABSOLUTE = 1e-9, 1e-12
LEFT_OUT = frozenset({"version", "versions"})
VERSION_LINE = "version of "  # in Markdown
SHOWN = 120  # characters of a value that differs
Question = Callable[[], Any]
Options = Mapping[str, Any]
Difference = tuple[str, Any, Any]  # path, old value, new value


@dataclass(frozen=True, eq=False)
class Case:
    """A world, the policies to compare in it, and the options to ask with, by name."""

    world: Any
    current: Any
    proposed: Mapping[str, Any]
    explains: Mapping[str, Options] = field(default_factory=lambda: {"plain": {}})
    improves: Mapping[str, Options] = field(default_factory=dict)
    state: Any = None  # asked about with `Explanation.case`
    evaluates: Mapping[str, Options] = field(default_factory=lambda: {"plain": {}})
    more: Mapping[str, Question] = field(default_factory=dict)


# --- what comes back


def recorded(result: Any) -> dict[str, Any]:
    """The record of a result, its text and its Markdown, and whether it comes back from its file."""
    with tempfile.TemporaryDirectory() as folder:
        return {
            "record": result.to_dict(),
            "text": answered(lambda: str(result).splitlines()),
            "markdown": answered(lambda: page_lines(result.save(Path(folder) / "x.md"))),
            "loads": answered(lambda: load(result.save(Path(folder) / "x.json")).to_dict() == result.to_dict()),
        }


def page_lines(path: Path) -> list[str]:
    """Lines of a page, without those that tell versions."""
    return [line for line in path.read_text(encoding="utf-8").splitlines() if VERSION_LINE not in line]


def explained(case: Case, proposed: Any, options: Options) -> dict[str, Any]:
    """An explanation, what it says of one state, and whether it passes a gate."""
    explanation = explain(case.world, case.current, proposed, **options)
    asked = {} if case.state is None else {"case": answered(lambda: str(explanation.case(case.state)))}
    gate = {"check": answered(lambda: check(explanation, max_changes=1.0).to_dict())}
    return {**recorded(explanation), **asked, **gate}


def planned(world: Any, current: Any, options: Options) -> dict[str, Any]:
    """A frontier, and what its best plan is said to do."""
    frontier = improve(world, current, **options)
    best = answered(lambda: str(frontier.best.explanation).splitlines())
    achieved = answered(lambda: evaluate(world, frontier.best.policy).to_dict())
    return {**recorded(frontier), "best explained": best, "best evaluated": achieved}


def answered(question: Question) -> Any:
    """The answer, or the text of the error."""
    try:
        return question()
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def questions(case: Case) -> dict[str, Question]:
    """Everything that is asked of a case."""
    asked: dict[str, Question] = {}
    for name, proposed in case.proposed.items():
        for how, options in case.explains.items():
            asked[f"explain {name}, {how}"] = partial(explained, case, proposed, options)
    for name, policy in {"current": case.current, **case.proposed}.items():
        for how, options in case.evaluates.items():
            asked[f"evaluate {name}, {how}"] = partial(evaluated, case.world, policy, options)
    for how, options in case.improves.items():
        asked[f"improve {how}"] = partial(planned, case.world, case.current, options)
    return {**asked, **case.more}


def evaluated(world: Any, policy: Any, options: Options) -> Any:
    """What a policy achieves."""
    return evaluate(world, policy, **options).to_dict()


# --- cases


def chain_case(slip: float) -> Case:
    """Twelve states without features."""
    world, proposed = chain.world(slip), chain.proposed()
    steps = (chain.current(), np.where(np.arange(12) == 5, 1, 0), proposed)
    improves = {
        "plain": {},
        "candidates": {"candidates": [proposed]},
        "budget": {"budget": 0.5},
        "total": {"unit": "total", "budget": 2},
        "states": {"max_states": 1},
        "rules": {"max_rules": 2},
        "keep": {"keep": '"trajectory length"<=current+0.3'},
        "freeze": {"freeze": np.arange(12) == 5},
        "freeze by name": {"freeze": "state = s5"},
        "unknown unit": {"unit": "pounds"},
    }
    explains = {"plain": {}, "paper": {"style": "paper"}, "one rule": {"max_rules": 1}}
    more = {
        "changelog": lambda: [recorded(entry) for entry in changelog(world, list(steps))],
        "forms": lambda: [str(score) for score in compare_forms(world, chain.current(), proposed)],
    }
    return Case(world, chain.current(), {"proposed": proposed}, explains, improves, "s1", more=more)


def navigation_case() -> Case:
    """The continuous task as a vectorised model."""
    both = [navigation.proposed_1, navigation.proposed_2]
    improves = {
        "candidates": {"candidates": both},
        "candidates, budget": {"candidates": both, "budget": 1.5},
        "candidates, regions": {"candidates": both, "max_rules": 1},
        "candidates, keep": {"candidates": both, "keep": '"stay in the desired region">=current-2'},
        "candidates, freeze": {"candidates": both, "freeze": "y > 0.3"},
        "total": {"candidates": both, "unit": "total"},
        "rules": {"max_rules": 2},
        "rules, freeze": {"max_rules": 1, "freeze": "y > 0.3"},
    }
    explains = {"plain": {"starts": 500}, "paper": {"style": "paper", "starts": 500}, "one rule": {"max_rules": 1}}
    proposed = {"1": navigation.proposed_1, "2": navigation.proposed_2}
    short = {"horizon": 5, "episodes": 200, "level": 0.8, "seed": 3}
    evaluates: dict[str, Options] = {"plain": {}, "short": short}
    return Case(navigation.world(), navigation.current, proposed, explains, improves, [0.05, 0.05], evaluates)


def feature_table(world: Any, current: Any, proposed: Any, keep: str, freeze: str, **common: Any) -> Case:
    """The questions asked of a table with features; `common` options go with plans that are not rules."""
    improves = {
        "plain": common,
        "budget": {**common, "budget": 1.0},
        "total": {**common, "unit": "total", "budget": 2},
        "states": {**common, "max_states": 2},
        "rules": {"max_rules": 2},
        "rules, keep": {"max_rules": 2, "keep": keep},
        "rules, freeze": {"max_rules": 2, "freeze": freeze, "max_conditions": 2},
        "candidates, keep": {**common, "candidates": [proposed], "keep": keep},
        "freeze": {**common, "freeze": freeze, "budget": 2.0},
        "unknown feature": {"freeze": "nowhere > 3"},
    }
    explains = {"plain": {}, "two rules": {"max_rules": 2}, "paper": {"style": "paper"}}
    return Case(world, current, {"proposed": proposed}, explains, improves, 0)


def navigation_table() -> Case:
    """The continuous task as an exact table."""
    world, rows = navigation.table(4), np.arange(81)
    cells = np.column_stack([rows // 4 % 10 + 0.5, rows % 4 + 0.5]) / 10
    stay = '"stay in the desired region">=current-2'
    proposed = navigation.proposed_2(cells)
    return feature_table(world, navigation.current(cells), proposed, stay, "y > 0.3", candidates=[proposed])


def lake_case() -> Case:
    """The lake of four by four cells."""
    proposed = np.array([0, 3, 3, 3, 0, 0, 0, 0, 3, 1, 0, 0, 0, 2, 1, 0])
    return feature_table(frozen_lake.world(4), frozen_lake.current(4), proposed, "return>=current", "row < 1")


def inventory_case() -> Case:
    """Stock with orders as ordered actions."""
    world, current = inventory.world(4, 4, 2), inventory.current(4, 4, 2)
    proposed = np.append(np.repeat([2, 2, 1, 0, 0], 9), 0)
    return feature_table(world, current, proposed, "return>=current", "season = 2", gap=0.02, max_states=3)


def queue_case() -> Case:
    """Two queues, with actions that are not always allowed."""
    current = queues.current(2)
    proposed = np.where((current == 0) & (np.arange(len(current)) // 9 > 0), 2, current)
    return feature_table(queues.world(2), current, proposed, "return>=current", "class = 2")


def sepsis_case() -> Case:
    """Treating sepsis, with budgets that are small."""
    guards = {"keep": '"length of stay"<=current', "freeze": "SOFA > 10"}
    improves = {
        "budget": {"budget": 0.05, "gap": 0.2},
        "rule": {"max_rules": 1, "max_conditions": 1},
        "rule, keep and freeze": {"max_rules": 1, "max_conditions": 1, **guards},
    }
    explains = {"plain": {}, "three rules": {"max_rules": 3}}
    return Case(icu_sepsis.world(), icu_sepsis.current(), {"proposed": icu_sepsis.proposed()}, explains, improves, 7)


def by_angle(states: Any) -> Any:
    """Push to where the pole leans."""
    return (np.asarray(states)[:, 2] > 0).astype(int)


def by_angle_and_speed(states: Any) -> Any:
    """Push to where the pole is about to lean."""
    states = np.asarray(states)
    return (states[:, 2] + 0.5 * states[:, 3] > 0).astype(int)


def cart_pole_case() -> Case:
    """A Gymnasium environment that is stepped."""
    world = Simulator("CartPole-v1", horizon=60)
    improves = {
        "candidates": {"candidates": [by_angle_and_speed]},
        "candidates, budget": {"candidates": [by_angle_and_speed], "budget": 3.0},
        "rules": {"max_rules": 1, "max_conditions": 1},
    }
    few = {"max_steps": 20_000, "starts": 20}
    explains = {"plain": few, "two rules": {**few, "max_rules": 2}}
    evaluates = {"plain": {"episodes": 100}}
    proposed = {"proposed": by_angle_and_speed}
    return Case(world, by_angle, proposed, explains, improves, [0.0, 0.0, 0.02, -0.5], evaluates)


def classifier_answers() -> dict[str, Any]:
    """Rules learned from labelled rows."""
    rng = np.random.default_rng(5)
    rows = rng.uniform(size=(800, 3))
    labels = np.where((rows[:, 0] < 0.3) & (rows[:, 1] > 0.5), "a", np.where(rows[:, 2] > 0.8, "b", "c"))
    learned = RuleClassifier().fit(rows, labels)
    return {"predicted": learned.predict(rows).tolist(), "score": float(learned.score(rows, labels))}


def log_case(found: LogCase) -> Case:
    """The questions asked of every log: against a current policy and against the one that wrote the log."""
    log, offered = found.log, {"candidates": [found.proposed]}
    improves = {
        "plain": {},
        "candidates": offered,
        "candidates, budget": {**offered, "budget": 0.5},
        "candidates, keep": {**offered, "keep": found.keep},
        "candidates, freeze": {**offered, "freeze": found.freeze},
        "candidates, one rule": {**offered, "max_rules": 1},
        "rules": {"max_rules": 2},
        "rules, keep": {"max_rules": 1, "keep": found.keep},
        "rules, freeze": {"max_rules": 1, "freeze": found.freeze},
        "states": {"max_states": 1},
        "total": {"unit": "total"},
        "pessimism": {"pessimism": 1.0},
    }
    explains = {"plain": {}, "two rules": {"max_rules": 2}, "level 0.8": {"level": 0.8, "seed": 1}}
    more: dict[str, Question] = {
        "explain from the log": lambda: recorded(explain(log, "log", found.proposed)),
        "evaluate the log": lambda: evaluate(log, "log").to_dict(),
        "improve the log": lambda: planned(log, "log", {"max_rules": 1}),
    }
    return Case(log, found.current, {"proposed": found.proposed}, explains, improves, found.state, more=more)


CASES: dict[str, Callable[[], dict[str, Question]]] = {
    "chain": lambda: questions(chain_case(0.0)),
    "slippery_chain": lambda: questions(chain_case(0.1)),
    "navigation": lambda: questions(navigation_case()),
    "navigation_table": lambda: questions(navigation_table()),
    "frozen_lake": lambda: questions(lake_case()),
    "inventory": lambda: questions(inventory_case()),
    "queues": lambda: questions(queue_case()),
    "icu_sepsis": lambda: questions(sepsis_case()),
    "cart_pole": lambda: questions(cart_pole_case()),
    "classifier": lambda: {"rules": classifier_answers},
    **{f"log_{name}": lambda made=made: questions(log_case(made())) for name, made in LOGS.items()},
}


# --- run and compare


def answer(name: str) -> dict[str, Any]:
    """Every answer of a case, and the seconds of computing that each took."""
    answers, seconds, begin = {}, {}, time.process_time()
    asked = answered(CASES[name])
    if "error" in asked:
        return {"case": name, "seconds": {}, "answers": asked}
    seconds["the case itself"] = time.process_time() - begin
    for question, ask in asked.items():
        begin = time.process_time()
        answers[question] = answered(ask)
        seconds[question] = round(time.process_time() - begin, 3)
    return {"case": name, "seconds": seconds, "answers": answers}


def write_answers(folder: Path, names: Sequence[str]) -> None:
    """One JSON document per case."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        document = answer(name)
        text = json.dumps(document, indent=1, ensure_ascii=False, default=str)
        (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        print(f"{name}: {len(document['answers'])} answers, {sum(document['seconds'].values()):.1f} s", flush=True)


def differences(old: Any, new: Any, path: str = "", within: float = ABSOLUTE) -> Iterator[Difference]:
    """Where two documents differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            if key not in LEFT_OUT:
                yield from differences(old.get(key, "absent"), new.get(key, "absent"), f"{path}/{key}", within)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from differences(one, other, f"{path}/{place}", within)
    elif not same(old, new, within):
        yield path, old, new


def same(old: Any, new: Any, within: float = ABSOLUTE) -> bool:
    """Whether two values agree; numbers within the tolerance."""
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in (old, new))
    if numbers and isinstance(old, float) | isinstance(new, float):
        return math.isclose(old, new, rel_tol=RELATIVE, abs_tol=within) or (math.isnan(old) and math.isnan(new))
    return type(old) is type(new) and old == new


def compare(old: Path, new: Path, within: float) -> int:
    """Print every difference and how many each case has; 1 if there is one."""
    counts: Counter[str] = Counter()
    names = sorted({path.stem for folder in (old, new) for path in folder.glob("*.json")})
    for name in names:
        before, after = (read_answers(folder / f"{name}.json") for folder in (old, new))
        for path, one, other in differences(before, after, name, within):
            counts[name] += 1
            print(f"{path}\n  old: {shown(one)}\n  new: {shown(other)}")
    for name in names:
        print(f"{name}: {counts[name]} differences")
    print(f"{counts.total()} differences in {len(counts)} of {len(names)} cases")
    return 1 if counts or not names else 0


def read_answers(path: Path) -> Any:
    """The answers of a document; "absent" if there is none."""
    return json.loads(path.read_text(encoding="utf-8"))["answers"] if path.exists() else "absent"


def shown(value: Any) -> str:
    """A value in one short line."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text)} characters)"


def main(arguments: Sequence[str]) -> int:
    """Run the cases, or compare two runs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.answers", description="The same answers as before?")
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run", help="write one document per case")
    running.add_argument("folder", type=Path)
    running.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES), metavar="NAME")
    comparing = commands.add_parser("compare", help="exit 1 if an answer differs")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    comparing.add_argument("--within", type=float, default=ABSOLUTE, help="absolute difference that is none")
    given = parser.parse_args(arguments)
    if given.command == "compare":
        return compare(given.old, given.new, given.within)
    write_answers(given.folder, given.only)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
