"""``polidiff improve``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from polidiff.cli.flags import IMPROVE, as_study
from polidiff.cli.options import FILE, from_study, together, writing
from polidiff.cli.work import deliver, progress, remark

improving = together(
    click.option(
        "--candidate", "candidates", multiple=True, metavar="POLICY", help="Where changes may come from; repeat."
    ),
    click.option("--budget", type=float, help="Most changed decisions."),
    click.option("--unit", type=click.Choice(["expected", "total"]), help="Per episode, or summed over starts."),
    click.option("--max-states", type=int, help="Most changed states."),
    click.option("--max-rules", type=int, help="Most rules to read."),
    click.option("--max-conditions", type=int, help="Most conditions in a rule.  [default: 3]"),
    click.option("--max-literals", type=int, help="Most comparisons in all rules."),
    click.option("--moves", help="What a rule may do.  [default: actions]"),
    click.option("--fallback", help="What happens where a move is impossible.  [default: keep]"),
    click.option(
        "--min-support", type=float, help="Fewest records behind a change, or (below 1) share of visits behind a rule."
    ),
    click.option("--keep", multiple=True, metavar="GUARD", help='Such as "mortality<=current+0.01"; repeat.'),
    click.option(
        "--freeze", multiple=True, metavar="RULE", help='Never change where this holds, such as "map<55"; repeat.'
    ),
    click.option("--gap", type=float, help="How far from proven best is good enough.  [default: 0.001]"),
    click.option("--time-limit", type=float, help="Seconds; gives up same seed, same bytes."),
    click.option("--level", type=float, help="Of intervals.  [default: 0.95]"),
    click.option("--seed", type=int, help="Same seed, same bytes.  [default: 0]"),
    click.option("--patch", type=FILE, help="Write the best plan as a patch (.json)."),
)


@click.command()
@from_study
@improving
@writing
def command(
    study: Path | None,
    trust: bool,
    as_json: bool,
    output: Path | None,
    report: Path | None,
    patch: Path | None,
    quiet: bool,
    verbose: bool,
    level: float | None,
    seed: int | None,
    **given: Any,
) -> None:
    """Find the few changes to the current policy that pay most, for every budget, each plan with its proof.

    \b
    Examples:
      polidiff improve study.toml --budget 2
      polidiff improve study.toml --max-rules 2 --keep "mortality<=current" --freeze "map<55"
      polidiff improve study.toml --report plans.html --patch best.json
    """
    from polidiff.cli.loading import load_policy, load_world, policy_named, with_origin
    from polidiff.cli.study import read_study

    shared = {name: value for name, value in (("level", level), ("seed", seed)) if value is not None}
    read = read_study(study, {**as_study(given, options=IMPROVE, section="improve"), "options": shared})
    settings = {**_from_options(read.section("options")), **read.section("improve")}
    with progress(quiet):
        from polidiff.api import improve

        world = load_world(read, trust=trust)
        remark(f"world: {world.kind}, {len(world.actions)} actions", verbose=verbose)
        current = load_policy(read, "current", world, trust=trust)
        names = read.section("policies").get("candidates", [])
        candidates = [policy_named(name, read, world, trust=trust) for name in names] or None
        frontier = with_origin(improve(world, current, candidates, **settings), read)
    if patch is not None:
        frontier.best.patch.save(patch)
    deliver(frontier, as_json=as_json, output=output, report=report, quiet=quiet)


def _from_options(options: dict[str, Any]) -> dict[str, Any]:
    """What `improve` takes from [options], which is written for `explain`."""
    return {key: options[key] for key in ("level", "seed") if key in options}
