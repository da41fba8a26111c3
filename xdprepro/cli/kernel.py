# SPDX-License-Identifier: GPL-2.0-or-later
"""xdprepro kernel list, fetch, build, show, prune, diff."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from xdprepro import kernel_store, kernels
from xdprepro.cli.output import LINE_EVERY_S, Json, note, print_json, print_table
from xdprepro.errors import USAGE, XdpreproError
from xdprepro.kconfig import ConfigDiff, diff_configs
from xdprepro.kernel import FORMS, Kernel, hide_login, parse_kernel_spec

# A bracket begins markup in help texts.
SPEC_HELP = f"One of: {'; '.join(form for _, form in FORMS.values())}.".replace("[", r"\[")
ALL_HELP = f"Every kernel, and {', '.join(kernel_store.AREAS.values())}."
FOUND_HELP = "A key of 'xdprepro kernel list' or its spec."

app = typer.Typer(
    no_args_is_help=True,
    help="Kernels to boot and measure: fetched or built into a cache, never installed.",
    epilog="The cache is $XDPREPRO_CACHE, else $XDG_CACHE_HOME/xdprepro, else ~/.cache/xdprepro; all of it may be "
    "deleted at any time.",
)

Specs = Annotated[list[str], typer.Argument(metavar="SPEC", help=SPEC_HELP)]
Refresh = Annotated[bool, typer.Option("--refresh", help="Renew package lists, and resolve SPEC anew.")]
ConfigOption = typer.Option("--config", metavar="NAME|FILE", help="The base: a configuration of xdprepro's, or a file.")
FragmentOption = typer.Option("--fragment", metavar="NAME|FILE", help="Laid over the base; repeatable, the last wins.")
OlderOption = typer.Option("--older-than", metavar="DAYS", min=0, help="Also those not used for so many days.")


@app.command("list")
def list_kernels(as_json: Json = False) -> None:
    """List the kernels in the cache, the one used last at the end."""
    entries = kernel_store.list_entries()
    if as_json:
        print_json([_entry_json(entry) for entry in entries])
        return
    rows = [
        [
            entry.key,
            entry.kernel.spec if entry.kernel else "",
            entry.kernel.release if entry.kernel else "",
            entry.kernel.kind if entry.kernel else "",
            format_size(entry.size_bytes),
            format_age(time.time() - entry.used_s),
            entry.state,
        ]
        for entry in entries
    ]
    print_table("Kernels", ["key", "spec", "release", "kind", "size", "used", "state"], rows, left=(0, 1, 2, 3, 6))
    total = format_size(sum(entry.size_bytes for entry in entries))
    note(f"{len(entries)} in {kernel_store.kernel_directory('')}, {total}")


@app.command("fetch")
def fetch(specs: Specs, refresh: Refresh = False, as_json: Json = False) -> None:
    """Fetch kernels, or the source of what is built here, into the cache; print where it is.

    deb:6.12 is the newest image package of that series in any suite of Debian, deb:6.12@trixie the newest in that
    suite. What it was found to be stays so until --refresh.
    """
    answers: list[dict[str, Any]] = []
    for text in specs:
        with show_status(text) as tell:
            if parse_kernel_spec(text).is_built:
                answers.append(_printable(asdict(kernels.fetch_source(text, refresh=refresh, tell=tell))))
            else:
                answers.append(_kernel_json(kernels.find_kernel(text, refresh=refresh, tell=tell)))
    if as_json:
        print_json(answers)
    else:
        print("\n".join(answer.get("key") or answer["tree"] for answer in answers))


@app.command("build")
def build(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="git:, tarball: or deb-src:, as for fetch.")],
    config: Annotated[str, ConfigOption] = kernels.TINY,
    fragment: Annotated[list[str] | None, FragmentOption] = None,
    refresh: Refresh = False,
    as_json: Json = False,
) -> None:
    """Build a kernel from source into the cache; print its key.

    The same source, configuration and compiler give the same key and the same bytes, and are built once.
    """
    if not parse_kernel_spec(spec).is_built:
        hint = f"run 'xdprepro kernel fetch {hide_login(spec)}'"
        raise XdpreproError(f"kernel {hide_login(spec)!r} is not built here", hint=hint, status=USAGE)
    with show_status(spec) as tell:
        kernel = kernels.find_kernel(spec, config=config, fragments=fragment or (), refresh=refresh, tell=tell)
    if as_json:
        print_json(_kernel_json(kernel))
    else:
        print(kernel.key)


@app.command("show")
def show(name: Annotated[str, typer.Argument(metavar="KEY|SPEC", help=FOUND_HELP)], as_json: Json = False) -> None:
    """Show what is known of a kernel in the cache."""
    kernel = kernels.find_cached(name)
    if as_json:
        print_json(_kernel_json(kernel))
        return
    facts = _kernel_json(kernel) | {"size_bytes": format_size(kernel.size_bytes)}
    source = facts.pop("source")
    rows = [[key.removesuffix("_bytes"), str(value)] for key, value in facts.items() if value is not None]
    rows += [[f"source: {key}", _flat(value)] for key, value in source.items()]
    print_table(f"Kernel {kernel.key}", ["", ""], rows, left=(0, 1))


@app.command("prune")
def prune(
    keys: Annotated[list[str] | None, typer.Argument(metavar="KEY", help="These.")] = None,
    everything: Annotated[bool, typer.Option("--all", help=ALL_HELP)] = False,
    older_than_days: Annotated[float | None, OlderOption] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go, remove nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Remove kernels from the cache, and always what interrupted commands left there.

    What a run or a build uses now is kept.
    """
    pruned = kernel_store.prune(keys or (), older_than_days=older_than_days, everything=everything, dry_run=dry_run)
    if as_json:
        print_json({**asdict(pruned), "freed_bytes": pruned.freed_bytes, "dry_run": dry_run})
        return
    for name, size_bytes in pruned.removed:
        print(f"{'would remove' if dry_run else 'removed'} {_describe(name)} ({format_size(size_bytes)})")
    for name, reason in pruned.kept:
        print(f"kept {_describe(name)}: {reason}")
    note(f"{format_size(pruned.freed_bytes)} {'would be freed' if dry_run else 'freed'}")


def _describe(name: str) -> str:
    about = kernel_store.AREAS.get(name)
    return f"{name}, {about}" if about else name


@app.command("diff")
def diff(
    a: Annotated[str, typer.Argument(metavar="A", help=FOUND_HELP)],
    b: Annotated[str, typer.Argument(metavar="B", help=FOUND_HELP)],
    as_json: Json = False,
) -> None:
    """Show in what the configurations of two kernels differ.

    What only one of them names, or what tells of tools, comes with the version and is counted; --json has it all.
    """
    pair = [kernels.find_cached(name) for name in (a, b)]
    found = diff_configs(*map(_read_config, pair))
    compilers = [kernel.compiler for kernel in pair]
    if as_json:
        print_json({"a": pair[0].key, "b": pair[1].key, "compilers": compilers, **asdict(found)})
        return
    _print_diff(pair, found)
    if compilers[0] != compilers[1]:
        print(f"compilers differ: {compilers[0]}, {compilers[1]}")


def _print_diff(pair: list[Kernel], found: ConfigDiff) -> None:
    rows = [[one.symbol, *map(_value, (one.a, one.b))] for one in found.changed]
    print_table("Configuration", ["symbol", pair[0].key, pair[1].key], rows, left=(0, 1, 2))
    print(f"{len(found.changed)} changed, {len(found.version_bound)} come with the version or the tools")


def _value(value: str | None) -> str:
    return "-" if value is None else value


def _read_config(kernel: Kernel) -> str:
    if not kernel.config:
        hint = "name it when you name the kernel: image:PATH,config=FILE"
        raise XdpreproError(f"kernel {kernel.key} came without its configuration", hint=hint, status=USAGE)
    return kernel.config.read_text(errors="replace")


def _entry_json(entry: kernel_store.Entry) -> dict[str, Any]:
    return _printable({**asdict(entry), "kernel": None}) | {
        "kernel": _kernel_json(entry.kernel) if entry.kernel else None
    }


def _kernel_json(kernel: Kernel) -> dict[str, Any]:
    return _printable(asdict(kernel))


def _printable(values: dict[str, Any]) -> dict[str, Any]:
    return {key: str(value) if isinstance(value, Path) else value for key, value in values.items()}


def _flat(value: Any) -> str:
    """Lists of packages and tables of tools, one a line."""
    if isinstance(value, list):
        return "\n".join(map(_flat, value))
    if isinstance(value, dict):
        return ", ".join(f"{key} {_flat(one)}" for key, one in value.items())
    return str(value)


def format_size(size_bytes: int) -> str:
    """As disks are sold."""
    return f"{size_bytes / 1e9:.1f} GB" if size_bytes >= 1e9 else f"{size_bytes / 1e6:.1f} MB"


def format_age(age_s: float) -> str:
    """In the largest unit that fits."""
    for unit, seconds in (("d", 86400), ("h", 3600), ("min", 60)):
        if age_s >= seconds:
            return f"{age_s / seconds:.0f} {unit} ago"
    return "now"


@contextmanager
def show_status(what: str) -> Iterator[Callable[[str], None]]:
    """One line that is written over on a terminal; elsewhere a line for each new thing, and now and then."""
    what = hide_login(what)
    console = Console(stderr=True, highlight=False, markup=False)
    if not console.is_terminal:
        yield _plain_lines(what)
        return
    with console.status(what) as status:

        def tell(text: str) -> None:
            with suppress(OSError):  # a terminal that is closed in the middle must not end the work
                status.update(f"{what}: {text}")

        yield tell


def _plain_lines(what: str) -> Callable[[str], None]:
    last, last_s = "", 0.0

    def tell(text: str) -> None:
        nonlocal last, last_s
        topic = text.partition(":")[0]
        if topic != last or time.monotonic() - last_s >= LINE_EVERY_S:
            last, last_s = topic, time.monotonic()
            note(f"{what}: {text}")

    return tell
