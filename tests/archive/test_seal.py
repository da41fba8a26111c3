# SPDX-License-Identifier: GPL-2.0-or-later
"""Sealing: what was measured is what is read, the same bytes each time, and a disk that refuses costs nothing."""

import hashlib
import json
import multiprocessing
import stat
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from disks import fill, start_as_nobody, start_file_limit, start_read_only, start_tmpfs
from made import FLAG_NAMES, make_flags, make_random_run, make_run

from xdprepro.archive import canonical, load_flags, load_run, prepare_directory, seal, verify_run
from xdprepro.errors import STORAGE, XdpreproError
from xdprepro.sample import Reading, Run, Sample, Stream, Trial

RUN = make_run()
CASE = "xdp.drop.no-touch.native.60B"


def seal_made(run: Run, directory: Path) -> Path:
    return seal(run, directory, make_flags(run), FLAG_NAMES)


def files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_run_comes_back_equal(tmp_path: Path) -> None:
    assert load_run(seal_made(RUN, tmp_path)) == RUN


def test_cases_keep_the_order_of_the_suite(tmp_path: Path) -> None:
    assert list(load_run(seal_made(RUN, tmp_path)).cases) == list(RUN.cases)


def test_flags_come_back(tmp_path: Path) -> None:
    assert load_flags(seal_made(RUN, tmp_path)) == (make_flags(RUN), FLAG_NAMES)


@pytest.mark.parametrize("seed", range(40))
def test_any_run_comes_back_and_is_whole(tmp_path: Path, seed: int) -> None:
    run = make_random_run(seed)
    path = seal_made(run, tmp_path)
    assert canonical(load_run(path)) == canonical(run)
    assert load_flags(path)[0] == make_flags(run)
    assert verify_run(path) == []


def test_run_without_any_trial_or_boot_comes_back(tmp_path: Path) -> None:
    run = replace(RUN, boots=(), trials=(), status="partial")
    path = seal(run, tmp_path, {}, FLAG_NAMES)
    assert load_run(path) == run
    assert verify_run(path) == []


def test_same_run_gives_the_same_bytes_in_another_process_later(tmp_path: Path) -> None:
    first = seal_made(RUN, tmp_path)
    (tmp_path / "again").mkdir()
    script = f"""
import sys, time
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from made import FLAG_NAMES, make_flags, make_run
from xdprepro.archive import seal
time.sleep(1.1)  # any time stamp in the file would be another second
run = make_run()
seal(run, Path({str(tmp_path / "again")!r}), make_flags(run), FLAG_NAMES)
"""
    subprocess.run([sys.executable, "-c", script], check=True, cwd=Path(__file__).parents[2])
    assert (tmp_path / "again" / first.name).read_bytes() == first.read_bytes()


def test_equal_runs_give_the_same_bytes_whatever_the_order_of_their_dicts(tmp_path: Path) -> None:
    def turn(tree: Mapping[str, Any]) -> dict[str, Any]:
        return {
            key: turn(value) if isinstance(value, Mapping) else value for key, value in reversed(list(tree.items()))
        }

    (tmp_path / "turned").mkdir()
    cases = {case_id: turn(parameters) for case_id, parameters in RUN.cases.items()}
    turned = replace(RUN, documents=turn(RUN.documents), fingerprint=turn(RUN.fingerprint), cases=cases)
    assert turned == RUN
    assert seal_made(turned, tmp_path / "turned").read_bytes() == seal_made(RUN, tmp_path).read_bytes()


def test_sealed_files_are_read_only_and_checkable_with_sha256sum(tmp_path: Path) -> None:
    path = seal_made(RUN, tmp_path)
    assert files(tmp_path) == [f"{RUN.run_id}.h5", f"{RUN.run_id}.h5.sha256", f"{RUN.run_id}.json"]
    assert {stat.S_IMODE(one.stat().st_mode) for one in tmp_path.iterdir()} == {0o444}
    subprocess.run(["sha256sum", "--check", "--strict", f"{path.name}.sha256"], cwd=tmp_path, check=True)


def test_manifest_says_what_a_list_needs(tmp_path: Path) -> None:
    path = seal_made(RUN, tmp_path)
    manifest = json.loads(path.with_suffix(".json").read_text())
    assert manifest["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert manifest["size_bytes"] == path.stat().st_size
    assert (manifest["boots"], manifest["trials"], manifest["failed"]) == (2, 12, 0)
    assert manifest["flagged"] == sum(1 for mask in make_flags(RUN).values() if mask)
    assert manifest["host_key"] == "0123456789abcdef"
    assert manifest["skipped"] == list(RUN.skipped)


def test_sealing_again_changes_nothing_and_completes_what_is_missing(tmp_path: Path) -> None:
    path = seal_made(RUN, tmp_path)
    before = {one.name: one.read_bytes() for one in tmp_path.iterdir()}
    path.with_suffix(".json").unlink()
    path.with_name(f"{path.name}.sha256").unlink()
    assert seal_made(RUN, tmp_path) == path
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == before


def test_sealed_run_is_never_replaced_by_another(tmp_path: Path) -> None:
    path = seal_made(RUN, tmp_path)
    before = path.read_bytes()
    with pytest.raises(XdpreproError, match="is there already, with other content") as caught:
        seal_made(replace(RUN, suite="other"), tmp_path)
    assert caught.value.status == STORAGE
    assert path.read_bytes() == before
    assert len(files(tmp_path)) == 3


def test_stale_part_is_rebuilt_and_gone(tmp_path: Path) -> None:
    part = tmp_path / f".{RUN.run_id}.h5.part"
    part.write_bytes(b"\x89HDF half of it" * 100_000)
    assert load_run(seal_made(RUN, tmp_path)) == RUN
    assert not part.exists()


def test_processes_that_seal_one_run_at_once_do_no_harm(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    gate = fork.Barrier(4)

    def work() -> None:
        gate.wait()
        try:
            seal_made(RUN, tmp_path)
        except XdpreproError as error:
            sys.exit(0 if "another command is writing it" in error.message else 1)

    processes = [fork.Process(target=work) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    path = seal_made(RUN, tmp_path)
    assert verify_run(path) == []
    assert len(files(tmp_path)) == 3


def with_stream(run: Run, **changes: object) -> Run:
    """The run with another DUT stream in its first trial."""
    trial = run.trials[0]
    return replace(run, trials=(replace(trial, dut=replace(trial.dut, **changes)), *run.trials[1:]))  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [-1, 2**64, 1.5, True, "7", None])
def test_counter_that_is_no_u64_is_refused_by_name(tmp_path: Path, value: object) -> None:
    sample = Sample("measure", 1, 2, {"xdp_prog.cpu0.rxq0.XDP_DROP.packets": value})  # type: ignore[dict-item]
    with pytest.raises(XdpreproError, match=r"xdp_prog\.cpu0\.rxq0\.XDP_DROP\.packets is") as caught:
        seal_made(with_stream(RUN, samples=(sample,)), tmp_path)
    assert caught.value.status == STORAGE
    assert files(tmp_path) == []


def test_source_read_twice_at_one_edge_is_not_merged_silently(tmp_path: Path) -> None:
    twice = (Reading("netdev", 1, 2, {"rx_packets": 1}), Reading("netdev", 3, 4, {"rx_packets": 2}))
    with pytest.raises(XdpreproError, match="reads back as other than what was written"):
        seal_made(with_stream(RUN, edges={"start": twice}), tmp_path)
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"boots": ()}, "of no boot"),
        ({"cases": {}}, "of no case"),
        ({"trials": (*RUN.trials, replace(RUN.trials[0], slot=99))}, "same place"),
        ({"trials": (replace(RUN.trials[0], status="odd"),)}, "ended 'odd'"),
        ({"boots": (replace(RUN.boots[0], kind="odd"), RUN.boots[1])}, "is a 'odd'"),
        ({"boots": RUN.boots[::-1]}, "stands at place"),
    ],
)
def test_run_that_contradicts_itself_is_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    run = replace(RUN, **change)  # type: ignore[arg-type]
    with pytest.raises(XdpreproError, match=message):
        seal(run, tmp_path, {}, FLAG_NAMES)
    assert files(tmp_path) == []


def test_flag_without_a_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(XdpreproError, match="have no name"):
        seal(RUN, tmp_path, {RUN.trials[0].key: 8}, FLAG_NAMES)


def test_reason_longer_than_its_column_is_kept_whole(tmp_path: Path) -> None:
    reason = "dut: verifier: " + "\u00e4" * 70_000
    failed = replace(RUN.trials[0], status="failed", reason=reason, dut=Stream(), tester=Stream())
    run = replace(RUN, trials=(failed, *RUN.trials[1:]), skipped={"xsk.other": reason})
    path = seal_made(run, tmp_path)
    assert load_run(path) == run
    assert verify_run(path) == []


def test_only_cpus_and_queues_that_occur_take_room(tmp_path: Path) -> None:
    run = make_run(cpus=tuple(range(0, 256, 4)), boots=2, trials=2, samples=24)
    path = seal_made(run, tmp_path)
    with h5py.File(path) as file:
        counters = file["cases"][CASE]["counters"]
        assert counters.shape == (2, 2, 24, 64, 64, 2)
        assert file["cases"][CASE]["cpu"][()].tolist() == list(range(0, 256, 4))
        assert np.prod(counters.chunks) * 8 <= 8 << 20
    assert path.stat().st_size < 4 << 20
    assert load_run(path) == run


def check_refused(directory: Path, reason: str) -> None:
    """Sealing fails with the reason and leaves nothing behind."""
    before = files(directory)
    with pytest.raises(XdpreproError, match=f"{directory}.*{reason}.*sealing run {RUN.run_id}") as caught:
        seal_made(RUN, directory)
    assert caught.value.status == STORAGE
    assert caught.value.hint
    assert files(directory) == before


def test_full_disk_leaves_nothing_and_sealing_later_works(tmp_path: Path) -> None:
    with start_tmpfs(tmp_path / "small", size_kib=512) as small:
        fill(small / "filler")
        check_refused(small, "No space left on device")
        (small / "filler").write_bytes(bytes(450 << 10))
        check_refused(small, "No space left on device")
        (small / "filler").unlink()
        assert load_run(seal_made(RUN, small)) == RUN


def test_file_size_limit_leaves_nothing(tmp_path: Path) -> None:
    with start_file_limit(50_000):
        check_refused(tmp_path, "File too large")


def test_read_only_disk_is_named(tmp_path: Path) -> None:
    with start_tmpfs(tmp_path / "disk", size_kib=512) as disk, start_read_only(disk):
        check_refused(disk, "Read-only file system")
        with pytest.raises(XdpreproError, match="Read-only file system, while preparing the archive"):
            prepare_directory(disk)


def test_ordinary_user_is_told_what_is_missing(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    folder.chmod(0o755)
    with start_as_nobody(), pytest.raises(XdpreproError, match="Permission denied") as caught:
        prepare_directory(folder)
    assert "permission" in caught.value.hint
    assert files(folder) == []


def test_folder_is_made_with_those_above_it_and_nothing_in_it(tmp_path: Path) -> None:
    assert prepare_directory(tmp_path / "a/b") == tmp_path / "a/b"
    assert files(tmp_path / "a/b") == []


def test_path_through_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(XdpreproError, match="Not a directory, while preparing the archive"):
        prepare_directory(tmp_path / "file" / "runs")


def test_trials_of_a_partial_run_are_kept_as_they_are(tmp_path: Path) -> None:
    def cut(trial: Trial) -> Trial:
        return replace(trial, status="interrupted", reason="cut", dut=replace(trial.dut, done={}), tester=Stream())

    run = replace(RUN, status="partial", trials=(*RUN.trials[:5], cut(RUN.trials[5])))
    assert load_run(seal_made(run, tmp_path)) == run
