# SPDX-License-Identifier: GPL-2.0-or-later
"""Trials that the agent really did: tests/data/*.jsonl.

On a veth pair between two namespaces, or on emulated adapters in a guest that was counted. The first line says what was
recorded, each other line is one message of one side, as a journal has it.
"""

import json
from pathlib import Path
from typing import Any

from xdprepro.cases import Case, complete_params, make_case
from xdprepro.sample import Trial, TrialKey, parse_stream

DATA = Path(__file__).parent / "data"

# Those with what was wrong with them on purpose; other flags are those of a busy machine.
FLAGGED = {
    "late_start": {"short_warmup"},
    "beside_the_socket": {"wrong_queue"},
    "redirect_elsewhere": {"loss_open", "not_returned", "no_packets"},
}


def load_recording(name: str) -> tuple[Trial, Case]:
    """The trial of a recording, and the case that it was of."""
    head, *lines = map(json.loads, (DATA / f"{name}.jsonl").read_text().splitlines())
    case = make_case(complete_params(head["case"]))
    dut, tester = (parse_stream(line["msg"] for line in lines if line["side"] == side) for side in ("dut", "tester"))
    return Trial(TrialKey(case.id, 0, 0), 0, 0, "ok", "", dut, tester), case


def read_driver(name: str) -> str:
    """The driver of both ports of a recording."""
    return str(_read_head(name)["driver"])


def read_params(name: str) -> dict[str, Any]:
    """The parameters of a recording's case; one that was counted has the packets of its windows."""
    head: dict[str, Any] = _read_head(name)
    return complete_params(head["case"]) | {key: head[key] for key in ("packets",) if key in head}


def _read_head(name: str) -> dict[str, Any]:
    head: dict[str, Any] = json.loads((DATA / f"{name}.jsonl").read_text().splitlines()[0])
    return head
