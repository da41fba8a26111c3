#!/usr/bin/python
# SPDX-License-Identifier: GPL-2.0-or-later
"""Ansible module: the kernel in a distribution's packages, taken out of them into the cache."""

from __future__ import annotations

DOCUMENTATION = r"""
module: deb_kernel
short_description: Take a kernel out of Debian packages
description:
  - Finds an image package in the lists of M(xdprepro.lab.debian_lists), downloads it and those that it is split into,
    verifies them, and takes image, configuration and modules out of them. Nothing is installed.
version_added: 0.2.0
author:
  - xdprepro developers (@xdprepro)
options:
  cache:
    description: The cache; the kernel is made in its directory C(kernels).
    type: path
    required: true
  package:
    description: Name of an image package, or a series like C(6.1), which means its newest one.
    type: str
    required: true
extends_documentation_fragment:
  - xdprepro.lab.kernel_work
  - xdprepro.lab.kernel_work.package
attributes:
  check_mode:
    description: Says whether the kernel would be made and makes none. Before the lists were read, its key is empty.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
"""

EXAMPLES = r"""
- name: Fetch the newest kernel of a series
  xdprepro.lab.deb_kernel:
    cache: /var/tmp/kernels
    index: /var/tmp/kernels/apt/index.json
    package: "6.1"
"""

RETURN = r"""
key:
  description: Name of the kernel's directory in the cache.
  type: str
  returned: success
"""

import json
import shutil
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.xdprepro.lab.plugins.module_utils import bzimage, deb_file, debian_index, kernel_cache
from ansible_collections.xdprepro.lab.plugins.module_utils.kernel_cache import KernelFailure

FORMAT = "deb 1"  # counts up when the same packages are to give other files

STUB_BYTES = 1024

# Older packages have /boot and /lib.
MODULES = ("/lib/modules/{}/", "/usr/lib/modules/{}/")
PLACES = {
    "vmlinuz": ("/boot/vmlinuz-{}", "/usr/lib/modules/{}/vmlinuz"),
    "config": ("/boot/config-{}", "/usr/lib/modules/{}/config"),
    "System.map": ("/boot/System.map-{}", "/usr/lib/modules/{}/System.map"),
}

State = dict[str, Any]


def work(params: State, check_mode: bool) -> State:
    cache = Path(params["cache"])
    if check_mode and not Path(params["index"]).exists():
        return {"changed": True, "key": ""}
    index = json.loads(Path(params["index"]).read_text())
    release, packages = debian_index.find_image_packages(
        index, params["package"], version=params["version"], suite=params["suite"]
    )
    key = kernel_cache.key_of(release, FORMAT, *sorted(package["sha256"] for package in packages))
    if kernel_cache.is_whole(cache, key) or check_mode:
        return {"changed": not kernel_cache.is_whole(cache, key), "key": key}
    with kernel_cache.start_entry(cache, key) as directory:
        if directory:
            make(directory, release, packages, params)
            write_facts(directory, key, release, packages)
    return {"changed": directory is not None, "key": key}


def make(directory: Path, release: str, packages: list[State], params: State) -> None:
    for package in packages:
        with deb_file.start_download(Path(params["cache"]), package, directory, params["progress"]) as deb:
            kernel_cache.tell(params["progress"], f"unpacking {package['package']}")
            for path, content in deb_file.iter_files(deb):
                if place := find_place(path, release):
                    deb_file.write_file(directory / place, content)
    if not (directory / "vmlinuz").exists():
        raise KernelFailure(
            "no_kernel", f"{packages[0]['package']} holds no kernel", hint="debug packages hold symbols only"
        )
    if (directory / "modules").exists():
        index_modules(directory, release)
    drop_stub(directory / "System.map")


def find_place(path: str, release: str) -> str | None:
    """Where a file of the package belongs in the entry, if it does."""
    if ".." in path.split("/"):
        return None
    for place, patterns in PLACES.items():
        if path in [pattern.format(release) for pattern in patterns]:
            return place
    for top in MODULES:
        if path.startswith(top.format(release)):
            return f"modules/{path.removeprefix(top.format(release))}"
    return None


def drop_stub(system_map: Path) -> None:
    """Debian's is one line that says where the real one is."""
    if system_map.exists() and system_map.stat().st_size < STUB_BYTES:
        system_map.unlink()


def index_modules(directory: Path, release: str) -> None:
    """Make modules.dep, which packages leave to their installation; depmod wants the modules at their usual place."""
    base = directory / "base"
    usual = base / "lib/modules" / release
    usual.parent.mkdir(parents=True)
    (directory / "modules").rename(usual)
    kernel_cache.run(["depmod", "--basedir", base, release], what=f"modules of {release}")
    usual.rename(directory / "modules")
    shutil.rmtree(base)


def write_facts(directory: Path, key: str, release: str, packages: list[State]) -> None:
    first = packages[0]
    names = ("package", "version", "suite", "sha256")
    kernel_cache.write_manifest(
        directory,
        {
            "key": key,
            "spec": f"deb:{first['package']}={first['version']}",
            "kind": "deb",
            "release": release,
            "build_id": bzimage.read_build_id(directory / "vmlinuz"),
            "source": {"packages": [{name: package[name] for name in names} for package in packages]},
        },
    )


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
