# SPDX-License-Identifier: GPL-2.0-or-later
"""Trials that the agent really did, on a veth pair between two namespaces: tests/data/*.jsonl.

The first line says what was recorded, each other line is one message of one side, as a journal has it.
"""

import json
from pathlib import Path

from xdprepro.sample import Trial, TrialKey, parse_stream
from xdprepro.suite import Case

DATA = Path(__file__).parent / "data"


def load_recording(name: str) -> tuple[Trial, Case]:
    """The trial of a recording, and the case that it was of."""
    head, *lines = map(json.loads, (DATA / f"{name}.jsonl").read_text().splitlines())
    case = Case(**head["case"])
    dut, tester = (parse_stream(line["msg"] for line in lines if line["side"] == side) for side in ("dut", "tester"))
    return Trial(TrialKey(case.id, 0, 0), 0, 0, "ok", "", dut, tester), case
