# SPDX-License-Identifier: GPL-2.0-or-later
"""What of a run survives being stored, by the rules of archive/README.md."""

from dataclasses import replace

from xdprepro.sample import Profile, Run, Sample, Stream, Trial


def canonical(run: Run) -> Run:
    """What of a run a file can tell apart.

    Readings of an edge are ordered by source, edges without readings are left out, and so are zeros among the counters
    of the DUT's XDP program and the rows of a profile, where a zero and no entry mean the same.
    """
    return replace(run, trials=tuple(_canonical_trial(trial) for trial in run.trials))


def _canonical_trial(trial: Trial) -> Trial:
    dut = replace(trial.dut, samples=tuple(_without_zeros(sample) for sample in trial.dut.samples))
    profile = canonical_profile(trial.profile) if trial.profile else None
    return replace(trial, dut=_sort_edges(dut), tester=_sort_edges(trial.tester), profile=profile)


def _without_zeros(sample: Sample) -> Sample:
    counters = {key: n for key, n in sample.counters.items() if n or not key.startswith("xdp_prog.")}
    return replace(sample, counters=counters)


def canonical_profile(profile: Profile) -> Profile:
    """Rows in order of function and side, without those that are zero throughout."""
    return replace(profile, rows=tuple(sorted(row for row in profile.rows if any(row[2:]))))


def _sort_edges(said: Stream) -> Stream:
    edges = {edge: tuple(sorted(rs, key=lambda r: r.source)) for edge, rs in said.edges.items() if rs}
    return replace(said, edges=edges)
