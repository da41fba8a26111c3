# SPDX-License-Identifier: GPL-2.0-or-later
"""The veth lab: made, made again, repaired, refused and removed, on the running kernel."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, need

from xdprepro import cmd, provision
from xdprepro.errors import XdpreproError
from xdprepro.lab import Host, Lab

pytestmark = [pytest.mark.netns, pytest.mark.usefixtures("root_user")]

NUMBERS = count()
GROUP = 0x78647072


def copy_lab(directory: Path) -> Lab:
    """A second lab is a copy of the inventory under another name."""
    path = directory / f"xdpt-{os.getpid()}-{next(NUMBERS)}"
    shutil.copytree(ROOT / "inventory/veth", path)
    return provision.load_lab(path)


def remove(lab: Lab) -> None:
    """Without the code under test."""
    for host in (lab.dut, lab.tester):
        path = netns_path(host)
        if os.path.ismount(path):
            cmd.run(["ip", "netns", "del", path.name])
        path.unlink(missing_ok=True)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A lab that is not up."""
    made = copy_lab(tmp_path)
    yield made
    remove(made)


@pytest.fixture(scope="module")
def lasting_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One for all tests of this module: they leave it up or broken, never in use."""
    made = copy_lab(tmp_path_factory.mktemp("labs"))
    yield made
    remove(made)


@pytest.fixture
def upped(lasting_lab: Lab) -> Lab:
    """One that is up."""
    try:
        check_up(lasting_lab)
    except (AssertionError, XdpreproError):
        provision.up(lasting_lab)
    return lasting_lab


def netns_path(host: Host) -> Path:
    assert host.netns is not None
    return Path("/run/netns", host.netns)


def have_namespaces(lab: Lab) -> list[bool]:
    return [netns_path(host).exists() for host in (lab.dut, lab.tester)]


def read_link(host: Host) -> dict[str, Any]:
    """As iproute2 sees it, which has no code in common with ours."""
    shown = cmd.run(["ip", "-n", str(host.netns), "-j", "-d", "link", "show", host.ifname]).stdout
    link: dict[str, Any] = json.loads(shown)[0]
    return link


def read_channels(host: Host) -> list[int]:
    """Receive and transmit queues in use."""
    queues = cmd.run(["ls", f"/sys/class/net/{host.ifname}/queues"], netns=host.netns).stdout.split()
    return [len([queue for queue in queues if queue.startswith(f"{way}-")]) for way in ("rx", "tx")]


def check_up(lab: Lab) -> None:
    for host in (lab.dut, lab.tester):
        link = read_link(host)
        assert link["linkinfo"]["info_kind"] == "veth"
        assert link["ifalias"] == f"xdprepro lab={lab.name}"
        assert link["address"] == host.mac
        assert link["mtu"] == lab.mtu
        assert link["operstate"] == "UP"
        assert {"UP", "LOWER_UP"} <= set(link["flags"])
        assert link["qdisc"] == "noqueue"
        assert link["num_rx_queues"] == link["num_tx_queues"] == lab.queues
        assert "xdp" not in link
        assert read_channels(host) == [lab.queues, lab.queues]
        assert cmd.run(["ip", "-o", "addr", "show", "dev", host.ifname], netns=host.netns).stdout == ""
    assert read_link(lab.dut)["link_index"] == read_link(lab.tester)["ifindex"]
    assert read_link(lab.tester)["link_index"] == read_link(lab.dut)["ifindex"]


def play(lab: Lab, playbook: str, *options: str, under: Sequence[str] = ()) -> cmd.Result:
    """Plain Ansible, without our package; `under` is put before its command."""
    program = Path(sys.executable).parent / "ansible-playbook"
    argv: cmd.Argv = [*under, program, "-i", lab.path, ROOT / f"playbooks/{playbook}.yml", *options]
    return cmd.run(argv, env={"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}, check=False)


def test_up_makes_the_lab_once_and_down_removes_it_once(lab: Lab) -> None:
    assert provision.up(lab).changed == 2
    check_up(lab)
    assert provision.up(lab).changed == 0
    assert provision.down(lab).changed == 1
    assert have_namespaces(lab) == [False, False]
    assert provision.down(lab).changed == 0


def test_check_mode_says_what_it_would_do_and_does_nothing(lab: Lab) -> None:
    assert provision.up(lab, check=True).changed == 2
    assert have_namespaces(lab) == [False, False]
    provision.up(lab)
    assert provision.up(lab, check=True).changed == 0
    assert provision.down(lab, check=True).changed == 1
    check_up(lab)


def test_diff_shows_the_pair_that_comes_and_goes(lab: Lab) -> None:
    label = f'"{lab.dut.netns}/dut0": '
    shown = play(lab, "up", "--check", "--diff").stdout
    assert f"-    {label}null" in shown
    assert f"+    {label}{{" in shown
    assert '+        "mtu": 1500' in shown


def test_plain_ansible_does_the_same_without_our_package(lab: Lab) -> None:
    assert play(lab, "up").status == 0
    check_up(lab)
    assert play(lab, "restart").status == 0
    check_up(lab)
    assert play(lab, "down").status == 0
    assert have_namespaces(lab) == [False, False]


def test_two_labs_stand_side_by_side(lab: Lab, upped: Lab) -> None:
    provision.up(lab)
    check_up(lab)
    check_up(upped)
    provision.down(lab)
    check_up(upped)
    assert have_namespaces(lab) == [False, False]


def test_nothing_of_the_pair_is_ever_seen_outside_its_namespaces(lab: Lab, tmp_path: Path) -> None:
    log = tmp_path / "links"
    with log.open("w") as file, subprocess.Popen(["ip", "monitor", "link"], stdout=file) as monitor:
        try:
            provision.up(lab)
            provision.down(lab)
        finally:
            monitor.terminate()
    assert not [line for line in log.read_text().splitlines() if "dut0" in line or "tester0" in line or "veth" in line]


def test_no_frame_leaves_by_itself(upped: Lab) -> None:
    """Neighbour and listener discovery would be counted with the packets of a measurement."""
    provision.restart(upped)
    for host in (upped.dut, upped.tester):
        stats = json.loads(cmd.run(["ip", "-n", str(host.netns), "-j", "-s", "link", "show", host.ifname]).stdout)
        assert stats[0]["stats64"]["tx"]["packets"] == 0
        for scope in ("all", "default"):
            assert cmd.run(["cat", f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6"], netns=host.netns).stdout == "1\n"


def test_restart_makes_everything_anew_although_a_process_holds_the_old_namespace(upped: Lab) -> None:
    # An open namespace keeps its inode number, so the new one cannot have the same.
    with netns_path(upped.dut).open() as old, cmd.start_process(["cat"], netns=upped.dut.netns) as holder:
        assert provision.restart(upped).changed == 3
        check_up(upped)
        assert netns_path(upped.dut).stat().st_ino != os.fstat(old.fileno()).st_ino
        links = Path(f"/proc/{holder.pid}/net/dev").read_text()
    assert "lo:" in links
    assert "dut0" not in links


def in_dut(*argv: str) -> list[str]:
    return ["ip", "netns", "exec", "DUT", *argv]


XDP_OBJECT = str(ROOT / "bpf/build/bare_pass.bpf.o")
FAULTS = {
    "mtu": [["ip", "-n", "DUT", "link", "set", "dut0", "mtu", "1400"]],
    "mac": [["ip", "-n", "TESTER", "link", "set", "tester0", "address", "02:00:00:00:00:99"]],
    "link down": [["ip", "-n", "TESTER", "link", "set", "tester0", "down"]],
    "channels": [in_dut("ethtool", "-L", "dut0", "rx", "1", "tx", "1")],
    "queueing discipline": [["tc", "-n", "DUT", "qdisc", "add", "dev", "dut0", "root", "pfifo"]],
    "promiscuous": [["ip", "-n", "DUT", "link", "set", "dut0", "promisc", "on"]],
    "foreign XDP program": [in_dut("ip", "link", "set", "dut0", "xdpdrv", "obj", XDP_OBJECT, "sec", "xdp")],
    "alias lost": [["ip", "-n", "DUT", "link", "set", "dut0", "alias", ""]],
    "pair gone": [["ip", "-n", "DUT", "link", "del", "dut0"]],
    "renamed": [["ip", "-n", "TESTER", "link", "set", "tester0", "down", "name", "tester9"]],
    "peer in the wrong namespace": [["ip", "-n", "TESTER", "link", "set", "tester0", "netns", "DUT"]],
    "namespace gone": [["ip", "netns", "del", "TESTER"]],
    "both namespaces gone": [["ip", "netns", "del", "DUT"], ["ip", "netns", "del", "TESTER"]],
    "name without a namespace": [["ip", "netns", "del", "DUT"], ["touch", "/run/netns/DUT"]],
    "forwarding": [in_dut("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")],
    "IPv6 on": [in_dut("sh", "-c", "echo 0 >/proc/sys/net/ipv6/conf/all/disable_ipv6")],
    # What a creation leaves that was killed before it had set the alias.
    "half made": [
        ["ip", "-n", "DUT", "link", "del", "dut0"],
        ["ip", "-n", "DUT", "link", "add", "dut0", "group", str(GROUP), "type", "veth", "peer", "netns", "TESTER"],
        ["ip", "-n", "TESTER", "link", "set", "veth0", "group", str(GROUP)],
    ],
    "ends of two pairs": [
        ["ip", "-n", "DUT", "link", "del", "dut0"],
        ["ip", "-n", "DUT", "link", "add", "dut0", "group", str(GROUP), "type", "veth", "peer", "name", "x"],
        ["ip", "-n", "DUT", "link", "set", "x", "group", str(GROUP)],
        ["ip", "-n", "TESTER", "link", "add", "tester0", "group", str(GROUP), "type", "veth", "peer", "name", "x"],
        ["ip", "-n", "TESTER", "link", "set", "x", "group", str(GROUP)],
    ],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_lab_in_a_wrong_state_is_repaired(upped: Lab, fault: str) -> None:
    need(shutil.which("ethtool") is not None or fault != "channels", "no ethtool: install it")
    need(Path(XDP_OBJECT).exists() or fault != "foreign XDP program", "no BPF objects: run 'make build'")
    names = {"DUT": str(upped.dut.netns), "TESTER": str(upped.tester.netns)}
    for argv in FAULTS[fault]:
        cmd.run([word.replace("DUT", names["DUT"]).replace("TESTER", names["TESTER"]) for word in argv])
    assert provision.up(upped).changed > 0
    check_up(upped)
    strays = {"lo", "dut0", "tester0"}
    for host in (upped.dut, upped.tester):
        links = json.loads(cmd.run(["ip", "-n", str(host.netns), "-j", "link"]).stdout)
        assert {link["ifname"] for link in links} <= strays
        assert cmd.run(["cat", "/proc/sys/net/ipv6/conf/all/disable_ipv6"], netns=host.netns).stdout == "1\n"
        assert cmd.run(["cat", "/proc/sys/net/ipv4/ip_forward"], netns=host.netns).stdout == "0\n"


def rewrite(lab: Lab, file: str, old: str, new: str) -> Lab:
    path = lab.path / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return provision.load_lab(lab.path)


def test_what_the_inventory_says_now_is_what_up_makes(lab: Lab) -> None:
    provision.up(lab)
    lab = rewrite(lab, "group_vars/all.yml", "lab_queues: 2", "lab_queues: 3")
    lab = rewrite(lab, "group_vars/all.yml", "lab_mtu: 1500", "lab_mtu: 9000")
    lab = rewrite(lab, "hosts.yml", "lab_ifname: tester0", "lab_ifname: other0")
    assert provision.up(lab).changed == 1
    check_up(lab)
    assert provision.up(lab).changed == 0


@pytest.mark.parametrize("playbook", ["up", "down", "restart"])
def test_a_namespace_with_links_of_others_is_refused(upped: Lab, playbook: str) -> None:
    inside = ["ip", "-n", str(upped.dut.netns), "link"]
    cmd.run([*inside, "add", "foreign0", "type", "veth", "peer", "name", "foreign1"])
    try:
        with pytest.raises(XdpreproError) as caught:
            getattr(provision, playbook)(upped)
        assert f"namespace {upped.dut.netns} holds links that xdprepro did not make" in caught.value.message
        assert "foreign0, foreign1" in caught.value.message
        assert have_namespaces(upped) == [True, True]
        check_up(upped)
    finally:
        cmd.run([*inside, "del", "foreign0"])


@pytest.mark.parametrize("playbook", ["up", "down", "restart"])
def test_a_name_that_leads_to_the_machines_own_namespace_is_refused(lab: Lab, playbook: str) -> None:
    path = netns_path(lab.dut)
    path.touch()
    cmd.run(["mount", "--bind", "/proc/self/ns/net", path])
    links = cmd.run(["ip", "-o", "link"]).stdout
    with pytest.raises(XdpreproError) as caught:
        getattr(provision, playbook)(lab)
    assert f"{path} leads to the network namespace of this machine itself" in caught.value.message
    assert "link del" not in caught.value.message
    assert have_namespaces(lab) == [True, False]
    assert cmd.run(["ip", "-o", "link"]).stdout == links


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"lab_mtu": 70000}, "MTU 70000 is out of range: the kernel allows 68 to 65535"),
        ({"lab_queues": 5000}, "number of queues 5000 is out of range: the kernel allows 1 to 4096"),
        ({"lab_name": "a/b"}, "'xdprepro-a/b-dut' cannot name a namespace"),
    ],
)
def test_plain_ansible_refuses_what_the_kernel_would_and_leaves_the_lab_alone(
    upped: Lab, wrong: dict[str, object], message: str
) -> None:
    before = read_link(upped.dut)["ifindex"]
    result = play(upped, "up", "--extra-vars", json.dumps(wrong))
    assert result.status == 2
    assert message in result.stdout
    assert read_link(upped.dut)["ifindex"] == before
    check_up(upped)


@pytest.mark.parametrize("ifname", ["a-name-of-16-chr", "lo", "all", "default", "dut%d"])
def test_plain_ansible_refuses_a_name_that_no_link_can_have(lab: Lab, ifname: str) -> None:
    hosts = lab.path / "hosts.yml"
    hosts.write_text(hosts.read_text().replace("dut0", ifname))
    result = play(lab, "up")
    assert result.status == 2
    assert f"'{ifname}' cannot name a link" in result.stdout


@pytest.mark.parametrize("capability", ["sys_admin", "net_admin"])
def test_root_without_the_capability_is_told_so(lab: Lab, capability: str) -> None:
    """As in a container."""
    less = f"-{capability}"
    without = ["setpriv", "--bounding-set", less, "--inh-caps", less]
    result = play(lab, "up", under=without)
    assert result.status == 2
    assert "the kernel refuses: " in result.stdout
    assert "need CAP_SYS_ADMIN and CAP_NET_ADMIN" in result.stdout
