#!/usr/bin/python
# SPDX-License-Identifier: GPL-2.0-or-later
"""Ansible module: a kernel built from source into the cache, once."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_make
short_description: Build a kernel into the cache
description:
  - Builds image and modules outside the source, in a directory that is kept for each source path, base with fragments
    and compiler, so that the next build compiles only what changed.
  - The kernel's key is made of all that determines it. Where the cache has that key nothing is built, and a second
    build of the same key waits for the first.
  - Fails when the source changed while it was built, or when functions of the packet's path are not aligned.
version_added: 0.2.0
author:
  - xdprepro developers (@xdprepro)
options:
  tree:
    description: The kernel's source.
    type: path
    required: true
  source_id:
    description: What tells this source from every other, such as the id of a git tree.
    type: str
    required: true
  spec:
    description: How the user named the kernel, as resolved.
    type: str
    required: true
  cache:
    description: The cache; the kernel is made in its directory C(kernels).
    type: path
    required: true
  config:
    description: What M(xdprepro.lab.kernel_config) returned.
    type: dict
    required: true
  base:
    description: The base of the configuration, for the manifest.
    type: str
    default: ''
  fragments:
    description: The fragments of the configuration, for the manifest.
    type: list
    elements: str
    default: []
  cc:
    description: The compiler.
    type: str
    default: gcc
  jobs:
    description: How many compilers run at once; 0 means one for each CPU.
    type: int
    default: 0
extends_documentation_fragment:
  - xdprepro.lab.kernel_work
attributes:
  check_mode:
    description: Says whether the kernel would be built and builds none. Without the source its key is empty.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
"""

EXAMPLES = r"""
- name: Build the kernel
  xdprepro.lab.kernel_make:
    tree: /usr/src/linux
    source_id: "{{ kernel_source_id }}"
    spec: "git:/usr/src/linux@v6.1"
    cache: /var/tmp/kernels
    config: "{{ kernel_config }}"
"""

RETURN = r"""
key:
  description: Name of the kernel's directory in the cache.
  type: str
  returned: success
seconds:
  description: How long make ran; 0 where nothing was built.
  type: int
  returned: success
"""

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.xdprepro.lab.plugins.module_utils import (
    bzimage,
    kbuild,
    kept_build,
    kernel_cache,
    source_tree,
)
from ansible_collections.xdprepro.lab.plugins.module_utils.kbuild import Tree
from ansible_collections.xdprepro.lab.plugins.module_utils.kernel_cache import KernelFailure

FORMAT = "built 1"  # counts up when the same source is to give other files

# Functions of the packet's path, by which the alignment is judged; static ones may be inlined, so not all are there.
HOT = {
    *("net_rx_action", "__napi_poll", "napi_poll", "process_backlog", "__netif_receive_skb_core"),
    *("veth_poll", "igb_poll", "virtnet_poll", "vmxnet3_poll", "dev_hard_start_xmit"),
    *("xdp_do_redirect", "xdp_return_frame", "xsk_generic_rcv", "page_pool_alloc_pages", "page_pool_put_page"),
    *("kmem_cache_alloc", "kmem_cache_free"),
}

State = dict[str, Any]


def work(params: State, check_mode: bool) -> State:
    if check_mode and not source_tree.is_there(params["tree"]):
        return {"changed": True, "key": "", "seconds": 0}
    with source_tree.start_reading(Path(params["tree"]), Path(params["cache"])):
        return provide(params, check_mode)


def provide(params: State, check_mode: bool) -> State:
    cache, config = Path(params["cache"]), params["config"]
    kbuild.check_tree(Path(params["tree"]))
    text = Path(config["config"]).read_text()
    key = kernel_cache.key_of(config["release"], FORMAT, *ingredients(params, text))
    if kernel_cache.is_whole(cache, key) or check_mode:
        return {"changed": not kernel_cache.is_whole(cache, key), "key": key, "seconds": 0}
    begin_s = time.monotonic()
    kernel_cache.tell(params["progress"], f"building {key} once nobody else does")
    with kernel_cache.start_entry(cache, key) as directory:
        if directory:
            build(directory, key, params, text)
    return {"changed": directory is not None, "key": key, "seconds": round(time.monotonic() - begin_s)}


def ingredients(params: State, config: str) -> list[str]:
    """All that determines the kernel. The paths of source and output do not, as no byte of it depends on them."""
    described = {name: params["config"][name] for name in ("variables", "tools")}
    return [params["source_id"], config, json.dumps(described, sort_keys=True)]


def build(entry: Path, key: str, params: State, config: str) -> None:
    output = build_directory(params)
    tree = Tree(Path(params["tree"]), output, compiler(params["cc"]), params["config"]["variables"])
    log = output / "build.log"
    with kernel_cache.start_lock(output.with_name(f"{output.name}.lock")):
        began_ns = kept_build.prepare(tree, config)
        compile_kernel(tree, config, log, params)
        kept_build.check_unchanged(tree.path, began_ns, log)
        check_alignment((output / "System.map").read_text(), log)
        install(tree, entry, config, log)
        kernel_cache.write_manifest(entry, facts(tree, key, params))


def build_directory(params: State) -> Path:
    """One for each source path, base with fragments, and set of tools.

    The final configuration has no part in it: new versions bring new symbols, and make knows what depends on which.
    """
    config = params["config"]
    name = Path(params["base"]).stem or "fragments"
    parts = [params["tree"], config["asked"], params["cc"], json.dumps(config["tools"], sort_keys=True)]
    return Path(params["cache"], "builds", kernel_cache.key_of(name, *parts))


def compiler(cc: str) -> str:
    return f"ccache {cc}" if shutil.which("ccache") else cc


def compile_kernel(tree: Tree, config: str, log: Path, params: State) -> None:
    targets = ["bzImage", "modules"] if "CONFIG_MODULES=y\n" in config else ["bzImage"]
    kbuild.run_make(
        tree,
        targets,
        log=log,
        jobs=params["jobs"] or len(os.sched_getaffinity(0)),
        environment=ccache_environment(Path(params["cache"])),
        poll=lambda: tell_progress(log, params),
    )
    if (tree.output / ".config").read_text() != config:
        raise KernelFailure("build_failed", "make changed the configuration", hint="remove the cache", log=log)


def ccache_environment(cache: Path) -> dict[str, str]:
    """Build directories share objects: the compiler maps their paths away, so the cache need not tell them apart."""
    return {"CCACHE_DIR": str(cache / "ccache"), "CCACHE_NOHASHDIR": "true", "CCACHE_MAXSIZE": "2G"}


def tell_progress(log: Path, params: State) -> None:
    kernel_cache.tell(params["progress"], f"building: {len(log.read_bytes().splitlines())} steps done")


def check_alignment(system_map: str, log: Path) -> None:
    """That a change in one function does not move the others within their cache lines."""
    symbols = (line.split() for line in system_map.splitlines())
    found = {name: int(address, 16) for address, _, name in symbols if name in HOT}
    crooked = sorted(name for name, address in found.items() if address % kbuild.ALIGNMENT_BYTES)
    if crooked or not found:
        fact = f"{', '.join(crooked) or 'none of the known functions'}: not at a multiple of 64 bytes"
        hint = "with CONFIG_EXPERT=y a kernel lets its functions be aligned"
        raise KernelFailure("not_aligned", fact, hint=hint, log=log)


def install(tree: Tree, entry: Path, config: str, log: Path) -> None:
    """Copy what the cache keeps; modules.builtin tells what is in the image, also where no module is apart."""
    shutil.copyfile(tree.output / "arch/x86/boot/bzImage", entry / "vmlinuz")
    shutil.copyfile(tree.output / "System.map", entry / "System.map")
    (entry / "config").write_text(config)
    if "CONFIG_MODULES=y\n" in config:
        base = entry / "base"
        kbuild.run_make(tree, [f"INSTALL_MOD_PATH={base}", "modules_install"], log=log)
        (made,) = (base / "lib/modules").iterdir()
        for link in ("build", "source"):
            (made / link).unlink(missing_ok=True)
        made.rename(entry / "modules")
        shutil.rmtree(base)
    shutil.copyfile(log, entry / "build.log")


def facts(tree: Tree, key: str, params: State) -> State:
    config = params["config"]
    return {
        "key": key,
        "spec": params["spec"],
        "kind": params["spec"].partition(":")[0],
        "release": config["release"],
        "build_id": bzimage.read_build_id(tree.output / "vmlinux"),
        "source": {
            "id": params["source_id"],
            "base": params["base"],
            "fragments": params["fragments"],
            **{name: config[name] for name in ("recipes", "variables", "tools")},
            "build_directory": str(tree.output),
        },
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "tree": {"type": "path", "required": True},
            "source_id": {"type": "str", "required": True},
            "spec": {"type": "str", "required": True},
            "cache": {"type": "path", "required": True},
            "config": {"type": "dict", "required": True},
            "base": {"type": "str", "default": ""},
            "fragments": {"type": "list", "elements": "str", "default": []},
            "cc": {"type": "str", "default": "gcc"},
            "jobs": {"type": "int", "default": 0},
            "progress": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    kernel_cache.run_module(module, work)


if __name__ == "__main__":
    main()
