# SPDX-License-Identifier: GPL-2.0-or-later
"""What the tests share: the agent that was built, and a check that skips here and fails in CI."""

import os
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def need(condition: bool, reason: str) -> None:
    """Skip where a test cannot run, with the command that would fix it; with CI set, fail."""
    if condition:
        return
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def agent() -> Path:
    """The built agent."""
    path = ROOT / "native/build/xdprepro-agent"
    need(path.exists(), "no agent: run 'make build'")
    return path


@pytest.fixture(scope="session")
def root_user() -> None:
    """Root and iproute2, for tests that make namespaces."""
    need(os.geteuid() == 0, "needs root: run the tests with sudo")
    need(shutil.which("ip") is not None, "no ip command: run 'make setup'")
