# SPDX-License-Identifier: GPL-2.0-or-later
"""Other programs read a sealed file: xarray with both engines, h5py, netCDF4. Counters stay what they are."""

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray
from made import COSTS, FLAG_NAMES, GUEST, add_profiles, make_flags, make_run

from xdprepro.archive import seal
from xdprepro.archive.schema import SAMPLE_MASKS
from xdprepro.sample import PROFILE_SIDES

CASE = "xdp.drop.no-touch.native.60B"
XSK = "xsk.rxdrop.native.copy.60B"
RUN = add_profiles(make_run(), XSK)


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return seal(RUN, tmp_path_factory.mktemp("runs"), make_flags(RUN), FLAG_NAMES)


@pytest.fixture(params=["h5netcdf", "netcdf4"])
def tree(request: pytest.FixtureRequest, sealed: Path) -> Any:
    with xarray.open_datatree(sealed, engine=request.param) as tree:
        yield tree.load()


def text(values: Any) -> list[str]:
    """netCDF4 gives fixed-length names as str, h5netcdf as bytes."""
    return [value.decode() if isinstance(value, bytes) else str(value) for value in values.tolist()]


def counter(tree: Any, case_id: str, name: str, *, cpu: int, queue: int) -> Any:
    """boot x trial x sample of one counter, found by its labels."""
    case = tree[f"cases/{case_id}"]
    at = text(case["counter"].values).index(name)
    return case["counters"].sel(cpu=cpu, queue=queue).isel(counter=at).values


def test_xarray_shows_exact_unsigned_counters(tree: Any) -> None:
    values = counter(tree, CASE, "XDP_DROP.packets", cpu=3, queue=1)
    assert values.dtype == np.uint64
    for trial in RUN.trials:
        if trial.key.case_id == CASE:
            wanted = [sample.counters["xdp_prog.cpu3.rxq1.XDP_DROP.packets"] for sample in trial.dut.samples]
            assert min(wanted) > 2**53
            assert values[trial.key.boot, trial.key.trial].tolist() == wanted


def test_xarray_shows_every_group_with_named_dimensions(tree: Any) -> None:
    assert {group.removeprefix(f"/cases/{XSK}") for group in tree.groups if group.startswith(f"/cases/{XSK}")} == {
        "",
        "/edges",
        "/profile",
        "/profile/memory",
        "/tester",
        "/xsk_app",
    }
    for node in tree.subtree:
        for variable in node.dataset.variables.values():
            assert not [dim for dim in variable.dims if str(dim).startswith("phony")]


def test_xarray_shows_times_as_whole_numbers(tree: Any) -> None:
    case = tree[f"cases/{CASE}"]
    assert case["t_epoch_ns"].dtype == np.int64
    assert int(case["t_epoch_ns"][0, 0]) == next(t for t in RUN.trials if t.key == (CASE, 0, 0)).t_utc_ns
    assert case["t0_ns"].attrs["unit"] == "ns"


def test_xarray_shows_the_edges(tree: Any) -> None:
    edges = tree[f"cases/{CASE}/edges"]
    at = text(edges["edge_counter"].values).index("dut.netdev.rx_bytes")
    assert edges["values"].isel(edge=1, edge_counter=at).values.tolist() == [[2**64 - 1] * 2] * 2
    absent = text(edges["edge_counter"].values).index("dut.ethtool.rx_queue_0_drops")
    assert edges["present"].isel(edge=0, edge_counter=absent).values.tolist() == [[1, 0], [1, 0]]


def test_xarray_shows_profiles_by_function_and_side(tree: Any) -> None:
    profile = tree[f"cases/{XSK}/profile"]
    meanings = profile["side"].attrs["flag_meanings"].split()
    assert meanings == list(PROFILE_SIDES)
    rows = list(zip(text(profile["function"].values), (meanings[side] for side in profile["side"].values), strict=True))
    assert (profile["insn"].dtype, profile["insn"].dims) == (np.uint64, ("boot", "trial", "function"))
    for trial in RUN.trials:
        if trial.profile:
            at = {"boot": trial.key.boot, "trial": trial.key.trial}
            insn = dict(zip(rows, profile["insn"].isel(at).values.tolist(), strict=True))
            assert {row[:2]: row.insn for row in trial.profile.rows} == {row: n for row, n in insn.items() if n}
            assert int(profile["packets"].isel(at)) == trial.profile.packets
            assert int(profile["total_insn"].isel(at)) == sum(insn.values()) > 2**53
            assert int(profile["memory/present"].isel(at)) == trial.profile.has_memory
    assert (profile.attrs["plugin_sha256"], profile.attrs["qemu_version"]) == (GUEST["plugin_sha256"], GUEST["qemu"])


def test_xarray_gives_instructions_per_packet_the_way_it_is_documented(tree: Any) -> None:
    profile = tree[f"cases/{XSK}/profile"]
    insn, packets = (profile[name].astype("i8").diff("trial") for name in ("insn", "packets"))
    receive = profile["side"] == 0
    per_packet = (insn.where(receive, 0).sum("function") / packets).isel(trial=0)
    wanted = sum(each for (_, side), (_, each) in COSTS.items() if side == "receive")
    assert per_packet.values.tolist() == [wanted] * len(RUN.boots)


def test_xarray_shows_flags_with_their_meanings(tree: Any) -> None:
    flags = tree[f"cases/{CASE}"]["trial_flags"]
    assert flags.attrs["flag_meanings"].split() == list(FLAG_NAMES)
    assert np.atleast_1d(flags.attrs["flag_masks"]).tolist() == [1, 2, 4]
    measured = tree[f"cases/{CASE}"]["valid"]
    assert measured.attrs["flag_meanings"].split() == list(SAMPLE_MASKS)
    assert measured[0, 0].values.tolist() == [2, 0, 0, 4]


def test_xarray_shows_parameters_and_skipped_cases(tree: Any) -> None:
    case = tree[f"cases/{CASE}"]
    assert (case.attrs["attach_mode"], int(case.attrs["frame_len"]), case.attrs["status"]) == ("native", 60, "measured")
    assert int(case.attrs["cpus.sampler"]) == 0
    skipped = tree["cases/xsk.rxdrop.native.zero-copy.60B"]
    assert skipped.attrs["status"] == "skipped"
    assert skipped.attrs["reason"].endswith("Operation not supported")


def test_xarray_shows_the_fingerprint_as_attributes(tree: Any) -> None:
    assert tree["fingerprint/host"].attrs["host_key"] == "0123456789abcdef"
    assert tree["fingerprint/kernel"].attrs["mitigations.retbleed"] == "Not affected"
    assert tree.attrs["Conventions"] == "CF-1.11"


def test_h5py_alone_reads_everything_the_way_it_is_documented(sealed: Path) -> None:
    with h5py.File(sealed) as file:
        case = file["cases"][CASE]
        names = [name.decode() for name in case["counter"]]
        assert names == ["XDP_DROP.bytes", "XDP_DROP.packets"]
        assert [dim[0].name.rpartition("/")[2] for dim in case["counters"].dims] == [
            "boot",
            "trial",
            "sample",
            "cpu",
            "queue",
            "counter",
        ]
        document = file["documents/kernel_config"]
        assert document[()].tobytes()[: document.attrs["size"]].decode() == RUN.documents["kernel_config"]
        reports = json.loads(case["agent_reports"][()].tobytes())
        assert reports["1/0"]["dut"]["done"]["attach"]["prog_tag"] == "a04f5eef06a7f555"
        assert json.loads(file["plan"][()].tobytes())["cases"][0][0] == "xdp.tx.swap-macs.native.60B"


def test_file_explains_its_own_schema(sealed: Path) -> None:
    with h5py.File(sealed) as file:
        schema = json.loads(file["schema/schema_json"][()].tobytes())
        for name, var in schema["groups"]["cases/*"].items():
            dataset = file["cases"][CASE][name]
            assert dataset.dtype.kind == "S" if var["dtype"] == "S" else dataset.dtype.str == var["dtype"], name


def test_every_dataset_is_compressed_and_checksummed(sealed: Path) -> None:
    def check(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            found = (item.chunks is not None, item.shuffle, item.compression, item.compression_opts, item.fletcher32)
            assert found == (True, True, "gzip", 4, True), name

    with h5py.File(sealed) as file:
        file.visititems(check)
        assert file.libver == ("v110", "v110") or file.id.get_create_plist().get_version()[0] >= 2


def test_no_attribute_makes_a_reader_turn_counters_into_floats(sealed: Path) -> None:
    def check(_: str, item: Any) -> None:
        assert not {"_FillValue", "missing_value", "scale_factor", "add_offset", "units"} & set(item.attrs)

    with h5py.File(sealed) as file:
        file.visititems(check)
