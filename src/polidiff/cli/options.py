"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])
FILE = click.Path(path_type=Path, dir_okay=False)


def together(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Several options as one decorator, shown in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


speaking = together(
    click.option("-q", "--quiet", is_flag=True, help="No progress, no remarks."),
    click.option("-v", "--verbose", is_flag=True, help="Say what is done, on stderr."),
)

writing = together(
    click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout instead of text."),
    click.option("-o", "--output", type=FILE, help="Write the result: .json, .html, .md, .png or .svg."),
    click.option("--report", type=FILE, help="Write the page that people forward (.html)."),
    speaking,
)


def _kept(context: click.Context, option: click.Parameter, value: Any) -> Any:
    """Keep how the work is to be done for `work.progress`; what is worked out does not depend on it."""
    context.meta[f"polidiff.{option.name}"] = value
    return value


working = together(
    click.option("--workers", type=int, callback=_kept, expose_value=False, help="Processes to share long work."),
    click.option(
        "--engine",
        type=click.Choice(["loky", "dask", "ray"]),
        callback=_kept,
        expose_value=False,
        help="Who runs them.  [default: loky]",
    ),
    click.option(
        "--address", metavar="HOST:PORT", callback=_kept, expose_value=False, help="Of a Dask or Ray cluster."
    ),
    click.option(
        "--work-folder",
        type=click.Path(path_type=Path, file_okay=False),
        callback=_kept,
        expose_value=False,
        help="Keep what was read of a Parquet log; go on from there.",
    ),
)

from_study = together(
    click.argument("study", required=False, type=click.Path(path_type=Path, dir_okay=False)),
    click.option("--env", metavar="ID", help="A Gymnasium environment.  [world.gymnasium.id]"),
    click.option("--log", metavar="PATH", help="Past decisions, CSV or Parquet.  [world.log.path]"),
    click.option("--table", metavar="FILE", help="A known table, .npz.  [world.table.path]"),
    click.option("--world", metavar="MODULE:FUNCTION", help="A function that makes the world.  [world.function.name]"),
    click.option("--state", multiple=True, metavar="COLUMN", help="State of a log; repeat for several columns."),
    click.option("--action", metavar="COLUMN", help="Action of a log."),
    click.option("--episode", metavar="COLUMN", help="Episode of a log."),
    click.option("--step", metavar="COLUMN", help="Order within an episode of a log."),
    click.option("--reward", metavar="COLUMN", help="Reward of a log."),
    click.option("--terminated", metavar="COLUMN", help="End of an episode of a log."),
    click.option("--skip-bad", is_flag=True, help="Leave out parts of a log that cannot be read."),
    click.option("--horizon", type=int, help="Decisions per episode of an environment."),
    click.option("--current", metavar="POLICY", help="Policy in use: a file, MODULE:FUNCTION, or log."),
    click.option("--trust", is_flag=True, help="Let files and modules named here run their code."),
    working,
)

explaining = together(
    click.option("--proposed", metavar="POLICY", help="The other policy: file, patch or MODULE:FUNCTION."),
    click.option(
        "--rule", "rules", multiple=True, metavar="RULE", help='Or a change such as "age<35: coupon"; repeat.'
    ),
    click.option("--level", type=float, help="Of all intervals together.  [default: 0.95]"),
    click.option("--max-rules", type=int, help="Tell the difference in at most so many rules."),
    click.option("--policy-tolerance", type=float, help="Smaller shifts of probability do not count.  [default: 0.1]"),
    click.option(
        "--transition-tolerance", type=float, help="Smaller effects on what comes next do not count.  [default: 0.1]"
    ),
    click.option("--max-splits", type=int, help="Depth at which both policies are followed.  [default: 2]"),
    click.option("--max-steps", type=int, help="Most simulated decisions.  [default: 1000000]"),
    click.option("--starts", type=int, help="Starts to follow."),
    click.option("--style", type=click.Choice(["plain", "paper"]), help="Words of the text.  [default: plain]"),
    click.option("--min-group", type=int, help="Smallest group of a log that a report shows.  [default: 10]"),
    click.option("--seed", type=int, help="Same seed, same bytes.  [default: 0]"),
)
