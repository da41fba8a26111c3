# SPDX-License-Identifier: GPL-2.0-or-later
"""Everything that could explain a difference between two runs, read from the machine itself.

The result is a nested dict of JSON values. What this machine does not have is listed under `absent` with the reason; it
is never an empty string or a zero.
"""

import gzip
import hashlib
import json
import os
import platform
import re
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from xdprepro import cmd
from xdprepro.errors import XdpreproError

SYSCTLS = (
    "kernel/bpf_stats_enabled",
    "kernel/numa_balancing",
    "kernel/nmi_watchdog",
    "net/core/bpf_jit_enable",
    "net/core/bpf_jit_harden",
    "net/core/busy_poll",
    "net/core/busy_read",
    "net/core/dev_weight",
    "net/core/netdev_budget",
    "net/core/netdev_budget_usecs",
    "net/core/netdev_max_backlog",
)
PACKAGES = ("xdprepro", "ansible-core", "ansible-runner", "pyroute2", "h5py", "numpy", "scipy")
# What the board says of itself. Without it, the installation's own id: sizes and speeds differ from boot to boot.
DMI_IDENTITY = ("product_uuid", "board_serial", "board_vendor", "board_name", "bios_version")


def read_fingerprint(
    *, agent: Mapping[str, Any], dut: Mapping[str, Any], tester: Mapping[str, Any], lab: Mapping[str, Any], root: Path
) -> tuple[dict[str, Any], dict[str, str]]:
    """The fingerprint of this machine with the probes of both ports, and the long documents that belong to it."""
    absent: dict[str, str] = {}
    config = read_kernel_config(absent)
    print_of: dict[str, Any] = {
        "host": read_host(absent),
        "kernel": read_kernel(config, absent),
        "cpu": read_cpu_state(absent),
        "sysctl": read_sysctls(absent),
        "dut": {"port": dict(dut)},
        "tester": {"port": dict(tester)},
        "agent": dict(agent),
        "tools": read_tools(absent),
        "checkout": read_checkout(root, absent),
        "lab": dict(lab),
    }
    print_of["absent"] = absent
    return print_of, ({"kernel_config": config} if config else {})


def read_guest_fingerprint(
    *,
    kernel: Mapping[str, Any],
    guest: Mapping[str, Any],
    said: Mapping[str, Any],
    agent: Mapping[str, Any],
    lab: Mapping[str, Any],
    config: str,
    root: Path,
) -> dict[str, Any]:
    """The fingerprint of guests on this machine, without what split_guest_facts() takes from what they say."""
    absent = {one["source"]: one["reason"] for one in said.get("absent", ())}
    if not config:
        absent["kernel.config"] = "no configuration came with the kernel image"
    return {
        "host": read_host(absent),
        "kernel": {**kernel, **({"config_sha256": _sha256(config)} if config else {})},
        "guest": dict(guest),
        "agent": dict(agent),
        "tools": read_tools(absent),
        "checkout": read_checkout(root, absent),
        "lab": dict(lab),
        "absent": absent,
    }


def split_guest_facts(said: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a guest says of its kernel, and of its machine; nothing of one that ended before it could."""
    kernel, machine = (
        ("version", "cmdline", "boot_id", "build_id", "mitigations"),
        ("cpu_model", "microcode", "clocksource", "memory_bytes"),
    )
    return {key: said[key] for key in kernel if key in said}, {key: said[key] for key in machine if key in said}


def read_host(
    absent: dict[str, str], proc: Path = Path("/proc"), sys: Path = Path("/sys"), etc: Path = Path("/etc")
) -> dict[str, Any]:
    """Which machine this is; `host_key` hashes only what stays the same over reboots, kernels and hours."""
    cpu = _cpuinfo(proc)
    host: dict[str, Any] = {
        "cpu_model": cpu.get("model name", cpu.get("CPU part", "")),
        "cpu_id": "/".join(cpu.get(key, "") for key in ("vendor_id", "cpu family", "model", "stepping")),
        "machine": platform.machine(),
        "cpus": len(_cpulist(_read(sys / "devices/system/cpu/present"))) or os.cpu_count(),
        "memory_bytes": _memory_bytes(proc),
    }
    if "hypervisor" in cpu.get("flags", "").split():
        host["hypervisor"] = True
    if "microcode" in cpu:
        host["microcode"] = cpu["microcode"]
    else:
        absent["host.microcode"] = "not in /proc/cpuinfo"
    identity = {key: value for key in DMI_IDENTITY if (value := _read(sys / "class/dmi/id" / key))}
    if not identity:
        absent["host.dmi"] = "no readable /sys/class/dmi/id; the host key rests on the CPU and /etc/machine-id"
        identity = {"machine_id": _read(etc / "machine-id")}
    stable = [host["cpu_model"], host["cpu_id"], host["cpus"], sorted(identity.items())]
    host["host_key"] = _sha256(json.dumps(stable))[:16]
    return host


def read_kernel(config: str, absent: dict[str, str], sys: Path = Path("/sys")) -> dict[str, Any]:
    """The running kernel: release, build, command line, configuration hash and the state of every mitigation."""
    kernel: dict[str, Any] = {
        "release": platform.release(),
        "version": platform.version(),
        "cmdline": _read(Path("/proc/cmdline")),
        "boot_id": _read(Path("/proc/sys/kernel/random/boot_id")),
    }
    if config:
        kernel["config_sha256"] = _sha256(config)
    folder = sys / "devices/system/cpu/vulnerabilities"
    if folder.is_dir():
        kernel["mitigations"] = {path.name: _read(path) for path in sorted(folder.iterdir())}
    else:
        absent["kernel.mitigations"] = f"no {folder}"
    return kernel


def read_kernel_config(absent: dict[str, str]) -> str:
    """The text of the kernel's configuration, or nothing and the reason."""
    try:
        return gzip.decompress(Path("/proc/config.gz").read_bytes()).decode()
    except (OSError, EOFError):
        text = _read(Path("/boot") / f"config-{platform.release()}")
    if not text:
        absent["kernel.config"] = f"neither /proc/config.gz nor /boot/config-{platform.release()} can be read"
    return text


def read_cpu_state(absent: dict[str, str], sys: Path = Path("/sys/devices/system")) -> dict[str, Any]:
    """Governors, turbo, SMT, isolation and clock source as they are now."""
    state: dict[str, Any] = {}
    governors = {_read(path) for path in sys.glob("cpu/cpufreq/policy*/scaling_governor")}
    siblings = {_read(path) for path in sys.glob("cpu/cpu[0-9]*/topology/thread_siblings_list")}
    settings = {
        "thread_siblings": " ".join(sorted(siblings)),
        "governor": ",".join(sorted(governors)),
        "turbo": _turbo(sys),
        "smt": _read(sys / "cpu/smt/control"),
        "online": _read(sys / "cpu/online"),
        "clocksource": _read(sys / "clocksource/clocksource0/current_clocksource"),
    }
    for name, value in settings.items():
        if value:
            state[name] = value
        else:
            absent[f"cpu.{name}"] = "the kernel does not show it in /sys/devices/system"
    # Two files whose emptiness is the information: no CPU is isolated.
    for name in ("isolated", "nohz_full"):
        if (sys / "cpu" / name).exists():
            state[name] = _read(sys / "cpu" / name)
    return state


def read_sysctls(absent: dict[str, str], folder: Path = Path("/proc/sys")) -> dict[str, str]:
    """The settings that change packet processing or the cost of BPF."""
    values = {}
    for name in SYSCTLS:
        key = name.replace("/", ".")
        if value := _read(folder / name):
            values[key] = value
        else:
            absent[f"sysctl.{key}"] = f"no readable {folder / name}"
    return values


def read_tools(absent: dict[str, str]) -> dict[str, str]:
    """Versions of Python and of the packages that measure, store or judge."""
    tools = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            tools[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            absent[f"tools.{name}"] = "not installed as a package"
    return tools


def read_checkout(root: Path, absent: dict[str, str]) -> dict[str, Any]:
    """The commit of this checkout and whether tracked files differ from it."""
    if not (root / ".git").exists():
        absent["checkout"] = f"{root.name} is no git checkout"
        return {}
    # The owner check of git would refuse root in a user's checkout, which is how the lab is normally run.
    git = ["git", "-c", f"safe.directory={root}", "-C", str(root)]
    try:
        head = cmd.run([*git, "rev-parse", "HEAD"], check=False)
        status = cmd.run([*git, "status", "--porcelain", "--untracked-files=no"], check=False)
    except XdpreproError as error:
        absent["checkout"] = error.message
        return {}
    if head.status or status.status:
        absent["checkout"] = (head.stderr + status.stderr).strip()
        return {}
    return {"git_commit": head.stdout.strip(), "dirty": bool(status.stdout.strip())}


def find_port_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What of a port's probe differs in a way that changes results, as `key: before -> now`."""
    keys = ("driver", "bus_info", "firmware", "mac", "mtu", "carrier", "channels", "rings", "features", "rx_queues")
    return [f"{key}: {before.get(key)} -> {now.get(key)}" for key in keys if before.get(key) != now.get(key)]


def _turbo(sys: Path) -> str:
    no_turbo = _read(sys / "cpu/intel_pstate/no_turbo")
    boost = _read(sys / "cpu/cpufreq/boost")
    return {"0": "on", "1": "off"}.get(no_turbo) or {"1": "on", "0": "off"}.get(boost, "")


def _cpuinfo(proc: Path) -> dict[str, str]:
    """The first processor's block of /proc/cpuinfo."""
    block = _read(proc / "cpuinfo").split("\n\n")[0]
    pairs = (line.partition(":") for line in block.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _memory_bytes(proc: Path) -> int:
    found = re.search(r"MemTotal:\s+(\d+) kB", _read(proc / "meminfo"))
    return int(found.group(1)) * 1024 if found else 0


def _cpulist(text: str) -> list[int]:
    """The CPU numbers of a kernel list such as 0-3,8."""
    ranges: Iterable[list[str]] = (part.split("-") for part in text.split(",") if part)
    return [cpu for ends in ranges for cpu in range(int(ends[0]), int(ends[-1]) + 1)]


def _read(path: Path) -> str:
    try:
        return path.read_text().strip().strip("\0")
    except (OSError, UnicodeDecodeError):
        return ""


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
