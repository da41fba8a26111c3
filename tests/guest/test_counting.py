# SPDX-License-Identifier: GPL-2.0-or-later
"""What our programs cost beyond those that only return the action, in instructions of x86 that a kernel executes."""

import pytest
from guest_lab import dut_spec, generator_spec, make_job

from xdprepro import guest
from xdprepro.guest import Machine, read_counted
from xdprepro.kernels import find_kernel
from xdprepro.sample import Profile

pytestmark = [pytest.mark.vm, pytest.mark.usefixtures("qemu")]

PACKETS = 200
COUNTING_MAX = 12
# A case, its role, and the bare one.
PAIRS = [
    ("xdp.drop.no-touch", "sink", "bare.drop"),
    ("xdp.tx.swap-macs", "forward", "bare.tx.swap-macs"),
    ("xdp.redirect-map.swap-macs", "forward", "bare.redirect-map.swap-macs"),
]


@pytest.fixture(scope="module")
def insn(qemu: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """Instructions of the program of each case, and of the helper that it calls."""
    cases = [(case, role) for ours, role, bare in PAIRS for case in (ours, bare)]
    trials = [(dut_spec(case, role), generator_spec(PACKETS, window=slot)) for slot, (case, role) in enumerate(cases)]
    job = make_job("veth", *trials)
    directory = tmp_path_factory.mktemp("counting")
    done = guest.boot(find_kernel("deb:6.12"), Machine("veth"), job, directory=directory, deadline_s=120)
    assert done.failure is None
    profiles = read_counted(done).profiles
    return {case: count_program(profiles[slot]) for slot, (case, _) in enumerate(cases)}


def count_program(profile: Profile) -> int:
    return sum(
        row.insn
        for row in profile.rows
        if row.side == "receive" and (row.function.startswith("bpf:") or row.function == "bpf_get_smp_processor_id")
    )


@pytest.mark.parametrize(("case", "role", "bare"), PAIRS)
def test_counting_a_packet_costs_twelve_instructions_at_most(
    insn: dict[str, int], case: str, role: str, bare: str
) -> None:
    beyond = insn[case] - insn[bare]
    assert beyond % PACKETS == 0
    assert 0 < beyond // PACKETS <= COUNTING_MAX
