# SPDX-License-Identifier: GPL-2.0-or-later
"""Profiles in the archive: every count comes back, nothing counted is no zero, and a lie is refused by name."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import pytest
from made import CASES, FLAG_NAMES, LONG_NAME, add_profiles, journal_records, make_flags, make_profile, make_run

from xdprepro.archive import Journal, canonical, list_runs, load_run, recover, seal, verify_run
from xdprepro.errors import STORAGE, XdpreproError
from xdprepro.sample import PROFILE_SIDES, Profile, ProfileRow, Run, parse_profile

CASE = "xdp.drop.no-touch.native.60B"
RUN = add_profiles(make_run(samples=2), CASE)


def seal_made(run: Run, directory: Path) -> Path:
    return seal(run, directory, make_flags(run), FLAG_NAMES)


def with_profiles(*profiles: Profile | None) -> Run:
    """RUN with other profiles in the first trials of its case, in order of execution."""
    of_case = [trial for trial in RUN.trials if trial.key.case_id == CASE]
    changed = {trial.slot: replace(trial, profile=one) for trial, one in zip(of_case, profiles, strict=False)}
    return replace(RUN, trials=tuple(changed.get(trial.slot, trial) for trial in RUN.trials))


def test_profiles_ports_and_command_lines_come_back_equal(tmp_path: Path) -> None:
    run = load_run(seal_made(RUN, tmp_path))
    assert run == RUN
    assert [trial.profile is not None and trial.profile.has_memory for trial in run.trials].count(True) == 2


def test_trial_that_was_not_counted_is_not_one_that_counted_nothing(tmp_path: Path) -> None:
    nothing = Profile(packets=0, rows=(), total_insn=0)
    run = with_profiles(None, make_profile(1000), make_profile(0, memory=True), nothing)
    path = seal_made(run, tmp_path)
    profiles = {trial.key[1:]: trial.profile for trial in load_run(path).trials if trial.key.case_id == CASE}
    assert profiles == {
        (0, 0): None,
        (0, 1): make_profile(1000),
        (1, 0): make_profile(0, memory=True),
        (1, 1): nothing,
    }
    assert verify_run(path) == []


def test_case_in_which_no_function_ran_has_only_totals(tmp_path: Path) -> None:
    run = with_profiles(*[Profile(packets=7, rows=(), total_insn=0)] * 4)
    path = seal_made(run, tmp_path)
    assert load_run(path) == run
    assert verify_run(path) == []
    with h5py.File(path) as file:
        assert sorted(file["cases"][CASE]["profile"]) == ["packets", "present", "total_insn"]


def test_row_of_zeros_is_no_row_and_order_does_not_matter(tmp_path: Path) -> None:
    profile = make_profile(1000)
    zero = ProfileRow("never_ran", "receive", 0)
    run = with_profiles(replace(profile, rows=(*reversed(profile.rows), zero)))
    path = seal_made(run, tmp_path)
    assert canonical(load_run(path)) == canonical(run) == canonical(with_profiles(profile))


def test_function_on_two_sides_has_two_rows_in_one_order(tmp_path: Path) -> None:
    path = seal_made(RUN, tmp_path)
    with h5py.File(path) as file:
        profile = file["cases"][CASE]["profile"]
        names = [name.decode() for name in profile["function"]]
        sides = [PROFILE_SIDES[side] for side in profile["side"]]
        assert list(zip(names, sides, strict=True)) == sorted(zip(names, sides, strict=True))
        assert [side for name, side in zip(names, sides, strict=True) if name == "veth_poll [veth]"] == [
            "generator",
            "receive",
        ]
        assert [dim[0].name.rpartition("/")[2] for dim in profile["insn"].dims] == ["boot", "trial", "function"]


def test_names_have_the_width_of_the_longest(tmp_path: Path) -> None:
    with h5py.File(seal_made(RUN, tmp_path)) as file:
        dtype = file["cases"][CASE]["profile/function"].dtype
    assert len(LONG_NAME.encode()) == 124
    assert (dtype.kind, dtype.itemsize) == ("S", 128)


def test_what_counted_is_said_beside_the_counts(tmp_path: Path) -> None:
    ready = {"ready": True, "generator": {"generator": "af-packet", "cpus": [0]}}
    trials = tuple(replace(t, tester=replace(t.tester, ready=ready)) for t in RUN.trials)
    with h5py.File(seal_made(replace(RUN, trials=trials), tmp_path)) as file:
        attrs = {name: value.decode() for name, value in file["cases"][CASE]["profile"].attrs.items()}
    assert attrs == {
        "generator": "af-packet",
        "plugin_sha256": "9" * 64,
        "qemu_version": "10.0.2",
        "window": "to the last packet",
    }


def test_real_sizes_stay_small(tmp_path: Path) -> None:
    """Seven cases, two boots of two windows, 1500 functions each: counts as different as real ones."""
    cases = {f"case-{number}": CASES[CASE] for number in range(7)}
    made = [trial for trial in RUN.trials if trial.key.case_id == CASE]
    trials = []
    for number, case_id in enumerate(cases):
        for at, trial in enumerate(made):
            rows = tuple(
                ProfileRow(
                    f"function_{row}_of_some_length", PROFILE_SIDES[row % 4], (row * 2654435761 >> 9) % 10**6 + at
                )
                for row in range(1500)
            )
            profile = Profile(1000, rows, sum(row.insn for row in rows))
            key = trial.key._replace(case_id=case_id)
            trials.append(replace(trial, key=key, slot=4 * number + at, profile=profile))
    path = seal_made(replace(RUN, cases=cases, skipped={}, trials=tuple(trials)), tmp_path)
    assert path.stat().st_size < 1 << 20


LIES: dict[str, tuple[Profile, str]] = {
    "row twice": (Profile(1, (ProfileRow("f", "app", 1), ProfileRow("f", "app", 2)), 3), r"f \(app\): has two rows"),
    "no side": (Profile(1, (ProfileRow("f", "left", 1),), 1), r"f \(left\): the side is none of"),
    "no name": (Profile(1, (ProfileRow("", "app", 1),), 1), "a row has the function ''"),
    "negative": (Profile(1, (ProfileRow("f", "app", -1),), 1), r"f \(app\): its counts are"),
    "65 bits": (Profile(1, (), 2**64), "total_insn is 18446744073709551616, no unsigned 64-bit number"),
    "half a memory pass": (
        Profile(1, (ProfileRow("f", "app", 1, 1, 1, 1), ProfileRow("g", "app", 1)), 2),
        r"g \(app\): its counts are",
    ),
}


@pytest.mark.parametrize("name", LIES)
def test_profile_that_contradicts_itself_is_not_sealed(tmp_path: Path, name: str) -> None:
    profile, message = LIES[name]
    with pytest.raises(XdpreproError, match=message) as caught:
        seal_made(with_profiles(profile), tmp_path)
    assert caught.value.status == STORAGE
    assert list(tmp_path.iterdir()) == []


def write_journal(records: list[dict[str, Any]], directory: Path) -> Path:
    with Journal(directory, records[0]) as journal:
        for record in records[1:]:
            journal.append(record)
    return journal.path


def flags_of(run: Run) -> tuple[Any, Any]:
    return make_flags(run), FLAG_NAMES


def test_journal_gives_the_same_file_as_the_run(tmp_path: Path) -> None:
    (tmp_path / "direct").mkdir()
    path = recover(write_journal(list(journal_records(RUN)), tmp_path), flags_of)
    assert path
    assert path.read_bytes() == seal_made(RUN, tmp_path / "direct").read_bytes()


def test_guest_that_died_before_its_last_profile_leaves_the_others(tmp_path: Path) -> None:
    records = list(journal_records(RUN))
    last = max(at for at, record in enumerate(records) if record["rec"] == "profile")
    path = recover(write_journal(records[:last], tmp_path), flags_of)
    assert path
    run = load_run(path)
    assert run.status == "partial"
    assert verify_run(path) == []
    slot = records[last]["slot"]
    assert [trial.profile for trial in run.trials] == [
        t.profile if t.slot < slot else None for t in RUN.trials[: slot + 1]
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"profile": {"packets": 1, "rows": []}}, r"\('profile'\) has no profile: it has not the form of one"),
        ({"profile": {"packets": 1, "rows": [["f", "x", 1]], "total_insn": 1}}, "the side is none of"),
        ({"profile": []}, r"\('profile'\) has 'profile' of \[\]"),
        ({"rec": "document", "name": 3, "text": ""}, r"\('document'\) has 'name' of 3"),
        ({"rec": "fingerprint"}, r"\('fingerprint'\) has no 'add'"),
        (
            {"rec": "boot", "boot": 0, "kind": "boot", "boot_id": "", "kernel_release": "", "t_utc_ns": 1, "port": 7},
            "'port' of 7",
        ),
    ],
)
def test_record_that_is_none_keeps_its_journal(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    records = list(journal_records(RUN))
    at = next(at for at, record in enumerate(records) if record["rec"] == "profile")
    records[at] = (records[at] if "rec" not in change else {}) | change
    journal = write_journal(records, tmp_path)
    with pytest.raises(XdpreproError, match=f"record {at + 1} .*{message}") as caught:
        recover(journal, flags_of)
    assert caught.value.status == STORAGE
    assert journal.exists()


def test_list_tells_the_ports_from_the_manifest_and_from_the_file(tmp_path: Path) -> None:
    boots = [replace(boot, port=port) for boot, port in zip(RUN.boots, ("igb", "veth"), strict=True)]
    path = seal_made(replace(RUN, boots=tuple(boots)), tmp_path)
    manifest = path.with_suffix(".json")
    assert json.loads(manifest.read_text())["ports"] == ["igb", "veth"]
    [said] = list_runs(tmp_path)
    manifest.unlink()
    [read] = list_runs(tmp_path)
    assert said == read
    assert (said.lab_kind, said.ports) == ("vm", ("igb", "veth"))


def test_manifest_of_a_newer_version_is_still_one(tmp_path: Path) -> None:
    manifest = seal_made(RUN, tmp_path).with_suffix(".json")
    manifest.chmod(0o644)
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"suite": "said", "novelty": 1}))
    [info] = list_runs(tmp_path)
    assert (info.suite, info.problem) == ("said", "")


def test_manifest_of_a_run_without_ports_is_that_of_format_1_0_0(tmp_path: Path) -> None:
    assert "ports" not in json.loads(seal_made(make_run(), tmp_path).with_suffix(".json").read_text())


def test_profile_in_json_is_what_is_written_there() -> None:
    said = {"packets": 2, "total_insn": 9, "rows": [["f", "receive", 8, 2, 1, 1], ["g", "rest", 1, 0, 0, 0]]}
    assert parse_profile(said).rows == (ProfileRow("f", "receive", 8, 2, 1, 1), ProfileRow("g", "rest", 1, 0, 0, 0))
