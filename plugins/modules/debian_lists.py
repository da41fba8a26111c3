#!/usr/bin/python
# SPDX-License-Identifier: GPL-2.0-or-later
"""Ansible module: Debian's lists of kernel packages, without touching the machine's own package lists."""

from __future__ import annotations

DOCUMENTATION = r"""
module: debian_lists
short_description: Read which kernel packages Debian has
description:
  - Keeps apt's package lists of several suites in a directory of its own. Neither the machine's lists, nor its
    sources, nor its packages are changed. No privilege is needed.
  - The mirror is that of the machine's own apt sources, if it is a Debian; lists are verified with Debian's keyring.
  - Suites that the mirror does not have, or that cannot be verified, are left out and named with the reason.
  - Lists that are there are not renewed unless O(refresh) says so, or what is wanted is not in them.
version_added: 0.2.0
author:
  - xdprepro developers (@xdprepro)
options:
  directory:
    description: Where the lists are kept.
    type: path
    required: true
  refresh:
    description: Whether lists that are there are renewed.
    type: bool
    default: false
  suite:
    description: A suite to read besides those that are always read, and the one that O(package) must be in.
    type: str
    default: ''
  package:
    description: A package that is wanted; lists without it are renewed, as it may have come since. Empty means none.
    type: str
    default: ''
  version:
    description: The version that O(package) must have; empty means any.
    type: str
    default: ''
  holds:
    description: What O(package) is to hold.
    type: str
    choices: [image, source]
    default: image
  mirror:
    description: URI of the mirror; empty means that of the machine's own sources.
    type: str
    default: ''
  keyring:
    description: Keyring that the lists are verified with; empty means Debian's.
    type: str
    default: ''
extends_documentation_fragment:
  - xdprepro.lab.kernel_work
attributes:
  check_mode:
    description: Says whether lists would be read and reads none.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
"""

EXAMPLES = r"""
- name: Read the package lists
  xdprepro.lab.debian_lists:
    directory: /var/tmp/kernels/apt
"""

RETURN = r"""
index:
  description: File with the kernel packages of all suites.
  type: str
  returned: success
suites:
  description: The suites that were read.
  type: list
  elements: str
  returned: success
skipped:
  description: The suites that could not be read, each with the reason.
  type: dict
  returned: success
"""

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.xdprepro.lab.plugins.module_utils import debian_index, kernel_cache
from ansible_collections.xdprepro.lab.plugins.module_utils.kernel_cache import KernelFailure

# Those that may have kernels, by the mirror that has them; a mirror keeps old ones for some years.
SUITES = (
    *("bullseye", "bullseye-security"),
    *("bookworm", "bookworm-updates", "bookworm-security", "bookworm-backports"),
    *("trixie", "trixie-updates", "trixie-security", "trixie-backports"),
    *("forky", "forky-security", "forky-backports", "sid"),
)
KEYRINGS = tuple(Path("/usr/share/keyrings", f"debian-archive-keyring.{end}") for end in ("gpg", "pgp"))
FINDERS = {"image": debian_index.find_image_packages, "source": debian_index.find_source_package}
HELPER = Path("/usr/lib/apt/apt-helper")
MIRROR_HINT = "set XDPREPRO_DEBIAN_MIRROR to the URI of a Debian mirror, or use an image:, tarball: or git: kernel"

# The machine's own configuration still counts for proxies and logins, but not its sources, its pinning and its hooks,
# some of which empty the machine's package cache (as in Docker's images). As a mirror may be frozen, age is no fault.
CONFIGURATION = """\
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
Dir::State "{directory}";
Dir::State::status "{directory}/status";
Dir::Cache "{directory}/cache";
Dir::Etc::sourceparts "-";
Dir::Etc::preferences "-";
Dir::Etc::preferencesparts "-";
APT::Architecture "amd64";
APT::Architectures {{ "amd64"; }};
APT::Sandbox::User "{user}";
APT::Get::AllowUnauthenticated "false";
APT::Update::Error-Mode "any";
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
Acquire::Retries "2";
"""

State = dict[str, Any]


def work(params: State, check_mode: bool) -> State:
    directory = Path(params["directory"])
    with kernel_cache.start_lock(directory.with_name("locks") / "apt.lock"):
        path = directory / "index.json"
        index = read_index(path)
        changed = index is None or params["refresh"] or lacks(index, params)
        if changed and not check_mode:
            index = read_suites(directory, params)
            write_index(path, index)
    index = index or {"suites": [], "skipped": {}}
    return {"changed": changed, "index": str(path), "suites": index["suites"], "skipped": index["skipped"]}


def read_index(path: Path) -> State | None:
    if not path.exists():
        return None
    index: State = json.loads(path.read_text())
    return index


def write_index(path: Path, index: State) -> None:
    new = path.with_name(f"{path.name}.new")
    new.write_text(json.dumps(index, indent=1))
    new.replace(path)


def lacks(index: State, params: State) -> bool:
    """Whether what is wanted is not in it, and may have come since: a suite, or a package."""
    if params["suite"] not in ("", *index["suites"], *index["skipped"]):
        return True
    if not params["package"]:
        return False
    find = FINDERS[params["holds"]]
    try:
        find(index, params["package"], version=params["version"], suite=params["suite"])
    except KernelFailure as failure:
        return bool(failure.reason.startswith("no_such_"))
    return False


def read_suites(directory: Path, params: State) -> State:
    """One suite after the other, as apt fails for all when it fails for one."""
    if not HELPER.exists():
        raise KernelFailure("no_tool", f"{HELPER}: not found: packages need apt", hint="use another kind of kernel")
    mirrors = find_mirrors(params["mirror"])
    keyring = find_keyring(params["keyring"])
    configuration = write_configuration(directory)
    index: State = {"suites": [], "skipped": {}, "packages": []}
    wanted = [*SUITES, *([params["suite"]] if params["suite"] not in ("", *SUITES) else [])]
    for done, suite in enumerate(wanted):
        kernel_cache.tell(params["progress"], f"package lists: {suite}, {done + 1} of {len(wanted)}")
        mirror = mirrors["security" if suite.endswith("-security") else "main"]
        try:
            index["packages"] += read_suite(configuration, suite, mirror, keyring)
        except KernelFailure as failure:
            index["skipped"][suite] = str(failure)
        else:
            index["suites"].append(suite)
    if not index["suites"]:
        # That a mirror does not have all suites is no reason; that it cannot be reached or verified is.
        reasons = sorted(index["skipped"].values(), key=lambda reason: "does not have a Release file" in reason)
        raise KernelFailure("no_mirror", f"{mirrors['main']}: no suite can be read: {reasons[0]}", hint=MIRROR_HINT)
    return index


def read_suite(configuration: Path, suite: str, mirror: str, keyring: Path) -> list[State]:
    name = f"{suite}-{hashlib.sha256(mirror.encode()).hexdigest()[:8]}"
    sources, lists = configuration.with_name(f"{name}.list"), configuration.with_name("lists") / name
    sources.write_text(f"deb [arch=amd64 target=Packages signed-by={keyring}] {mirror} {suite} main\n")
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    # apt would spend most of its time on an index of all packages, of which we want few.
    places = (f"Dir::Etc::sourcelist={sources}", f"Dir::State::Lists={lists}", "pkgCacheFile::Generate=false")
    options = [word for place in places for word in ("-o", place)]
    kernel_cache.run(["apt-get", "-c", configuration, *options, "-qq", "update"], what=suite)
    packages: list[State] = []
    for path in lists.glob("*_Packages*"):
        text = kernel_cache.run([HELPER, "cat-file", path], what=suite)
        packages += debian_index.parse_packages(text, suite, mirror)
    return packages


def write_configuration(directory: Path) -> Path:
    (directory / "cache/archives/partial").mkdir(parents=True, exist_ok=True)
    (directory / "status").touch()
    path = directory / "apt.conf"
    # Everything is in a directory of the user's, where apt's own user may not even look.
    path.write_text(CONFIGURATION.format(directory=directory, user="root" if not os.geteuid() else ""))
    return path


def find_mirrors(mirror: str) -> dict[str, str]:
    """URI of the main archive and of the security archive."""
    if not mirror:
        return find_own_mirrors()
    security = re.sub(r"/debian(/?)$", r"/debian-security\1", mirror)
    return {"main": mirror, "security": security}


def find_own_mirrors() -> dict[str, str]:
    """Those of the machine's sources, but not what others publish for suites of the same names."""
    if not re.search(r"^ID=[\"']?debian[\"']?$", Path("/etc/os-release").read_text(), re.MULTILINE):
        raise KernelFailure("no_mirror", "this machine is no Debian, so its sources name no mirror", hint=MIRROR_HINT)
    form = "$(COMPONENT)|$(ORIGIN)|$(RELEASE)|$(REPO_URI)"
    found: dict[str, str] = {}
    for line in kernel_cache.run(["apt-get", "indextargets", "--format", form], what="apt's sources").splitlines():
        component, origin, release, uri = line.split("|", 3)
        if component == "main" and origin in ("Debian", "$(ORIGIN)", ""):
            found.setdefault("security" if release.endswith("-security") else "main", uri)
    if "main" not in found:
        raise KernelFailure("no_mirror", "no Debian mirror in the sources of this machine's apt", hint=MIRROR_HINT)
    return {"security": find_mirrors(found["main"])["security"], **found}


def find_keyring(keyring: str) -> Path:
    for path in (Path(keyring),) if keyring else KEYRINGS:
        if path.exists():
            return path.absolute()
    raise KernelFailure(
        "no_keyring",
        f"{keyring or KEYRINGS[0]}: not found, and nothing is used that is not verified",
        hint="install debian-archive-keyring, or name a keyring in XDPREPRO_DEBIAN_KEYRING",
    )


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "refresh": {"type": "bool", "default": False},
            "suite": {"type": "str", "default": ""},
            "package": {"type": "str", "default": ""},
            "version": {"type": "str", "default": ""},
            "holds": {"type": "str", "choices": list(FINDERS), "default": "image"},
            "mirror": {"type": "str", "default": ""},
            "keyring": {"type": "str", "default": "", "no_log": False},
            "progress": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    kernel_cache.run_module(module, work)


if __name__ == "__main__":
    main()
