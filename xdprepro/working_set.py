# SPDX-License-Identifier: GPL-2.0-or-later
"""Working sets that a suite gives as a multiple of a cache, so that a sweep means the same on every machine."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from xdprepro.cases import Case

LINE_BYTES = 64
LINES_MAX = 10_000_000


def resolve_lines(case: Case, dut: Mapping[str, Any]) -> Case:
    """The case with its lines as a number, where the probe of the DUT tells the cache; else as it is.

    The number is stored with the case, the caches with the probe.
    """
    if not isinstance(case.lines, str):
        return case
    cache, _, factor = case.lines.partition("*")
    size_bytes = dut.get("caches", {}).get(f"{cache}_bytes")
    if not size_bytes:
        return case
    return replace(case, lines=min(max(1, round(size_bytes * float(factor) / LINE_BYTES)), LINES_MAX))


def missing_cache(case: Case) -> str:
    """Why a case cannot run whose lines were not resolved, or nothing."""
    if isinstance(case.lines, str):
        return f"lines = {case.lines}: the machine does not tell the size of that cache"
    return ""
