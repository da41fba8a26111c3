# SPDX-License-Identifier: GPL-2.0-or-later
"""The plugin's counts by function and side: addresses named or known to be nobody's, sums held against totals."""

from pathlib import Path

import pytest
from guest_lab import Line, dut_spec, generator_spec, make_job

from xdprepro import guest
from xdprepro.guest import Boot, Machine, read_counted
from xdprepro.guest.symbols import parse_kallsyms
from xdprepro.kernel import Kernel
from xdprepro.sample import Profile, ProfileRow, find_profile_fault

KALLSYMS = """\
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81001000 t __pfx_plain
ffffffff81001010 t plain
ffffffff81002000 T __memcpy
ffffffff81002000 W memcpy
ffffffff81003000 T _etext
ffffffffc0001000 t veth_poll\t[veth]
ffffffffc0001800 t veth_exit\t[veth]
ffffffffc0005000 t igb_poll\t[igb]
ffffffffc0009000 t bpf_prog_6deef7357e7b4530_xdp_dispatcher\t[bpf]
ffffffffc000a000 t bpf_dispatcher_xdp\t[bpf]
ffffffffc000b000 t bpf_trampoline_6442536467\t[bpf]
"""
DUT_PROGRAM, TESTER_PROGRAM = 0xFFFFFFFFC000C000, 0xFFFFFFFFC000D000
COUNTS = """\
xdprepro-count 1 api 4
window 0
context 0 generator
context 1 poll ffff888000000000
context 2 poll ffff888000001000
context 3 app
context 4 interrupt
context 5 rest
i ffffffff81001010 0 10
i ffffffffc000d004 0 7
i ffffffffc0001000 1 100
i 0xffffffffc0001004 1 100
i ffffffffc000c010 1 28
i ffffffffc0001000 2 50
i 401000 3 5
i ffffffff81002000 4 3
i ffffffff81003004 5 2
total 0 17
total 1 228
total 2 50
total 3 5
total 4 3
total 5 2
end 0
"""


def find(address: int) -> str:
    return parse_kallsyms(KALLSYMS).find(address)


@pytest.mark.parametrize(
    ("address", "name"),
    [
        (0xFFFFFFFF81001010, "plain"),
        (0xFFFFFFFF81001004, "plain"),  # the room before it
        (0xFFFFFFFF81001FFF, "plain"),
        (0xFFFFFFFF81002000, "memcpy"),
        (0xFFFFFFFF81003000, "unknown"),
        (0xFFFFFFFF80FFFFFF, "unknown"),
        (0xFFFFFFFFC00017FF, "veth_poll [veth]"),
        (0xFFFFFFFFC0001FFF, "veth_exit [veth]"),
        (0xFFFFFFFFC0002000, "unknown"),
        (0xFFFFFFFFC0005000, "igb_poll [igb]"),
        (0xFFFFFFFFC0006000, "unknown"),
        (0xFFFFFFFFC0009010, "bpf:other"),
        (0xFFFFFFFFC000A010, "bpf_dispatcher_xdp [bpf]"),
        (0xFFFFFFFFC000B010, "bpf_trampoline [bpf]"),
        (0xFFFFFFFFC000C000, "unknown"),
        (0x401000, "user"),
    ],
)
def test_address_has_its_function_or_none(address: int, name: str) -> None:
    assert find(address) == name


def test_function_at_the_end_of_a_section_is_not_called_after_it() -> None:
    text = "ffffffff81001000 T __softirqentry_text_end\nffffffff81001000 T __x86_indirect_thunk_array\n"
    assert parse_kallsyms(text).find(0xFFFFFFFF81001010) == "__x86_indirect_thunk_array"


def test_without_symbols_everything_in_the_kernel_is_unknown() -> None:
    assert parse_kallsyms("").find(0xFFFFFFFF81001010) == "unknown"


def edge(name: str, packets: int) -> Line:
    counters = {"cpu0.rxq0.XDP_DROP.packets": packets, "cpu0.rxq0.XDP_DROP.bytes": 60 * packets}
    return {"edge": name, "sources": [{"source": "xdp_prog", "t0_ns": 1, "t1_ns": 2, "counters": counters}]}


def trial_lines(slot: int, dut_program: int = DUT_PROGRAM) -> list[Line]:
    """A trial of five packets."""
    dut = {"attach": {"prog_name": "xdp_drop", "jited_addr": hex(dut_program), "jited_len": 64}}
    tester = {"generator": {"generator": "live-frames", "jited_addr": hex(TESTER_PROGRAM), "jited_len": 64}}
    said = [("dut", edge("start", 3)), ("dut", {"ready": True, **dut}), ("tester", {"ready": True, **tester})]
    return [{"slot": slot, "side": side, "msg": message} for side, message in [*said, ("dut", edge("end", 8))]]


def boot_with(directory: Path, counts: str | None, lines: list[Line]) -> Boot:
    path = directory / "counts.txt"
    if counts is not None:
        path.write_text(counts)
    every = (*lines, {"kallsyms": KALLSYMS[:100]}, {"kallsyms": KALLSYMS[100:]})
    return Boot(every, "", (), "10.0", "", "", "", None, 1.0, path)


def test_instructions_are_told_by_function_and_side(tmp_path: Path) -> None:
    profiles = read_counted(boot_with(tmp_path, COUNTS, trial_lines(0))).profiles
    assert profiles == {
        0: Profile(
            packets=5,
            rows=(
                ProfileRow("veth_poll [veth]", "receive", 200),
                ProfileRow("veth_poll [veth]", "generator", 50),
                ProfileRow("bpf:xdp_drop (dut)", "receive", 28),
                ProfileRow("plain", "generator", 10),
                ProfileRow("bpf:generator (tester)", "generator", 7),
                ProfileRow("user", "app", 5),
                ProfileRow("memcpy", "rest", 3),
                ProfileRow("unknown", "rest", 2),
            ),
            total_insn=305,
        )
    }


def test_where_the_dut_sends_the_tester_receives(tmp_path: Path) -> None:
    lines = trial_lines(0)
    programs = {
        side: {"attach": {"prog_name": name, "jited_addr": hex(address), "jited_len": 64}}
        for side, name, address in (("dut", "xdp_pass", TESTER_PROGRAM), ("tester", "xdp_drop", DUT_PROGRAM))
    }
    lines[1:3] = [{"slot": 0, "side": side, "msg": {"ready": True, **said}} for side, said in programs.items()]
    rows = read_counted(boot_with(tmp_path, COUNTS, lines)).profiles[0].rows
    assert ProfileRow("veth_poll [veth]", "receive", 200) in rows
    assert ProfileRow("bpf:xdp_drop (tester)", "receive", 28) in rows
    assert ProfileRow("veth_poll [veth]", "generator", 50) in rows


def test_program_is_another_one_in_the_next_window(tmp_path: Path) -> None:
    """The second trial's program is where the first one's generator was."""
    counts = COUNTS + COUNTS.partition("\n")[2].replace("window 0", "window 1").replace("end 0", "end 1")
    lines = trial_lines(0) + trial_lines(1, dut_program=0xFFFFFFFFC0001000)
    functions = {
        slot: {row.function for row in one.rows}
        for slot, one in read_counted(boot_with(tmp_path, counts, lines)).profiles.items()
    }
    assert "veth_poll [veth]" in functions[0]
    assert "veth_poll [veth]" not in functions[1]
    assert "bpf:xdp_drop (dut)" in functions[1]


def test_memory_is_told_of_every_row(tmp_path: Path) -> None:
    memory = "m ffffffffc0001000 1 40 20 2\nm ffffffffc0001800 1 1 0 1\nm ffffffffc000c000 1 9 8 7\ntotal 0 17"
    profiles = read_counted(boot_with(tmp_path, COUNTS.replace("total 0 17", memory), trial_lines(0))).profiles
    rows = {row[:2]: row[3:] for row in profiles[0].rows}
    assert rows["veth_poll [veth]", "receive"] == (40, 20, 2)
    assert rows["veth_exit [veth]", "receive"] == (1, 0, 1)
    assert rows["bpf:xdp_drop (dut)", "receive"] == (9, 8, 7)
    assert rows["plain", "generator"] == (0, 0, 0)
    assert find_profile_fault(profiles[0]) == ""


@pytest.mark.parametrize(
    ("old", "new", "fact"),
    [
        ("total 1 228", "total 1 229", "context 1 (poll) has 228 instructions, its total is 229"),
        ("total 1 228\n", "", "context 1 (poll) has 228 instructions, its total is 0"),
        ("context 3 app\n", "", "context 3 is of the kind None"),
        ("3 app", "3 elf", "context 3 is of the kind elf"),
        ("end 0\n", "", "window 0: it has no end"),
        ("xdprepro-count 1", "xdprepro-count 2", "begins with 'xdprepro-count 2 api 4'"),
        ("i ffffffff81001010 0 10", "i ffffffff81001010 0 ten", "window 0: "),
    ],
)
def test_window_that_contradicts_itself_is_no_profile(tmp_path: Path, old: str, new: str, fact: str) -> None:
    assert old in COUNTS
    boot = boot_with(tmp_path, COUNTS.replace(old, new), trial_lines(0))
    assert read_counted(boot).profiles == {}
    assert fact in read_counted(boot).faults[0]


BROKEN = {
    "no end": "context 0 generator\ni ffffffff81001010 0 10\n",
    "complaint": "error count: opened while another was open\n",
    "contradiction": "context 0 generator\ntotal 0 17\nend 1\n",
    "damaged line": "context 0\ntotal 0 17\nend 1\n",
}


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("no end", "it has no end"),
        ("complaint", "count: opened while another was open"),
        ("contradiction", "context 0 (generator) has 0 instructions, its total is 17"),
        ("damaged line", "list index out of range"),
    ],
)
def test_window_that_went_wrong_spoils_no_other(tmp_path: Path, what: str, reason: str) -> None:
    body = COUNTS.partition("\n")[2]
    third = body.replace("window 0", "window 2").replace("end 0", "end 2")
    lines = trial_lines(0) + trial_lines(1) + trial_lines(2)
    boot = boot_with(tmp_path, f"{COUNTS}window 1\n{BROKEN[what]}{third}", lines)
    assert list(read_counted(boot).profiles) == [0, 2]
    assert read_counted(boot).faults == {1: f"the counts of instructions are wrong: window 1: {reason}"}


def test_window_that_is_there_twice_is_no_profile(tmp_path: Path) -> None:
    body = COUNTS.partition("\n")[2]
    boot = boot_with(tmp_path, COUNTS + body + body, trial_lines(0))
    assert read_counted(boot).profiles == {}
    assert read_counted(boot).faults[0].endswith("window 0: it is there twice")


def test_file_that_was_cut_off_keeps_its_whole_windows(tmp_path: Path) -> None:
    cut = COUNTS + "window 1\ncontext 0 generator\ni ffffffff8100"
    boot = boot_with(tmp_path, cut, trial_lines(0) + trial_lines(1))
    assert list(read_counted(boot).profiles) == [0]
    assert read_counted(boot).faults[1].endswith("window 1: it has no end")


def test_number_that_was_cut_off_is_nobodys(tmp_path: Path) -> None:
    """Window 0, or the first digit of another one."""
    assert list(read_counted(boot_with(tmp_path, COUNTS + "window 0", trial_lines(0))).profiles) == [0]


@pytest.mark.parametrize(
    ("counts", "reason"),
    [
        (None, "counts.txt: No such file or directory"),
        ("xdprepro-count 1 api 4\n", "its window never closed"),
        (
            "xdprepro-count 1 api 4\nerror arm: it has too many marks\nerror open: counting was not armed\n",
            "arm: it has too many marks",
        ),
        (COUNTS.replace("0\n", "9\n") + "error close: none is open\nerror arm: cannot\n", "arm: cannot"),
    ],
)
def test_trial_without_a_window_has_the_counters_own_reason(tmp_path: Path, counts: str | None, reason: str) -> None:
    boot = boot_with(tmp_path, counts, trial_lines(0))
    assert read_counted(boot).profiles == {}
    assert read_counted(boot).faults == {0: f"no instructions were counted: {reason}"}


def test_trial_without_its_end_has_no_profile(tmp_path: Path) -> None:
    boot = boot_with(tmp_path, COUNTS, trial_lines(0)[:-1])
    assert read_counted(boot).profiles == {}
    assert read_counted(boot).faults == {0: "the DUT did not say how many packets it saw"}


def test_trial_that_failed_has_no_profile_but_its_own_reason(tmp_path: Path) -> None:
    end = {"trial_end": 0, "status": "failed", "reason": "dut: agent: it went"}
    boot = boot_with(tmp_path, COUNTS, [*trial_lines(0), end])
    assert read_counted(boot).profiles == {}
    assert read_counted(boot).faults == {0: "dut: agent: it went"}


def sender_as_dut() -> Line:
    return generator_spec(64, ifname="dut0")


@pytest.fixture(scope="module")
def counted(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Boot:
    """A short and a long window of a real kernel, after one that warms it up; then one that breaks, and a short one.

    The one that breaks has a generator as its DUT, which never says that it has drained.
    """
    trials = [
        (dut_spec() if count else sender_as_dut(), generator_spec(count or 256, window=slot))
        for slot, count in enumerate((256, 1024, 4096, 0, 1024))
    ]
    directory = tmp_path_factory.mktemp("counted")
    boot = guest.boot(kernel, Machine("veth"), make_job("veth", *trials), directory=directory, deadline_s=240)
    assert boot.failure is None
    return boot


@pytest.mark.vm
def test_real_packets_cost_what_their_functions_cost(counted: Boot) -> None:
    profiles = read_counted(counted).profiles
    short, long = profiles[1], profiles[2]
    assert (short.packets, long.packets) == (1024, 4096)
    insn = [{row[:2]: row.insn for row in one.rows} for one in (short, long)]
    program = ("bpf:xdp_drop_no_tou (dut)", "receive")
    cost, remainder = divmod(insn[1][program] - insn[0][program], long.packets - short.packets)
    assert remainder == 0
    assert 10 < cost < 100
    assert insn[0][program] == cost * short.packets
    assert insn[1]["veth_xdp_rcv_one [veth]", "receive"] >= 50 * long.packets
    assert ("veth_poll [veth]", "receive") in insn[1]
    assert ("bpf:generator (tester)", "generator") in insn[1]
    assert ("veth_xdp_xmit [veth]", "generator") in insn[1]


@pytest.mark.vm
def test_real_kernel_has_no_unknown_functions_on_the_receive_side(counted: Boot) -> None:
    for profile in read_counted(counted).profiles.values():
        assert find_profile_fault(profile) == ""
        assert not [row for row in profile.rows if row.function == "unknown"]
        assert not [row for row in profile.rows if row.function == "user" and row.side == "receive"]


@pytest.mark.vm
def test_trial_that_fails_within_its_window_spoils_no_other(counted: Boot) -> None:
    profiles = read_counted(counted).profiles
    assert list(profiles) == [0, 1, 2, 4]
    assert read_counted(counted).faults == {3: "dut: it did not say 'drained' within 15 s"}
    program = ("bpf:xdp_drop_no_tou (dut)", "receive")
    first, again = ({row[:2]: row.insn for row in profiles[slot].rows} for slot in (1, 4))
    assert again[program] == first[program]
