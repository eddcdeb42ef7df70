"""The entry point: finds commands by name, imports one only when it is used, and turns errors into exit codes.

====  ==========================================
code  meaning
====  ==========================================
0     fine
1     a check failed
2     bad usage or input
3     no plan satisfies the guards
70    a fault of polidiff itself, with its trace
====  ==========================================
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module

import click

from polidiff._version import __version__
from polidiff.cli.output import fault_of_stdout, forgiving_streams
from polidiff.errors import InfeasibleError, InvalidInputError, PolidiffError, PolidiffWarning
from polidiff.files import check_text

COMMANDS = {
    "demo": "Compare two policies of an example and write a report.",
    "explain": "Say where two policies differ and what that does.",
    "improve": "Find the few changes that pay most.",
    "check": "Gate a release: exit 0 if all holds, 1 if not.",
    "compare": "Compare two results: what is new, gone, larger or smaller.",
    "report": "Turn a result into a page, Markdown or a picture.",
    "ask": "Ask a result: why not, when, what if, what about this case.",
    "patch": "Show, apply or undo a set of changes.",
    "init": "Write a study file for a table of past decisions.",
    "paper": "Make the paper's figures and values again and compare them.",
}
MODULES = {
    "demo": "studies",
    "explain": "studies",
    "improve": "studies",
    "check": "studies",
    "init": "init",
}  # else results
EPILOG = """
\b
Start here:
  polidiff demo --report diff.html        two policies compared, as a page
  polidiff init stays.csv -o study.toml   a study for your own data
  polidiff explain study.toml             what would change, and for whom

Exit codes: 0 fine, 1 a check failed, 2 bad usage or input, 3 no feasible plan.
"""


class LateGroup(click.Group):
    """A group that knows its commands by name and imports one when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command behind a name."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"polidiff.cli.{MODULES.get(cmd_name, 'results')}")
        return getattr(module, f"{cmd_name}_command")

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of the arguments; a near miss is offered."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            ctx.fail(f"no command {args[0]!r}{near_miss(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def near_miss(word: str, known: Sequence[str] | dict[str, str]) -> str:
    """The nearest known word as a question, or what is known.

    >>> near_miss("explian", COMMANDS)
    '; did you mean explain?'
    """
    from polidiff.records.parse import name_like, offered

    some = offered(tuple(known) if isinstance(known, dict) else known)
    near = name_like(word, some)
    return f"; did you mean {near}?" if near else f" (known: {', '.join(some)})" * bool(some)


@click.group(cls=LateGroup, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="polidiff", message="%(prog)s %(version)s")
def polidiff() -> None:
    """Diff and patch for decision policies: what changes, what it does to outcomes, and which few changes pay most."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and leave with its exit code."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit code."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", PolidiffWarning)
        warnings.showwarning = partial(_say, warnings.showwarning)
        with forgiving_streams():
            code, fault = _run(arguments), fault_of_stdout()
            if fault is not None:
                click.echo(f"polidiff: the result cannot be written to stdout: {fault.strerror or fault}", err=True)
            return code if fault is None else code or 2


def _run(arguments: Sequence[str] | None) -> int:
    try:
        for word in sys.argv[1:] if arguments is None else arguments:
            check_text(word, InvalidInputError)
        code = polidiff.main(args=arguments, prog_name="polidiff", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.Abort as abort:
        if isinstance(abort.__cause__, EOFError):  # click takes any for a stop at a question
            return _fault(abort.__cause__)
        click.echo("stopped", err=True)
        return 130
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except PolidiffError as error:
        click.echo(f"polidiff: {_one_line(error)}", err=True)
        return 3 if isinstance(error, InfeasibleError) else 2
    except Exception as error:
        return _fault(error)


def _fault(error: BaseException) -> int:
    import traceback

    trace = "".join(traceback.format_exception(error))
    click.echo(f"{trace}This is a fault of polidiff; please report it.", err=True)
    return 70


def _say(otherwise: Callable[..., None], message: Warning | str, category: type[Warning], *place: object) -> None:
    """Our own warnings in one line; those of other libraries as ever."""
    if issubclass(category, PolidiffWarning):
        click.echo(f"polidiff: {_one_line(message)}", err=True)
    else:
        otherwise(message, category, *place)


def _one_line(error: Warning | Exception | str) -> str:
    return " ".join(str(error).split())


if __name__ == "__main__":
    main()
