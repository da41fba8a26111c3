# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernels in the cache: found by what a user calls them, fetched or built where they are not there, pruned."""

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from xdprepro import provision
from xdprepro.errors import USAGE
from xdprepro.kernel import (
    KEY,
    MANIFEST,
    Kernel,
    KernelError,
    KernelSpec,
    cache_directory,
    parse_kernel_spec,
    read_kernel,
)

Tell = Callable[[str], None]

TINY = "tiny"  # the configuration of the micro guest


def be_silent(_text: str) -> None:
    """For callers without a person that waits."""


def find_kernel(
    spec_text: str,
    *,
    config: str | None = None,
    fragments: Sequence[str] = (),
    refresh: bool = False,
    tell: Tell = be_silent,
) -> Kernel:
    """The kernel of that spec or cache key, fetched or built first where it is not in the cache.

    A spec that leaves a choice stays what it was found to be the first time, until `refresh`.
    """
    if KEY.fullmatch(spec_text):
        return _read_key(spec_text)
    spec = parse_kernel_spec(spec_text)
    known = None if refresh or spec.is_built else _read_asked(spec)
    if known:
        return known
    key = _play(spec, config=config, fragments=fragments, refresh=refresh, tell=tell)["key"]
    kernel = _read_key(key)
    _write_asked(spec, key)
    return kernel


def list_kernels() -> list[Kernel]:
    """Whole ones, oldest first; what an interrupted command left is not among them."""
    directories = [path.parent for path in _kernels_directory().glob(f"[!.]*/{MANIFEST}")]
    return sorted(map(read_kernel, directories), key=lambda kernel: (kernel.created_utc, kernel.key))


def _kernels_directory() -> Path:
    return cache_directory() / "kernels"


def _read_key(key: str) -> Kernel:
    directory = _kernels_directory() / key
    if not (directory / MANIFEST).exists():
        raise KernelError(
            f"no kernel {key} in {directory.parent}",
            reason="no_such_kernel",
            hint="'xdprepro kernel list' shows those that are there",
            status=USAGE,
        )
    return read_kernel(directory)


def _play(spec: KernelSpec, **options: Any) -> dict[str, Any]:
    cache = cache_directory()
    name = _lock_name(spec)
    tell = options.pop("tell")
    with _start_lock(cache / "locks" / f"{name}.lock", tell):
        return provision.play_kernel(_variables(spec, cache, **options), cache / "play" / name, tell=tell)


def _variables(
    spec: KernelSpec, cache: Path, *, config: str | None, fragments: Sequence[str], refresh: bool
) -> dict[str, Any]:
    parts = ("text", "kind", "name", "ref", "version", "suite", "sha256", "modules", "config")
    return {
        **{f"kernel_{'spec' if part == 'text' else part}": getattr(spec, part) for part in parts},
        "kernel_cache": str(cache),
        "kernel_refresh": refresh,
        "kernel_config_base": config or TINY,
        "kernel_config_fragments": list(fragments),
    }


def _lock_name(spec: KernelSpec) -> str:
    """One at a time for each source: a repository, a package, a file."""
    return f"{spec.kind}-{hashlib.sha256(spec.name.encode()).hexdigest()[:12]}"


@contextmanager
def _start_lock(path: Path, tell: Tell) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell("waiting: another command fetches or builds the same")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _asked_path(spec: KernelSpec) -> Path:
    return cache_directory() / "asked" / f"{hashlib.sha256(spec.text.encode()).hexdigest()[:16]}.json"


def _read_asked(spec: KernelSpec) -> Kernel | None:
    """What this spec was found to be before, if that is still there."""
    with suppress(FileNotFoundError, KernelError):
        return _read_key(json.loads(_asked_path(spec).read_text())["key"])
    return None


def _write_asked(spec: KernelSpec, key: str) -> None:
    path = _asked_path(spec)
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.write_text(json.dumps({"spec": spec.text, "key": key}))
    new.replace(path)
