#!/usr/bin/python
# SPDX-License-Identifier: GPL-2.0-or-later
"""Ansible module: a source tree out of a tarball."""

from __future__ import annotations

DOCUMENTATION = r"""
module: tarball_tree
short_description: Unpack a kernel source
description:
  - Unpacks a tarball, from a file or a URL, into the cache, once for each content.
version_added: 0.2.0
author:
  - xdprepro developers (@xdprepro)
options:
  cache:
    description: The cache; the tree is made in its directory C(sources).
    type: path
    required: true
  source:
    description: Path or URL of the tarball. What logs in, in a URL, is used and not kept.
    type: str
    required: true
  sha256:
    description: SHA-256 of the tarball; required for a URL.
    type: str
    default: ''
extends_documentation_fragment:
  - xdprepro.lab.kernel_work
attributes:
  check_mode:
    description: Says whether the tree would be made and makes none.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
"""

EXAMPLES = r"""
- name: Unpack a kernel source
  xdprepro.lab.tarball_tree:
    cache: /var/tmp/kernels
    source: /usr/src/linux-source-6.1.tar.xz
"""

RETURN = r"""
tree:
  description: The top of the source.
  type: str
  returned: success
source_id:
  description: What tells this source from every other.
  type: str
  returned: success
spec:
  description: The spec that gives this source again.
  type: str
  returned: success
"""

import base64
import http.client
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.xdprepro.lab.plugins.module_utils import kernel_cache, source_tree
from ansible_collections.xdprepro.lab.plugins.module_utils.kernel_cache import KernelFailure

TIMEOUT_S = 60

State = dict[str, Any]


def work(params: State, check_mode: bool) -> State:
    source = params["source"]
    is_remote = "://" in source
    sha256 = params["sha256"] if is_remote else read_sha256(Path(source), params["sha256"], params["progress"])
    tree = source_tree.tree_path(Path(params["cache"]), f"tarball-{sha256[:16]}")
    answer = {
        "tree": str(tree),
        "source_id": sha256,
        "spec": f"tarball:{kernel_cache.hide_login(source)},sha256={sha256}",
    }
    if tree.exists() or check_mode:
        return {"changed": not tree.exists(), **answer}
    with source_tree.start_tree(tree) as directory:
        if directory:
            make(directory, source, sha256, params["progress"])
    return {"changed": directory is not None, **answer}


def read_sha256(path: Path, wanted: str, progress: str) -> str:
    if not path.is_file():
        raise KernelFailure("no_such_file", f"{path}: no such file")
    kernel_cache.tell(progress, f"reading {path.name}")
    sha256: str = kernel_cache.sha256_of(path)
    if wanted not in ("", sha256):
        raise mismatch(str(path), wanted, sha256)
    return sha256


def make(directory: Path, source: str, sha256: str, progress: str) -> None:
    archive = Path(source)
    if "://" in source:
        archive = directory / "archive"
        download(source, archive, progress)
        found = kernel_cache.sha256_of(archive)
        if found != sha256:
            raise mismatch(source, sha256, found)
    kernel_cache.tell(progress, f"unpacking {source}")
    source_tree.unpack(archive, directory, what=source)


def download(url: str, path: Path, progress: str) -> None:
    try:
        with urllib.request.urlopen(make_request(url), timeout=TIMEOUT_S) as stream, path.open("wb") as file:
            size_bytes = int(stream.headers["Content-Length"] or 0)
            poll = kernel_cache.show_growth(progress, path, what=f"downloading {url}", size_bytes=size_bytes)
            while some := stream.read(kernel_cache.CHUNK_BYTES):
                file.write(some)
                poll()
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        raise KernelFailure("download_failed", f"{url}: {error}", hint="check the URL and the network") from None


def make_request(url: str) -> urllib.request.Request:
    """With what logs in, which is for the host of the URL and for none that it leads to."""
    parts = urllib.parse.urlsplit(url)
    login, _, host = parts.netloc.rpartition("@")
    request = urllib.request.Request(parts._replace(netloc=host).geturl())
    if login:
        name, _, password = map(urllib.parse.unquote, login.partition(":"))
        basic = base64.b64encode(f"{name}:{password}".encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {basic}")
    return request


def mismatch(what: str, wanted: str, found: str) -> KernelFailure:
    return KernelFailure(
        "sha256_mismatch",
        f"{what}: sha256 is {found}, not {wanted}",
        hint="get the file again from where its sum was published",
    )


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "cache": {"type": "path", "required": True},
            "source": {"type": "str", "required": True},
            "sha256": {"type": "str", "default": ""},
            "progress": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    kernel_cache.run_module(module, work)


if __name__ == "__main__":
    main()
