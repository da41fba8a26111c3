# SPDX-License-Identifier: GPL-2.0-or-later
"""What the tests of guests share: Debian's kernels, fetched once into the user's cache, and a QEMU."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import need

from xdprepro.errors import XdpreproError
from xdprepro.guest import check_qemu
from xdprepro.kernel import Kernel
from xdprepro.kernels import find_kernel


@pytest.fixture(scope="session")
def qemu(agent: Path) -> str:
    """QEMU's version; skips without it."""
    try:
        return check_qemu()
    except XdpreproError as error:
        need(False, f"{error.message}: {error.hint}")
        raise


@pytest.fixture(scope="session")
def kernel(qemu: str) -> Iterator[Kernel]:
    """Debian 12's kernel, the middle of the ages that are supported."""
    yield find_kernel("deb:6.1")
