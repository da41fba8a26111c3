#!/usr/bin/python
# SPDX-License-Identifier: GPL-2.0-or-later
"""Ansible module: a kernel that somebody else made, copied into the cache."""

from __future__ import annotations

DOCUMENTATION = r"""
module: image_kernel
short_description: Copy a kernel that is there already
description:
  - Copies an image, its modules and its configuration into the cache, so that what was measured stays what it was
    when its maker builds again.
version_added: 0.2.0
author:
  - xdprepro developers (@xdprepro)
options:
  cache:
    description: The cache; the kernel is made in its directory C(kernels).
    type: path
    required: true
  image:
    description: A bzImage; empty means that of the kernel that runs.
    type: path
  modules:
    description: The directory that holds its C(modules.dep); empty means that it has no modules.
    type: path
  config:
    description: Its configuration.
    type: path
extends_documentation_fragment:
  - xdprepro.lab.kernel_work
attributes:
  check_mode:
    description: Says whether the kernel would be copied and copies none.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
"""

EXAMPLES = r"""
- name: Take a kernel of one's own
  xdprepro.lab.image_kernel:
    cache: /var/tmp/kernels
    image: /usr/src/linux/arch/x86/boot/bzImage
"""

RETURN = r"""
key:
  description: Name of the kernel's directory in the cache.
  type: str
  returned: success
watched:
  description: The files that change when the kernel is made anew.
  type: list
  elements: str
  returned: success
"""

import gzip
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.xdprepro.lab.plugins.module_utils import bzimage, kernel_cache
from ansible_collections.xdprepro.lab.plugins.module_utils.kernel_cache import KernelFailure

FORMAT = "image 1"  # counts up when the same files are to give another entry

# Links to the tree that the modules were built in.
LINKS = ("build", "source")

State = dict[str, Any]


def work(params: State, check_mode: bool) -> State:
    cache = Path(params["cache"])
    files = find_running() if not params["image"] else find_named(params)
    kernel_cache.tell(params["progress"], f"reading {files['image']}")
    release = read_release(files["image"])
    key = kernel_cache.key_of(release, FORMAT, *ingredients(files))
    watched = [str(path) for path in (files["image"], files["config"]) if path]
    watched += [str(files["modules"] / "modules.dep")] if files["modules"] else []
    answer = {"key": key, "watched": watched}
    if kernel_cache.is_whole(cache, key) or check_mode:
        return {"changed": not kernel_cache.is_whole(cache, key), **answer}
    with kernel_cache.start_entry(cache, key) as directory:
        if directory:
            kernel_cache.tell(params["progress"], f"copying {files['image']}")
            copy(files, directory)
            write_facts(directory, key, release, files, is_running=not params["image"])
    return {"changed": directory is not None, **answer}


def find_named(params: State) -> State:
    files = {name: Path(params[name]).absolute() if params[name] else None for name in ("image", "modules", "config")}
    for path in (files["image"], files["config"]):
        if path and not path.is_file():
            raise KernelFailure("no_such_file", f"{path}: no such file")
    check_modules(files["modules"])
    return files


def check_modules(modules: Path | None) -> None:
    if not modules or (modules / "modules.dep").is_file():
        return
    if not modules.is_dir():
        raise KernelFailure("no_such_file", f"{modules}: no such directory")
    found = [path.parent for path in modules.glob("lib/modules/*/modules.dep")]
    hint = f"name {found[0]}" if found else "name the directory lib/modules/RELEASE that 'make modules_install' made"
    raise KernelFailure("no_such_file", f"{modules}: there is no modules.dep in it", hint=hint)


def find_running() -> State:
    """Where distributions put the files of the kernel that runs; one without modules has no directory for them."""
    release = os.uname().release
    places = (Path("/lib/modules", release), Path("/usr/lib/modules", release))
    image = first_file(Path(f"/boot/vmlinuz-{release}"), *(place / "vmlinuz" for place in places))
    if not image:
        raise KernelFailure(
            "no_such_kernel",
            f"no image of the running kernel: neither /boot/vmlinuz-{release} nor {places[1]}/vmlinuz",
            hint="name the file that it was booted from: image:/path/bzImage",
        )
    modules = next((place for place in places if (place / "modules.dep").is_file()), None)
    if Path("/proc/modules").exists() and not modules:
        raise KernelFailure(
            "no_such_kernel",
            f"no modules of the running kernel: there is no {places[0]}/modules.dep",
            hint=f"install the package that has them, or name them: image:{image},modules=DIRECTORY",
        )
    config = first_file(Path(f"/boot/config-{release}"), places[0] / "config", Path("/proc/config.gz"))
    return {"image": image, "modules": modules, "config": config}


def first_file(*paths: Path) -> Path | None:
    return next((path for path in paths if path.is_file()), None)


def read_release(image: Path) -> str:
    release: str | None = bzimage.read_release(image)
    if not release:
        raise KernelFailure(
            "no_kernel", f"{image}: no bzImage for x86", hint="name arch/x86/boot/bzImage of your build, not vmlinux"
        )
    if missing := bzimage.count_missing(image):
        raise KernelFailure(
            "damaged", f"{image}: cut off: {missing} of its bytes are missing", hint="copy or build it again"
        )
    return release


def ingredients(files: State) -> list[str]:
    """Sums of everything that is copied, with the names of modules."""
    parts = [kernel_cache.sha256_of(path) if path else "" for path in (files["image"], files["config"])]
    modules = files["modules"]
    if modules:
        parts += [f"{path.relative_to(modules)} {kernel_cache.sha256_of(path)}" for path in iter_modules(modules)]
    return parts


def iter_modules(modules: Path) -> Iterator[Path]:
    for path in sorted(modules.rglob("*")):
        if path.is_file() and path.relative_to(modules).parts[0] not in LINKS:
            yield path


def copy(files: State, directory: Path) -> None:
    shutil.copyfile(files["image"], directory / "vmlinuz")
    config, modules = files["config"], files["modules"]
    if config:
        content = config.read_bytes()
        (directory / "config").write_bytes(gzip.decompress(content) if config.suffix == ".gz" else content)
    if modules:
        shutil.copytree(modules, directory / "modules", ignore=lambda _, names: [one for one in LINKS if one in names])


def write_facts(directory: Path, key: str, release: str, files: State, *, is_running: bool) -> None:
    named = ",".join(f"{name}={files[name]}" for name in ("modules", "config") if files[name])
    kernel_cache.write_manifest(
        directory,
        {
            "key": key,
            "spec": "running" if is_running else f"image:{files['image']}{',' if named else ''}{named}",
            "kind": "running" if is_running else "image",
            "release": release,
            "build_id": bzimage.read_build_id(directory / "vmlinuz"),
            "source": {name: str(path) for name, path in files.items() if path},
        },
    )


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "cache": {"type": "path", "required": True},
            "image": {"type": "path"},
            "modules": {"type": "path"},
            "config": {"type": "path"},
            "progress": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    kernel_cache.run_module(module, work)


if __name__ == "__main__":
    main()
