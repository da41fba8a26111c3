# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels: how a user spells one, and what one is on disk."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdprepro.errors import FAILED, STORAGE, UNAVAILABLE, USAGE, XdpreproError

MANIFEST = "manifest.json"
MANIFEST_VERSION = 1
MODULE_SUMS = "modules.sha256"
BUILT = ("git", "tarball", "deb-src")  # the kinds that are sources
SHA256 = re.compile(r"[0-9a-f]{64}")
# In front of a host; ssh's user is part of the address, and elsewhere even a name may be a token.
SSH_PASSWORD = re.compile(r"(\bssh://[^/@:\s]+):[^/\s]*(?=@)")
LOGIN = re.compile(r"(?<!\bssh)(://)[^/\s]*@")
KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+~-]*-[0-9a-f]{12}")

PACKAGE = r"(?P<name>[a-z0-9][a-z0-9.+-]*)(=(?P<version>[A-Za-z0-9.+:~-]+))?(@(?P<suite>[a-z][a-z0-9.-]*))?"
# By kind: the pattern of what follows the colon, and how it is spelled.
FORMS = {
    "git": (r"(?P<name>.+)@(?P<ref>[^@]+)", "git:URL-or-path@ref"),
    "tarball": (r"(?P<name>((?!,sha256=).)+)(,sha256=(?P<sha256>[^,]+))?", "tarball:path-or-URL[,sha256=HEX]"),
    "deb": (PACKAGE, "deb:package[=version][@suite]"),
    "deb-src": (PACKAGE, "deb-src:package[=version][@suite]"),
    "image": (
        r"(?P<name>.+?)(,modules=(?P<modules>[^,]+)|,config=(?P<config>[^,]+))*",
        "image:path[,modules=directory][,config=file]",
    ),
    "running": ("", "running"),
}

# Exit statuses by the reason why there is no kernel; any other reason means that the work failed.
STATUSES = {
    **dict.fromkeys(("bad_spec", "no_such_package", "no_such_version", "no_such_suite", "no_such_ref"), USAGE),
    **dict.fromkeys(("no_such_file", "no_such_kernel", "no_source", "no_kernel"), USAGE),
    **dict.fromkeys(("no_tool", "no_mirror", "no_keyring"), UNAVAILABLE),
    "no_space": STORAGE,
}


class KernelError(XdpreproError):
    """Why there is no kernel: `reason` is one word for scripts, `log` the whole story where there is one."""

    def __init__(
        self, message: str, *, reason: str, hint: str = "", status: int = FAILED, log: Path | None = None
    ) -> None:
        super().__init__(message, hint=hint, status=status)
        self.reason = reason
        self.log = log


@dataclass(frozen=True)
class KernelSpec:
    """A kernel as a user names it; what a kind does not have is empty."""

    text: str
    kind: str
    name: str  # a path, a URL or a package
    ref: str = ""
    version: str = ""
    suite: str = ""
    sha256: str = ""
    modules: str = ""
    config: str = ""

    @property
    def is_built(self) -> bool:
        """Whether it is made from source here, with a config of ours."""
        return self.kind in BUILT


@dataclass(frozen=True)
class Kernel:
    """A kernel in the cache; paths are absolute."""

    key: str
    spec: str  # as resolved
    kind: str
    release: str
    image: Path
    image_sha256: str
    modules: Path | None  # a directory with modules.dep, modules.builtin and kernel/
    config: Path | None
    system_map: Path | None
    build_id: str | None  # hex
    compiler: str | None
    source: Mapping[str, Any]
    log: Path | None
    created_utc: str
    size_bytes: int
    modules_sha256: str | None = None  # of the list of their sums; what was cached before there were any has none


def status_of(reason: str) -> int:
    """The exit status for a failure of that reason."""
    return STATUSES.get(reason, FAILED)


def cache_directory() -> Path:
    """Where kernels, sources and package lists are kept; all of it may be deleted at any time."""
    named = os.environ.get("XDPREPRO_CACHE")
    home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    return (Path(named) if named else home / "xdprepro").expanduser().absolute()


def parse_kernel_spec(text: str) -> KernelSpec:
    """The parts of a spec; whether there is such a kernel is not asked here."""
    kind, colon, rest = text.strip().partition(":")
    pattern, form = FORMS.get(kind, (None, ""))
    if pattern is None or bool(colon) != (kind != "running"):
        raise _wrong(text, "no kernel is spelled like that", ", ".join(form for _, form in FORMS.values()))
    found = re.fullmatch(pattern, rest)
    if not found:
        raise _wrong(text, f"not of the form {form}", f"write {form}")
    parts = {key: value or "" for key, value in found.groupdict().items()}
    spec = KernelSpec(text.strip(), kind, **{"name": "", **parts})
    _check_sha256(spec)
    _check_ref(spec)
    return spec


def hide_login(text: str) -> str:
    """The text as it may be kept and shown: its URLs without what logs in."""
    return LOGIN.sub(r"\1", SSH_PASSWORD.sub(r"\1", text))


def read_kernel(directory: Path) -> Kernel:
    """The kernel in a directory of the cache; one without a manifest is an interrupted one and an error."""
    path = directory.absolute() / MANIFEST
    try:
        manifest = json.loads(path.read_text())
        return _parse_manifest(manifest, path.parent)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise KernelError(
            f"{path}: not the manifest of a kernel: {error}",
            reason="damaged",
            hint=f"run 'xdprepro kernel prune {directory.name}'",
        ) from None


def _parse_manifest(manifest: Mapping[str, Any], directory: Path) -> Kernel:
    if manifest["manifest_version"] != MANIFEST_VERSION:
        raise ValueError(f"manifest_version is {manifest['manifest_version']}, not {MANIFEST_VERSION}")

    def place(name: str) -> Path | None:
        return directory / manifest[name] if manifest[name] else None

    texts = ("key", "spec", "kind", "release", "image_sha256", "build_id", "compiler", "source", "created_utc")
    return Kernel(
        **{name: manifest[name] for name in texts},
        image=directory / manifest["image"],
        modules=place("modules"),
        config=place("config"),
        system_map=place("system_map"),
        log=place("log"),
        size_bytes=manifest["size_bytes"],
        modules_sha256=manifest.get("modules_sha256"),
    )


def _check_sha256(spec: KernelSpec) -> None:
    if spec.kind != "tarball":
        return
    if spec.sha256 and not SHA256.fullmatch(spec.sha256):
        raise _wrong(spec.text, f"sha256 is {spec.sha256!r}", "64 hexadecimal digits in small letters")
    if "://" in spec.name and not spec.sha256:
        raise _wrong(
            spec.text, "a tarball from a URL needs its sha256", "append ,sha256=HEX, as its publisher gives it"
        )


def _check_ref(spec: KernelSpec) -> None:
    """The only '@' may be the one that ends a login: https://user:token@host/linux, or git@host:linux."""
    has_no_path = re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/]*", spec.name)
    if spec.kind == "git" and (has_no_path or ("/" not in spec.name and re.match(r"[^/:]+:.", spec.ref))):
        raise _wrong(spec.text, "no ref: the only '@' ends what logs in", "append @ and a branch, a tag or a commit")


def _wrong(text: str, fact: str, hint: str) -> KernelError:
    return KernelError(f"kernel {hide_login(text)!r}: {fact}", reason="bad_spec", hint=hint, status=USAGE)
