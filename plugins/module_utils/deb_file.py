# SPDX-License-Identifier: GPL-2.0-or-later
"""A package of the distribution: downloaded and verified, and read without installing it."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from ansible_collections.xdprepro.lab.plugins.module_utils import kernel_cache
from ansible_collections.xdprepro.lab.plugins.module_utils.kernel_cache import KernelFailure

HELPER = "/usr/lib/apt/apt-helper"

# What a module that takes a package apart is told of it (plugins/doc_fragments/kernel_work.py, package).
ARGUMENTS = {
    "index": {"type": "path", "required": True},
    "version": {"type": "str", "default": ""},
    "suite": {"type": "str", "default": ""},
}

Package = dict[str, Any]


@contextmanager
def start_download(cache: Path, package: Package, directory: Path, progress: str) -> Iterator[Path]:
    """The package as a file in the directory, gone afterwards.

    apt's own downloader knows the machine's proxies and every kind of mirror, and verifies.
    """
    name, sha256 = package["package"], package["sha256"]
    deb = directory / "package.deb"
    poll = kernel_cache.show_growth(progress, deb, what=f"downloading {name}", size_bytes=package["size_bytes"])
    argv = [HELPER, "-c", cache / "apt/apt.conf", "download-file", "--", package["uri"], deb, f"SHA256:{sha256}"]
    try:
        kernel_cache.run(argv, what=name, poll=poll)
        if kernel_cache.sha256_of(deb) != sha256:
            raise KernelFailure("sha256_mismatch", f"{name}: Hash Sum mismatch")
        yield deb
    except KernelFailure as failure:
        raise _download_failure(name, failure) from None
    finally:
        deb.unlink(missing_ok=True)


def _download_failure(name: str, failure: KernelFailure) -> KernelFailure:
    if "Hash Sum mismatch" in str(failure):
        return KernelFailure(
            "sha256_mismatch",
            f"{name}: what the mirror sends is not what its signed list says",
            hint="try again with --refresh; if it stays so, use another mirror",
        )
    if failure.reason == "command_failed":
        hint = "try again with --refresh, as the mirror may have moved on"
        return KernelFailure("download_failed", str(failure), hint=hint)
    return failure


def iter_files(deb: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """The absolute name and the content of each regular file, to be read before the next one is asked for."""
    with (
        kernel_cache.start_pipe(["dpkg-deb", "--fsys-tarfile", "--", deb], what=deb.name) as stream,
        tarfile.open(fileobj=stream, mode="r|") as archive,
    ):
        for member in archive:
            content = archive.extractfile(member) if member.isreg() else None
            if content:
                yield f"/{member.name.removeprefix('./').lstrip('/')}", content


def write_file(path: Path, content: IO[bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        shutil.copyfileobj(content, file, kernel_cache.CHUNK_BYTES)
