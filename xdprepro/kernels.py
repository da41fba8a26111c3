# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels by what a user calls them: found in the cache, or fetched or built into it."""

import fcntl
import hashlib
import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from xdprepro import kernel_lock, kernel_store, provision
from xdprepro.errors import USAGE
from xdprepro.kernel import KEY, Kernel, KernelError, KernelSpec, cache_directory, hide_login, parse_kernel_spec

Tell = Callable[[str], None]

TINY = "tiny"  # the configuration of the micro guest
# What is no path. git has a short form of its own for ssh.
REMOTE = {"git": re.compile(r"[a-z][a-z0-9+.-]*://|[^/]+:[^/]"), "tarball": re.compile(r"[a-z][a-z0-9+.-]*://")}


@dataclass(frozen=True)
class Source:
    """A kernel's source in the cache; `spec` gives it again."""

    spec: str
    tree: Path


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
        return kernel_store.load_kernel(spec_text)
    spec = _locate(parse_kernel_spec(spec_text))
    if (config or fragments) and not spec.is_built:
        raise _wrong(
            f"kernel {hide_login(spec.text)!r} is not built here", "leave the configuration out, or name a source"
        )
    known = None if refresh or spec.is_built else _read_asked(spec)
    if known:
        return known
    options = {"base": _locate_file(config or TINY), "fragments": list(map(_locate_file, fragments))}
    answer = _play(spec, options, refresh=refresh, tell=tell)
    kernel = kernel_store.load_kernel(answer["key"])
    _write_asked(spec, answer)
    return kernel


def fetch_source(spec_text: str, *, refresh: bool = False, tell: Tell = be_silent) -> Source:
    """The source of a kernel that is built here, without building it."""
    spec = _locate(parse_kernel_spec(spec_text))
    if not spec.is_built:
        raise _wrong(f"kernel {hide_login(spec.text)!r} is no source", "name one by git:, tarball: or deb-src:")
    answer = _play(spec, {}, refresh=refresh, tell=tell)
    return Source(spec=answer["spec"], tree=Path(answer["tree"]))


def find_cached(spec_text: str) -> Kernel:
    """The kernel of that spec or key if it is in the cache; nothing is fetched or built."""
    if KEY.fullmatch(spec_text):
        return kernel_store.load_kernel(spec_text)
    spec = _locate(parse_kernel_spec(spec_text))
    resolved = [kernel for kernel in list_kernels() if kernel.spec == hide_login(spec.text)]
    kernel = _read_asked(spec) or (resolved[-1] if resolved else None)
    if not kernel:
        command = "build" if spec.is_built else "fetch"
        raise KernelError(
            f"kernel {hide_login(spec.text)!r} is not in the cache",
            reason="no_such_kernel",
            hint=f"run 'xdprepro kernel {command} {shlex.quote(hide_login(spec.text))}'",
            status=USAGE,
        )
    return kernel


def list_kernels() -> list[Kernel]:
    """Whole ones, those used last at the end."""
    return [entry.kernel for entry in kernel_store.list_entries() if entry.kernel]


def _wrong(fact: str, hint: str) -> KernelError:
    return KernelError(fact, reason="bad_spec", hint=hint, status=USAGE)


def _locate(spec: KernelSpec) -> KernelSpec:
    """Paths made absolute, as Ansible works in another directory."""
    parts = {"image": ("name", "modules", "config"), "git": ("name",), "tarball": ("name",)}.get(spec.kind, ())
    if spec.kind in REMOTE and REMOTE[spec.kind].match(spec.name):
        return spec
    return replace(spec, **{part: _absolute(getattr(spec, part)) for part in parts if getattr(spec, part)})


def _locate_file(name: str) -> str:
    """The name of a configuration of ours, or the path of a file."""
    if re.fullmatch(r"[a-z][a-z0-9-]*", name) and not Path(name).exists():
        return name
    if not Path(name).expanduser().is_file():
        raise _wrong(f"{name}: no such file", "name a file, or one of xdprepro/configs without its .config")
    return _absolute(name)


def _absolute(path: str) -> str:
    return os.path.abspath(Path(path).expanduser())  # noqa: PTH100  # a link stays what the user named


def _play(spec: KernelSpec, options: Mapping[str, Any], *, refresh: bool, tell: Tell) -> dict[str, Any]:
    """Without options, of what is built, the source only."""
    cache = cache_directory()
    name = _lock_name(spec)
    parts = ("kind", "name", "ref", "version", "suite", "sha256", "modules", "config")
    variables = {
        **{f"kernel_{part}": getattr(spec, part) for part in parts},
        "kernel_cache": str(cache),
        "kernel_refresh": refresh,
        "kernel_source_only": not options,
        "kernel_config_base": options.get("base", ""),
        "kernel_config_fragments": options.get("fragments", []),
    }
    with _start_lock(name, tell):
        return provision.play_kernel(variables, cache / "play" / name, tell=tell)


def _lock_name(spec: KernelSpec) -> str:
    """One at a time for each source: a repository, a package, a file."""
    return f"{spec.kind}-{hashlib.sha256(hide_login(spec.name).encode()).hexdigest()[:12]}"


@contextmanager
def _start_lock(name: str, tell: Tell) -> Iterator[None]:
    path, work_path = (kernel_lock.lock_path(one) for one in (name, kernel_lock.WORK))
    with kernel_lock.open_lock(path) as file, kernel_lock.open_lock(work_path) as work:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell("waiting: another command fetches or builds from the same source")
            fcntl.flock(file, fcntl.LOCK_EX)
        fcntl.flock(work, fcntl.LOCK_SH)  # it is a prune that we may wait for
        yield


def _asked_path(spec: KernelSpec) -> Path:
    said = hide_login(json.dumps(asdict(spec), sort_keys=True))
    return cache_directory() / "asked" / f"{hashlib.sha256(said.encode()).hexdigest()[:16]}.json"


def _read_asked(spec: KernelSpec) -> Kernel | None:
    """What this spec was found to be before, if that is still there and its files are what they were."""
    with suppress(OSError, ValueError, KeyError, KernelError):
        asked = json.loads(_asked_path(spec).read_text())
        if all(_stamp(path) == stamp for path, stamp in asked["watched"].items()):
            return kernel_store.load_kernel(asked["key"])
    return None


def _write_asked(spec: KernelSpec, answer: Mapping[str, Any]) -> None:
    path = _asked_path(spec)
    with kernel_lock.name_cache():
        path.parent.mkdir(parents=True, exist_ok=True)
        watched = {name: _stamp(name) for name in answer["watched"]}
        new = path.with_name(f"{path.name}.{os.getpid()}")
        new.write_text(json.dumps({"spec": hide_login(spec.text), "key": answer["key"], "watched": watched}))
        new.replace(path)


def _stamp(path: str) -> list[int]:
    found = Path(path).stat()
    return [found.st_ino, found.st_size, found.st_mtime_ns]
