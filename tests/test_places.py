# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of drivers: its patterns are patterns, its classes are known, and what was never checked says so."""

import re

import pytest
from recorded import DATA, read_driver

from xdprepro.places import CLASSES, PLACES

UNCHECKED = {"i40e", "ice", "ixgbe", "mlx5_core", "ena"}


def test_only_drivers_that_were_seen_to_close_are_checked() -> None:
    recorded = {read_driver(path.stem) for path in DATA.glob("*.jsonl")}
    assert {driver for driver, places in PLACES.items() if places.checked} == recorded
    assert PLACES.keys() - recorded == UNCHECKED


@pytest.mark.parametrize("driver", PLACES)
def test_a_table_has_known_classes_and_patterns_of_edges(driver: str) -> None:
    places = PLACES[driver]
    assert (places.before.keys() | places.hints.keys()) <= CLASSES.keys()
    patterns = [places.sent, places.not_sent, places.either, *places.before.values(), *places.hints.values()]
    for pattern in filter(None, patterns):
        re.compile(pattern)
        assert all(part.startswith(("netdev\\.", "ethtool\\.")) for part in re.split(r"\|(?=netdev|ethtool)", pattern))


@pytest.mark.parametrize("driver", PLACES)
def test_a_driver_counts_what_it_sent_or_what_it_did_not_and_not_both(driver: str) -> None:
    assert bool(PLACES[driver].sent) != bool(PLACES[driver].not_sent)
