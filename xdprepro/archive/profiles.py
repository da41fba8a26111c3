# SPDX-License-Identifier: GPL-2.0-or-later
"""The profiles of a case: rows of functions that all its trials share, laid out as arrays and read back."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xdprepro.archive.canonical import canonical_profile
from xdprepro.archive.hdf5 import Array, Group, decode, write_attrs, write_var
from xdprepro.archive.schema import MEMORY, PROFILE, Var
from xdprepro.sample import PROFILE_SIDES, Profile, ProfileRow, Trial

TOTALS = ("packets", "total_insn")
COUNTS = ("insn", "loads", "stores", "lines")  # in the order of a ProfileRow

Profiles = Mapping[tuple[int, int], Profile]  # by boot and trial


def write_profiles(case: Group, trials: Sequence[Trial], guest: Mapping[str, Any]) -> None:
    """The groups `profile` and `profile/memory` of a case, each only if a trial was counted so.

    `guest` is the fingerprint's section about what counted.
    """
    counted = [(trial, canonical_profile(trial.profile)) for trial in trials if trial.profile]
    if not counted:
        return
    shape = case["trial_status"].shape
    profiles = {trial.key[1:]: profile for trial, profile in counted}
    names = sorted({row[:2] for profile in profiles.values() for row in profile.rows})
    arrays = _lay_out(profiles, shape, names) | {"present": _mark(profiles, shape)}
    if names:
        arrays |= {"function": [name for name, _ in names], "side": [PROFILE_SIDES.index(side) for _, side in names]}
    group = case.create_group("profile")
    write_attrs(group, _attrs([trial for trial, _ in counted], guest))
    _write(group, PROFILE, arrays)
    if with_memory := {at: profile for at, profile in profiles.items() if profile.has_memory}:
        _write(group.create_group("memory"), MEMORY, arrays | {"present": _mark(with_memory, shape)})


def _attrs(trials: Sequence[Trial], guest: Mapping[str, Any]) -> dict[str, Any]:
    """What counts are not compared across; the generator is the one that the agent used."""
    generators = {trial.tester.ready.get("generator", {}).get("generator", "") for trial in trials}
    return {
        "plugin_sha256": guest.get("plugin_sha256", ""),
        "qemu_version": guest.get("qemu", ""),
        "window": guest.get("window", ""),
        "generator": " ".join(sorted(generators)).strip(),
    }


def _lay_out(profiles: Profiles, shape: tuple[int, int], names: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The counts of every profile on boot x trial and, if there is any row, x row."""
    totals = {name: np.zeros(shape, "u8") for name in TOTALS}
    counts = {name: np.zeros((*shape, len(names)), "u8") for name in COUNTS if names}
    index = {name: at for at, name in enumerate(names)}
    for at, profile in profiles.items():
        totals["packets"][at], totals["total_insn"][at] = profile.packets, profile.total_insn
        for function, side, *values in profile.rows:
            for name, value in zip(COUNTS, values, strict=True):
                if value is not None:
                    counts[name][(*at, index[function, side])] = value
    return totals | counts


def _mark(profiles: Profiles, shape: tuple[int, int]) -> Array:
    marks = np.zeros(shape, "u1")
    for at in profiles:
        marks[at] = 1
    return marks


def _write(group: Group, table: Mapping[str, Var], arrays: Mapping[str, Any]) -> None:
    """The variables for which there are arrays, in the table's order: scales come first."""
    for name, var in table.items():
        if name in arrays:
            write_var(group, name, var, arrays[name])


def read_profiles(group: Group) -> dict[tuple[int, int], Profile]:
    """The profiles of a case from its group `profile`, by boot and trial."""
    names = _read_names(group) if "function" in group else []
    insn = [group["insn"][()]] if names else []
    memory = group.get("memory")
    extra = [memory[name][()] for name in COUNTS[1:]] if memory is not None else []
    present, packets, total_insn = (group[name][()] for name in ("present", "packets", "total_insn"))
    has_memory = memory["present"][()] if memory is not None else np.zeros_like(present)
    profiles = {}
    for boot, trial in np.argwhere(present).tolist():
        at = (boot, trial)
        arrays = [*insn, *extra] if has_memory[at] else insn
        rows = _read_rows(names, [array[at] for array in arrays])
        profiles[at] = Profile(packets=int(packets[at]), rows=rows, total_insn=int(total_insn[at]))
    return profiles


def _read_names(group: Group) -> list[tuple[str, str]]:
    sides = [PROFILE_SIDES[side] for side in group["side"][()].tolist()]
    return list(zip(map(decode, group["function"][()].tolist()), sides, strict=True))


def _read_rows(names: Sequence[tuple[str, str]], columns: Sequence[Array]) -> tuple[ProfileRow, ...]:
    """The rows of one profile: those that are not zero throughout."""
    if not columns:
        return ()
    table = np.stack(columns)
    return tuple(
        ProfileRow(*name, *values) for name, values in zip(names, table.T.tolist(), strict=True) if any(values)
    )
