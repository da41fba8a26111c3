# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line: parse, call, print, exit status. Results go to stdout, everything else to stderr."""

import errno
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import xdprepro
from xdprepro.cli import archive, compare, doctor, explain, kernel, labs, run, suites
from xdprepro.cli.output import note
from xdprepro.errors import FAILED, INTERRUPTED, STORAGE, XdpreproError


class Commands(TyperGroup):
    """All commands; an interrupt becomes an error before typer sees it and ends the program without a word."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise XdpreproError("interrupted", status=INTERRUPTED) from None


app = typer.Typer(
    name="xdprepro",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Did XDP or AF_XDP get slower, and by how much? Provision a lab, run a suite, keep the raw counters, compare.",
    epilog="Exit status: 0 fine, 1 the work failed, 2 bad input, 3 and 4 from compare --gate (regressed; undecided or "
    "incomparable), 69 this machine cannot do it, 74 the archive cannot be written or is damaged, 75 the lab is in "
    "use, 77 a privilege is missing, 130 interrupted.",
)
app.command("up")(labs.up)
app.command("down")(labs.down)
app.command("doctor")(doctor.doctor)
app.command("run")(run.run)
app.command("compare")(compare.compare)
app.command("explain")(explain.explain)
app.add_typer(suites.app, name="suite")
app.add_typer(kernel.app, name="kernel")
app.add_typer(archive.app, name="archive")


def _print_version(value: bool) -> None:
    if value:
        print(f"xdprepro {xdprepro.__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of xdprepro itself."""


def main() -> None:
    """Run the command line; what a user can fix becomes `error:` and `hint:` lines and an exit status."""
    # Libraries write to these without asking whether somebody closed them (>&-).
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except XdpreproError as error:
        note(f"error: {error.message}")
        if error.hint:
            note(f"hint: {error.hint}")
        sys.exit(error.status)
    except KeyboardInterrupt:
        note("error: interrupted")
        sys.exit(INTERRUPTED)
    except OSError as error:
        # Our output's reader (head, less) went away, which is its right, or its disk is full, or the terminal is gone.
        if error.errno not in (errno.EPIPE, errno.ENOSPC, errno.EIO) or error.filename:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno != errno.EPIPE:
            note(f"error: standard output: {error.strerror}")
        sys.exit(STORAGE if error.errno == errno.ENOSPC else FAILED)
