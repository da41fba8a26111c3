# SPDX-License-Identifier: GPL-2.0-or-later
"""Streams that the agent really said go through journal and sealed file unchanged."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
from made import FLAG_NAMES, make_flags, make_run
from recorded import DATA

from xdprepro.archive import Journal, load_run, read_journal, recover, seal, verify_run
from xdprepro.sample import Run, parse_journal


def recorded_journal() -> Iterator[dict[str, Any]]:
    """A journal of one boot in which every recording is a case, measured twice."""
    recordings = {
        path.stem: [json.loads(line) for line in path.read_text().splitlines()] for path in DATA.glob("*.jsonl")
    }
    run = make_run()
    names = ("run_id", "plan_id", "suite", "lab", "lab_kind", "restarts", "trials_per_restart", "design")
    head = {"rec": "run", "t_utc_ns": run.created_utc_ns, **{name: getattr(run, name) for name in names}}
    cases = {stem: lines[0]["case"] for stem, lines in recordings.items()}
    yield head | {"fingerprint": run.fingerprint, "documents": run.documents, "cases": cases}
    yield {"rec": "boot", "boot": 0, "kind": "boot", "boot_id": "b", "kernel_release": "6.18", "t_utc_ns": 2}
    for slot, (stem, trial) in enumerate((stem, trial) for trial in range(2) for stem in recordings):
        yield {"rec": "trial", "slot": slot, "case_id": stem, "boot": 0, "trial": trial, "t_utc_ns": 3 + slot}
        yield from ({"rec": "line", "slot": slot, **line} for line in recordings[stem][1:])
        yield {"rec": "trial_end", "slot": slot, "status": "ok", "reason": ""}
    yield {"rec": "end", "status": "complete", "t_utc_ns": 99}


def flags_of(run: Run) -> tuple[Any, Any]:
    return make_flags(run), FLAG_NAMES


def test_recorded_trials_come_back_equal(tmp_path: Path) -> None:
    first, *records = recorded_journal()
    with Journal(tmp_path, first) as journal:
        for record in records:
            journal.append(record)
    run = parse_journal(read_journal(journal.path))
    assert len(run.trials) == 2 * len(list(DATA.glob("*.jsonl"))) > 0
    assert all(trial.dut.samples and trial.tester.samples and trial.dut.edges for trial in run.trials)
    path = recover(journal.path, flags_of)
    assert path
    # Not even canonical() is needed: agents read their sources in one order and leave zeros out.
    assert load_run(path) == run
    assert verify_run(path) == []


def test_counters_of_xdp_and_sockets_have_arrays_of_their_own(tmp_path: Path) -> None:
    run = parse_journal(recorded_journal())
    path = seal(run, tmp_path, *flags_of(run))
    with h5py.File(path) as file:
        others = [case["other/other_counter"][:] for case in file["cases"].values() if "other" in case]
        sources = {name.decode().partition(".")[0] for names in others for name in names}
    assert sources == {"xdp_remote", "tc_prog", "pkt_app", "udp_app", "netdev"}
