#!/usr/bin/python
# SPDX-License-Identifier: GPL-2.0-or-later
"""Ansible module: a source tree out of a distribution's source package."""

from __future__ import annotations

DOCUMENTATION = r"""
module: deb_tree
short_description: Unpack the kernel source in a Debian package
description:
  - Finds a package like C(linux-source-6.1) in the lists of M(xdprepro.lab.debian_lists), downloads it, verifies it,
    and unpacks the tarball that it holds. Nothing is installed.
version_added: 0.2.0
author:
  - xdprepro developers (@xdprepro)
options:
  cache:
    description: The cache; the tree is made in its directory C(sources).
    type: path
    required: true
  package:
    description: Name of the package.
    type: str
    required: true
extends_documentation_fragment:
  - xdprepro.lab.kernel_work
  - xdprepro.lab.kernel_work.package
attributes:
  check_mode:
    description: Says whether the tree would be made and makes none. Before the lists were read, nothing is known of it.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
"""

EXAMPLES = r"""
- name: Unpack Debian's source
  xdprepro.lab.deb_tree:
    cache: /var/tmp/kernels
    index: /var/tmp/kernels/apt/index.json
    package: linux-source-6.1
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

import json
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.xdprepro.lab.plugins.module_utils import deb_file, debian_index, kernel_cache, source_tree
from ansible_collections.xdprepro.lab.plugins.module_utils.kernel_cache import KernelFailure

State = dict[str, Any]


def work(params: State, check_mode: bool) -> State:
    cache = Path(params["cache"])
    if check_mode and not Path(params["index"]).exists():
        return {"changed": True, "tree": "", "source_id": "", "spec": ""}
    index = json.loads(Path(params["index"]).read_text())
    package = debian_index.find_source_package(
        index, params["package"], version=params["version"], suite=params["suite"]
    )
    tree = source_tree.tree_path(cache, f"{package['package']}-{package['sha256'][:12]}")
    spec = f"deb-src:{package['package']}={package['version']}"
    answer = {"tree": str(tree), "source_id": package["sha256"], "spec": spec}
    if tree.exists() or check_mode:
        return {"changed": not tree.exists(), **answer}
    with source_tree.start_tree(tree) as directory:
        if directory:
            make(directory, package, params)
    return {"changed": directory is not None, **answer}


def make(directory: Path, package: State, params: State) -> None:
    name, progress = package["package"], params["progress"]
    archive = directory / "archive"
    with deb_file.start_download(Path(params["cache"]), package, directory, progress) as deb:
        for path, content in deb_file.iter_files(deb):
            if path.startswith("/usr/src/linux-source-") and ".tar" in path:
                deb_file.write_file(archive, content)
    if not archive.exists():
        raise KernelFailure("no_source", f"{name}: there is no source tarball in it")
    kernel_cache.tell(progress, f"unpacking {name}")
    source_tree.unpack(archive, directory, what=name)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "cache": {"type": "path", "required": True},
            **deb_file.ARGUMENTS,
            "package": {"type": "str", "required": True},
            "progress": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    kernel_cache.run_module(module, work)


if __name__ == "__main__":
    main()
