#!/usr/bin/python
# SPDX-License-Identifier: GPL-2.0-or-later
"""Ansible module: a source tree out of a git repository."""

from __future__ import annotations

DOCUMENTATION = r"""
module: git_tree
short_description: Check a commit of a kernel repository out
description:
  - Keeps a bare mirror and one worktree for each repository in the cache, and checks the commit out there, so that the
    next commit changes only the files that differ. The history is always complete.
  - A repository that is a path is only read, and what is not committed there is no part of the source.
version_added: 0.2.0
author:
  - xdprepro developers (@xdprepro)
options:
  cache:
    description: The cache; mirror and worktree are in its directory C(sources).
    type: path
    required: true
  repository:
    description: URL or path. What logs in, in a URL, is used and not kept.
    type: str
    required: true
  ref:
    description: A branch, a tag, a commit, or an expression like C(HEAD~3).
    type: str
    required: true
extends_documentation_fragment:
  - xdprepro.lab.kernel_work
attributes:
  check_mode:
    description: Says whether another commit would be checked out; the mirror is renewed all the same, to know that.
    support: partial
  diff_mode:
    description: There is nothing to show.
    support: none
"""

EXAMPLES = r"""
- name: Check a release out
  xdprepro.lab.git_tree:
    cache: /var/tmp/kernels
    repository: /usr/src/linux
    ref: v6.1
"""

RETURN = r"""
tree:
  description: The top of the source.
  type: str
  returned: success
source_id:
  description: Id of the git tree.
  type: str
  returned: success
spec:
  description: The spec that gives this source again.
  type: str
  returned: success
commit:
  description: Id of the commit.
  type: str
  returned: success
"""

import hashlib
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.xdprepro.lab.plugins.module_utils import kernel_cache, source_tree
from ansible_collections.xdprepro.lab.plugins.module_utils.kernel_cache import KernelFailure

COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
# Of a URL, git's own short form for ssh included; anything else is a path.
REMOTE = re.compile(r"[a-z][a-z0-9+.-]*://|[^/]+:[^/]")
# Also commits that no branch leads to, which only the reflog of the user still knows.
GIVE_ALL = "git -c uploadpack.allowAnySHA1InWant=true upload-pack"

State = dict[str, Any]


def work(params: State, check_mode: bool) -> State:
    repository, progress = params["repository"], params["progress"]
    check_repository(repository)
    shown = kernel_cache.hide_login(repository)
    name = f"git-{hashlib.sha256(shown.encode()).hexdigest()[:16]}"
    tree = source_tree.tree_path(Path(params["cache"]), name)
    mirror = tree.with_name(f"{name}.git")
    with kernel_cache.start_lock(source_tree.lock_path(tree)):
        remove_stale_locks(mirror)
        commit = fetch(mirror, repository, params["ref"], progress)
        source_id = git(mirror, "rev-parse", f"{commit}^{{tree}}")
        changed = not is_at(tree, commit)
        if changed and not check_mode:
            kernel_cache.tell(progress, f"checking {commit[:12]} out")
            check_out(mirror, tree, commit)
            source_tree.check_top(tree)
    spec = f"git:{shown}@{commit}"
    return {"changed": changed, "tree": str(tree), "source_id": source_id, "spec": spec, "commit": commit}


def check_repository(repository: str) -> None:
    if not REMOTE.match(repository) and not Path(repository).is_dir():
        raise KernelFailure("no_such_file", f"{repository}: no such directory, and no URL")


def remove_stale_locks(mirror: Path) -> None:
    """A git that was killed leaves them, and nobody else uses the mirror while we hold our lock."""
    for pattern in ("*.lock", "refs/**/*.lock", "worktrees/*/*.lock"):
        for path in mirror.glob(pattern):
            path.unlink()


def fetch(mirror: Path, repository: str, ref: str, progress: str) -> str:
    """The commit, which is in the mirror afterwards."""
    if REMOTE.match(repository):
        return fetch_remote(mirror, repository, ref, progress)
    # What HEAD~3 is, only the repository itself knows.
    commit = resolve(Path(repository), ref, repository)
    if not mirror.exists():
        clone(mirror, repository, progress)
    if not have_commit(mirror, commit):
        kernel_cache.tell(progress, f"fetching {commit[:12]} from {repository}")
        git(mirror, "fetch", "--quiet", "--no-tags", "--upload-pack", GIVE_ALL, "--", repository, commit)
    return commit


def fetch_remote(mirror: Path, repository: str, ref: str, progress: str) -> str:
    if not mirror.exists():
        clone(mirror, repository, progress)
    elif not (COMMIT.fullmatch(ref) and have_commit(mirror, ref)):
        kernel_cache.tell(progress, f"fetching from {repository}")
        git(mirror, "fetch", "--quiet", "--prune", "--", repository, "+refs/*:refs/*")
    return resolve(mirror, ref, repository)


def clone(mirror: Path, repository: str, progress: str) -> None:
    staging = mirror.with_name(f".{mirror.name}.new")
    shutil.rmtree(staging, ignore_errors=True)
    mirror.parent.mkdir(parents=True, exist_ok=True)
    argv = ["git", "clone", "--quiet", "--mirror", "--", repository, staging]
    kernel_cache.run(argv, what=repository, poll=show_size(progress, staging, f"cloning {repository}"))
    # Each fetch says it anew.
    git(staging, "config", "--remove-section", "remote.origin")
    staging.replace(mirror)


def show_size(progress: str, directory: Path, what: str) -> Callable[[], None]:
    """How large a clone will be is not known before."""

    def poll() -> None:
        packs = directory.glob("objects/pack/*")
        kernel_cache.tell(progress, f"{what}: {sum(path.stat().st_size for path in packs) / 1e6:.0f} MB")

    return poll


def resolve(repository: Path, ref: str, what: str) -> str:
    try:
        return git(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    except KernelFailure as failure:
        if "dubious ownership" in str(failure):
            raise
        raise KernelFailure(
            "no_such_ref", f"{what}: no commit {ref}", hint="name a branch, a tag or a commit that it has"
        ) from None


def have_commit(mirror: Path, commit: str) -> bool:
    try:
        git(mirror, "cat-file", "-e", f"{commit}^{{commit}}")
    except KernelFailure:
        return False
    return True


def is_at(tree: Path, commit: str) -> bool:
    """Whether that commit is checked out there and nothing was changed."""
    if not (tree / ".git").exists():
        return False
    try:
        return git(tree, "rev-parse", "HEAD") == commit and not git(tree, "status", "--porcelain", "--ignored")
    except KernelFailure:
        return False


def check_out(mirror: Path, tree: Path, commit: str) -> None:
    if not (tree / ".git").exists():
        shutil.rmtree(tree, ignore_errors=True)
        git(mirror, "worktree", "prune")
        git(mirror, "worktree", "add", "--quiet", "--force", "--detach", "--no-checkout", str(tree), commit)
    git(tree, "checkout", "--quiet", "--force", "--detach", commit)
    git(tree, "clean", "-ffdxq")


def git(repository: Path, *words: str) -> str:
    # A hook or a filter of the user's could change what is checked out.
    quiet = ("-c", "core.hooksPath=/dev/null", "-c", "core.autocrlf=false", "-c", "advice.detachedHead=false")
    output: str = kernel_cache.run(["git", "-C", repository, *quiet, *words], what=str(repository))
    return output.strip()


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "cache": {"type": "path", "required": True},
            "repository": {"type": "str", "required": True},
            "ref": {"type": "str", "required": True},
            "progress": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    kernel_cache.run_module(module, work)


if __name__ == "__main__":
    main()
