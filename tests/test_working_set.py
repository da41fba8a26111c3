# SPDX-License-Identifier: GPL-2.0-or-later
"""Working sets by the caches of the machine."""

from dataclasses import replace

import pytest

from xdprepro.cases import Case
from xdprepro.needs import find_guest_refusal
from xdprepro.working_set import missing_cache, resolve_lines

PROBE = {"caches": {"l1_bytes": 32768, "l2_bytes": 1 << 20, "llc_bytes": 32 << 20}}
CASE = Case("xdp.drop.mem")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [("l1*0.5", 256), ("l2*1", 16384), ("llc*2", 1 << 20), ("llc*9999", 10_000_000), ("l1*0.000001", 1), (7, 7)],
)
def test_lines_are_those_of_the_cache(lines: int | str, expected: int) -> None:
    case = resolve_lines(replace(CASE, lines=lines), PROBE)
    assert case.lines == expected
    assert not missing_cache(case)
    assert f"lines-{expected}" in case.id


@pytest.mark.parametrize("probe", [{}, {"caches": {}}, {"caches": {"l1_bytes": 32768}}])
def test_unknown_cache_is_a_reason_to_skip(probe: dict[str, dict[str, int]]) -> None:
    case = resolve_lines(replace(CASE, lines="l2*2"), probe)
    assert case.lines == "l2*2"
    assert missing_cache(case) == "lines = l2*2: the machine does not tell the size of that cache"


def test_no_guest_has_caches_to_go_by() -> None:
    assert find_guest_refusal(replace(CASE, lines="llc*2")) == missing_cache(replace(CASE, lines="llc*2")) != ""
    assert find_guest_refusal(CASE) == ""
