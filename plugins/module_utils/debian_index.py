# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernel packages of Debian: read out of package lists, and found by what a user calls them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Any

from ansible_collections.xdprepro.lab.plugins.module_utils.kernel_cache import KernelFailure

Package = dict[str, Any]
Index = dict[str, Any]

NAMES = re.compile(r"linux-(image|binary|modules|base|source)-")
FIELDS = re.compile(r"^(Package|Version|Depends|Filename|Size|SHA256): (.*)$", re.MULTILINE)
SERIES = re.compile(r"\d+(\.\d+)*")
# The plain flavour: none with another name between the release and the architecture, as cloud and rt have it.
PLAIN_IMAGE = re.compile(r"linux-image-(?P<release>\d[^-]*(-\d+)?-amd64)")
IMAGE = re.compile(r"linux-image-(?P<release>\d.*?)(-unsigned)?")
SOURCE = re.compile(r"linux-source(-\d+(\.\d+)*)?")
NEAREST = 6


def parse_packages(text: str, suite: str, base_uri: str) -> Iterator[Package]:
    """The kernel packages of one list."""
    for stanza in text.split("\n\n"):
        if not NAMES.match(stanza, len("Package: ")):
            continue
        fields = dict(FIELDS.findall(stanza))
        yield {
            "package": fields["Package"],
            "version": fields["Version"],
            "suite": suite,
            "depends": fields.get("Depends", ""),
            "uri": f"{base_uri.rstrip('/')}/{fields['Filename']}",
            "size_bytes": int(fields["Size"]),
            "sha256": fields["SHA256"],
        }


def version_key(version: str) -> tuple[Any, ...]:
    """Sorts as dpkg does (deb-version(7)): '~' before the end, the end before letters, letters before the rest."""
    epoch, _, rest = version.rpartition(":")
    upstream, _, revision = rest.rpartition("-") if "-" in rest else (rest, "", "0")
    return int(epoch or 0), _part_key(upstream), _part_key(revision)


def _part_key(part: str) -> list[tuple[tuple[int, ...], int]]:
    # The last pair stands for the end, which must be greater than a tilde.
    pairs = re.findall(r"(\D*)(\d*)", part)
    return [(tuple(map(_order, text)) + (0,), int(digits or 0)) for text, digits in pairs] + [((0,), 0)]


def _order(character: str) -> int:
    if character == "~":
        return -1
    return ord(character) if character.isalpha() else ord(character) + 256


def find_package(index: Index, name: str, *, version: str = "", suite: str = "") -> Package:
    """The newest package of that name, or of that series of image packages; what is asked for must be there."""
    in_suite = [one for one in index["packages"] if suite in ("", one["suite"])]
    if suite and suite not in index["suites"]:
        raise _no_suite(index, suite)
    named = [one for one in in_suite if _is_named(one, name)]
    if not named:
        raise _no_package(in_suite, name, suite)
    right = [one for one in named if version in ("", one["version"])]
    if not right:
        known = sorted({one["version"] for one in named}, key=version_key)
        raise KernelFailure(
            "no_such_version", f"{name} has no version {version}", hint=f"there are: {', '.join(reversed(known))}"
        )
    return max(right, key=lambda one: version_key(one["version"]))


def find_image_packages(index: Index, name: str, *, version: str = "", suite: str = "") -> tuple[str, list[Package]]:
    """The release, and the packages that together hold its image, its configuration and its modules."""
    package = find_package(index, name, version=version, suite=suite)
    found = IMAGE.fullmatch(package["package"])
    if not found:
        return _follow_name(index, package)
    return found["release"], [package, *_parts(index, package, found["release"])]


def find_source_package(index: Index, name: str, *, version: str = "", suite: str = "") -> Package:
    """A package that holds a source tarball."""
    if not SOURCE.fullmatch(name):
        raise KernelFailure(
            "no_source",
            f"{name} is no package with a source tarball",
            hint="name one like linux-source-6.1, or get the source by git: or tarball:",
        )
    package = find_package(index, name, version=version, suite=suite)
    # linux-source itself is empty and depends on that of its suite.
    for other, _ in _depends(package):
        if SOURCE.fullmatch(other):
            return find_package(index, other)
    return package


def _is_named(package: Package, name: str) -> bool:
    if not SERIES.fullmatch(name):
        return bool(package["package"] == name)
    plain = PLAIN_IMAGE.fullmatch(package["package"])
    return plain is not None and any(
        re.match(rf"{re.escape(name)}(?!\d)", text) for text in (plain["release"], package["version"])
    )


def _follow_name(index: Index, package: Package) -> tuple[str, list[Package]]:
    """A package like linux-image-amd64 is empty and depends on the newest image of its suite."""
    for name, version in _depends(package):
        if IMAGE.fullmatch(name):
            return find_image_packages(index, name, version=version)
    raise KernelFailure(
        "no_kernel",
        f"{package['package']} is no image package, nor does it depend on one",
        hint="name one like linux-image-6.1.0-50-amd64, or a series like deb:6.1",
    )


def _parts(index: Index, package: Package, release: str) -> list[Package]:
    """What holds the files, as from 6.19 on the image package itself is empty."""
    names = {f"linux-{what}-{release}" for what in ("binary", "modules", "base")}
    found: dict[str, Package] = {}
    left = [package]
    while left:
        for name, version in _depends(left.pop()):
            if name in names - found.keys():
                found[name] = find_package(index, name, version=version or package["version"])
                left.append(found[name])
    return [found[name] for name in sorted(found)]


def _depends(package: Package) -> Iterator[tuple[str, str]]:
    """Each name with the version it must be equal to; of alternatives, the first."""
    for clause in package["depends"].split(","):
        found = re.match(r"\s*([a-z0-9][a-z0-9.+-]*)(?::\w+)?\s*(?:\(= ([^)]+)\))?", clause)
        if found:
            yield found[1], found[2] or ""


def _no_suite(index: Index, suite: str) -> KernelFailure:
    reason = index["skipped"].get(suite)
    known = ", ".join(index["suites"])
    if reason:
        return KernelFailure("no_such_suite", f"suite {suite} cannot be read: {reason}", hint=f"there are: {known}")
    return KernelFailure("no_such_suite", f"no suite {suite}", hint=f"there are: {known}")


def _no_package(packages: list[Package], name: str, suite: str) -> KernelFailure:
    where = f" in {suite}" if suite else ""
    if SERIES.fullmatch(name):
        series = {
            found["release"].rpartition("-")[0] for one in packages if (found := PLAIN_IMAGE.fullmatch(one["package"]))
        }
        known = {".".join(re.findall(r"\d+", one)[:2]) for one in series}
        near = sorted(known, key=version_key)
        what = f"no image package of the series {name}{where}"
    else:
        names = sorted({one["package"] for one in packages})
        near = difflib.get_close_matches(name, names, n=NEAREST, cutoff=0.5)
        what = f"no package {name}{where}"
    hint = f"there are: {', '.join(near)}" if near else "name a suite that has it"
    return KernelFailure("no_such_package", what, hint=hint)
