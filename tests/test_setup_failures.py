# SPDX-License-Identifier: GPL-2.0-or-later
"""Set-ups that fail, each made on a real lab: doctor names what is wrong and how to mend it before a packet is lost.

docs/troubleshooting.md has the problem reports that they are after, and those that cannot be made here.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from agent_lab import Pair, run, start_agent
from conftest import ROOT

from xdprepro import provision
from xdprepro.bench import resolve_generator
from xdprepro.cli.doctor import _make_suite
from xdprepro.errors import XdpreproError
from xdprepro.lab import Lab
from xdprepro.preflight import ERROR, WARNING, Check, Place, find_checks, find_errors
from xdprepro.rehearsal import examine, find_xsk_holders
from xdprepro.specs import make_dut_spec, plan_cpus
from xdprepro.suite import Suite
from xdprepro.trial import read_probe

pytestmark = pytest.mark.netns

Made = Callable[[Lab], AbstractContextManager[object]]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, root_user: None, agent: Path) -> Iterator[Lab]:
    path = tmp_path_factory.mktemp("labs") / f"f{os.getpid()}"
    shutil.copytree(ROOT / "inventory/veth", path)
    made = provision.load_lab(path)
    provision.up(made)
    yield made
    provision.down(made)


def look(lab: Lab, suite: Suite) -> list[Check]:
    """What doctor would find."""
    place = Place(lab, read_probe(lab.dut), read_probe(lab.tester), find_xsk_holders(lab.dut.netns))
    found: list[Check] = []
    for case in suite.cases:
        resolved = resolve_generator(case, place.tester)
        checks = find_checks(resolved, place)
        found += checks if find_errors(checks) else [*checks, *examine(resolved, place, packets=True)]
    return found


# What is wrong, made and put back


@contextmanager
def mtu(lab: Lab, size: int) -> Iterator[None]:
    """Of both ends, as an inventory with that lab_mtu has it."""
    ends = [(str(host.netns), host.ifname) for host in (lab.dut, lab.tester)]
    for netns, ifname in ends:
        run("ip", "-n", netns, "link", "set", ifname, "mtu", str(size))
    try:
        yield
    finally:
        for netns, ifname in ends:
            run("ip", "-n", netns, "link", "set", ifname, "mtu", str(lab.mtu))


@contextmanager
def no_carrier(lab: Lab) -> Iterator[None]:
    run("ip", "-n", str(lab.tester.netns), "link", "set", lab.tester.ifname, "down")
    try:
        yield
    finally:
        run("ip", "-n", str(lab.tester.netns), "link", "set", lab.tester.ifname, "up")


def agent_with(lab: Lab, kind: str, settings: list[str] | None = None) -> AbstractContextManager[object]:
    """An agent of someone else, that is ready and stays so."""
    [case] = _make_suite([kind], settings or []).cases
    spec = make_dut_spec(lab, case, plan_cpus(read_probe(lab.dut)["cpus"], case), [0, 1])

    @contextmanager
    def hold() -> Iterator[None]:
        binary = ROOT / "native/build/xdprepro-agent"
        pair = Pair(binary, str(lab.dut.netns), str(lab.tester.netns), lab.dut.mac, lab.tester.mac)
        with start_agent(pair, pair.dut, spec) as one:
            one.wait_for("ready")
            yield

    return hold()


# An AF_XDP socket on queue 0 of the port in argv, with its UMEM and a fill ring (linux/if_xdp.h), and no XDP program.
HOLDER = """
import ctypes, mmap, socket, struct, sys
xsk = socket.socket(44, socket.SOCK_RAW)
area = mmap.mmap(-1, 64 * 4096)
address = ctypes.addressof(ctypes.c_char.from_buffer(area))
xsk.setsockopt(283, 4, struct.pack("QQIIIxxxx", address, len(area), 4096, 0, 0))
for ring in (2, 5, 6):
    xsk.setsockopt(283, ring, 64)
fill = mmap.mmap(xsk.fileno(), 4096, offset=0x100000000)
name = struct.pack("HHIII", 44, 2, socket.if_nametoindex(sys.argv[1]), 0, 0)
assert not ctypes.CDLL(None).bind(xsk.fileno(), name, len(name))
print("bound", flush=True)
sys.stdin.read()
"""


@contextmanager
def socket_only(lab: Lab) -> Iterator[None]:
    argv = ["ip", "netns", "exec", str(lab.dut.netns), sys.executable, "-c", HOLDER, lab.dut.ifname]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "bound\n"
        yield
        holder.communicate()


@contextmanager
def one_tx_queue(lab: Lab) -> Iterator[None]:
    run("ip", "netns", "exec", str(lab.dut.netns), "ethtool", "-L", lab.dut.ifname, "tx", "1")
    try:
        yield
    finally:
        run("ip", "netns", "exec", str(lab.dut.netns), "ethtool", "-L", lab.dut.ifname, "tx", str(lab.queues))


@dataclass(frozen=True)
class Failure:
    """`made` is what is wrong with the lab; else the case is what is wrong. `got` and `fix` are patterns."""

    reports: str
    kind: str
    id: str
    got: str
    fix: str
    settings: tuple[str, ...] = ()
    made: Made = field(default=lambda _lab: nullcontext())
    severity: str = ERROR
    lab: dict[str, Any] = field(default_factory=dict)  # what the inventory says instead


FAILURES = {
    "native XDP at an MTU of 9000 without fragments": Failure(
        "xdp-tools #327, xdp-tutorial #225",
        "xdp.drop.no-touch",
        "frags",
        "MTU 9000",
        "set frags = true, or attach_mode",
        made=lambda lab: mtu(lab, 9000),
        lab={"mtu": 9000},
    ),
    "frames longer than the MTU": Failure(
        "xdp-tutorial #278", "xdp.drop.no-touch", "mtu", "MTU 1500", "set lab_mtu to 2986 or more", ("frame_len=3000",)
    ),
    "an MTU that is not the lab's": Failure(
        "xdp-tools #327",
        "xdp.drop.no-touch",
        "mtu",
        "mtu 1400",
        "xdprepro up",
        made=lambda lab: mtu(lab, 1400),
    ),
    "a program of someone else": Failure(
        "xdp-tools #336, bpf-examples #88",
        "xdp.drop.no-touch",
        "xdp-free",
        r"program \d+ in mode native",
        "end what holds it",
        made=lambda lab: agent_with(lab, "xdp.pass.no-touch"),
    ),
    "a program of someone else in the other mode": Failure(
        "xdp-tools #336",
        "xdp.drop.no-touch",
        "xdp-free",
        r"program \d+ in mode skb",
        "end what holds it",
        made=lambda lab: agent_with(lab, "xdp.pass.no-touch", ["attach_mode=skb"]),
    ),
    "no link": Failure("xdp-tools #494", "xdp.drop.no-touch", "carrier", "no carrier", "cabled", made=no_carrier),
    "zero-copy on a driver without": Failure(
        "bpf-examples #79, xsknf #1, xdp-tutorial #128",
        "xsk.rxdrop",
        "xsk-zero-copy",
        "bind: Operation not supported",
        'bind_mode = "copy"',
        ("bind_mode=zero-copy",),
    ),
    "a queue whose socket is somebody's": Failure(
        "xdp-tutorial #458, #270",
        "xsk.rxdrop",
        "busy-queue",
        r"bind: .*busy.*held by python\S* \(pid \d+\)",
        r"end python\S* \(pid \d+\)",
        made=socket_only,
    ),
    "packets on a queue without a socket": Failure(
        "xdp-tutorial #270", "xsk.rxdrop", "steering", "100% on queue 1", "set xsk_queues to 2", ("xsk_queues=1",)
    ),
    "live frames into skb mode": Failure(
        "xdp-tools #423",
        "xdp.drop.no-touch",
        "entry-napi",
        "attach_mode skb, GRO off",
        'generator = "af-packet"',
        ("attach_mode=skb", "generator=live-frames"),
    ),
    "more sockets than queues": Failure(
        "xdp-tutorial #277, libbpf #466",
        "xsk.l2fwd.swap-macs",
        "channels",
        "2 receive queues",
        "set xsk_queues to 2",
        ("xsk_queues=8",),
    ),
    "fewer transmit queues than sockets": Failure(
        "xdp-tutorial #277",
        "xsk.l2fwd.swap-macs",
        "tx-queues",
        "1 transmit queues",
        "ethtool -L",
        made=one_tx_queue,
    ),
    "a fill ring shorter than the receive ring": Failure(
        "agave #6836, firedancer #4258",
        "xsk.rxdrop",
        "fill-ring",
        "64 frames",
        "set xsk_ring_fill to 4096",
        ("xsk_ring_fill=64",),
        severity=WARNING,
    ),
    "huge pages that nobody set aside": Failure(
        "xdp-tutorial #86", "xsk.rxdrop", "huge-pages", "free|huge", "nr_hugepages", ("huge_pages=true",)
    ),
    "more generators than CPUs": Failure(
        "xdp-tools #536", "xdp.drop.no-touch", "cpus", r"\d+ CPUs", "or fewer", ("generators=256",)
    ),
    "more threads than CPUs": Failure(
        "onload #305", "xsk.rxdrop", "cpus", r"\d+ CPUs", "or fewer", ("xsk_threads=64",)
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_set_up_failure_gets_its_answer(lab: Lab, name: str) -> None:
    failure = FAILURES[name]
    suite = _make_suite([failure.kind], failure.settings)
    with ExitStack() as stack:
        stack.enter_context(failure.made(lab))
        checks = look(replaced(lab, failure.lab), suite)
    bad = [check for check in checks if check.severity == failure.severity and check.id == failure.id]
    assert bad, checks
    assert any(re.search(failure.got, one.got) and re.search(failure.fix, one.fix) for one in bad), bad


def replaced(lab: Lab, values: dict[str, Any]) -> Lab:
    return Lab(**{**{name: getattr(lab, name) for name in Lab.__dataclass_fields__}, **values})


def test_a_lab_that_is_well_has_no_error_and_is_left_as_it_was(lab: Lab) -> None:
    before = read_probe(lab.dut)
    kinds = ["xdp.tx.swap-macs", "xsk.rxdrop", "xsk.txonly", "udp.rxdrop", "tc.drop.no-touch", "ring.ptr-ring"]
    assert find_errors(look(lab, _make_suite(kinds, []))) == ()
    assert read_probe(lab.dut) == before


def run_doctor(lab: Lab, *words: str, through: tuple[str, ...] = ()) -> "subprocess.CompletedProcess[str]":
    argv = [*through, sys.executable, "-m", "xdprepro", "doctor", str(lab.path), *words]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60)


def test_exit_status_and_json_say_that_a_case_would_fail(lab: Lab) -> None:
    done = run_doctor(lab, "--case", "xsk.rxdrop", "--set", "bind_mode=zero-copy", "--json")
    assert done.returncode == 1, done.stderr
    errors = [row for row in json.loads(done.stdout) if row["severity"] == ERROR]
    assert [row["id"] for row in errors] == ["xsk-zero-copy"]
    assert errors[0]["cases"] == ["xsk.rxdrop.native.zero-copy.60B"]
    assert run_doctor(lab, "--case", "xdp.drop.no-touch").returncode == 0


def test_locked_memory_that_does_not_suffice_is_told_in_kib(lab: Lab) -> None:
    """xdp-tutorial #86."""
    without = ("setpriv", "--bounding-set=-ipc_lock,-sys_resource", "prlimit", f"--memlock={1024 * 1024}")
    done = run_doctor(lab, "--case", "xsk.rxdrop", "--json", through=without)
    [row] = [row for row in json.loads(done.stdout) if row["severity"] == ERROR]
    assert (row["id"], row["got"]) == ("memlock", "RLIMIT_MEMLOCK is 1024 KiB, without CAP_IPC_LOCK")
    assert "ulimit -l 16384" in row["fix"]


def test_a_capability_that_root_lacks_is_named(lab: Lab) -> None:
    """bpf-examples #122."""
    done = run_doctor(lab, through=("setpriv", "--bounding-set=-net_admin"))
    assert done.returncode == 77
    assert "CAP_NET_ADMIN" in done.stderr


def test_a_lab_that_is_not_up_is_told_with_the_command(lab: Lab, tmp_path: Path) -> None:
    path = tmp_path / f"g{os.getpid()}"
    shutil.copytree(ROOT / "inventory/veth", path)
    with pytest.raises(XdpreproError, match="is not up"):
        provision.check_up(provision.load_lab(path))
    done = run_doctor(provision.load_lab(path))
    assert done.returncode == 1
    assert "xdprepro up" in done.stderr


def test_a_run_skips_what_would_fail_with_the_cure_and_measures_the_rest(lab: Lab, tmp_path: Path) -> None:
    path = tmp_path / "steered.toml"
    rows = '[[case]]\ncase = "xdp.drop.no-touch"\n[[case]]\ncase = "xsk.rxdrop"\nxsk_queues = 1\nxsk_ring_fill = 64\n'
    path.write_text(f"restarts = 1\n[defaults]\nsettle_s = 0.1\nmeasure_s = 0.2\n{rows}")
    words = ["run", str(path), "--lab", str(lab.path), "--archive", str(tmp_path / "runs")]
    argv = [sys.executable, "-m", "xdprepro", *words]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    [skipped] = [line for line in done.stderr.splitlines() if line.startswith("skipped xsk.rxdrop")]
    assert "100% on queue 1" in skipped
    assert "set xsk_queues to 2" in skipped


def test_two_sockets_on_a_queue_without_a_shared_umem_are_a_usage_error(lab: Lab) -> None:
    """xdp-tutorial #270."""
    done = run_doctor(lab, "--case", "xsk.rxdrop", "--set", "xsk_sockets=2")
    assert done.returncode == 2
    assert "shared_umem = true" in done.stderr
