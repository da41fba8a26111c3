# SPDX-License-Identifier: GPL-2.0-or-later
"""What two runs are and in what they differ, to be read before any verdict: values into tables, nothing printed."""

import re
from typing import Any

from xdprepro.comparable import Mismatch
from xdprepro.compare import Comparison
from xdprepro.kconfig import Difference
from xdprepro.table import Column, Table

# Symbols that may change what a packet costs, by what they are about. The others are in the JSON only.
RELEVANT = {
    "mitigations": (
        r"(CPU_)?MITIGATION\w*|SLS|X86_KERNEL_IBT",
        r"\w*(RETPOLINE|RETHUNK|UNRET|SPECULATI\w+|IBPB|IBRS|SRSO|PAGE_TABLE_ISOLATION)\w*",
    ),
    "BPF and XDP": (r"\w*BPF\w*", r"XDP_\w+"),
    "networking": (
        r"NET|NET_(?!VENDOR_)\w+|NETFILTER\w*|INET|PAGE_POOL\w*|RPS|RFS_ACCEL|XPS|BQL",
        r"VETH|IGB|E1000E|VMXNET3|VIRTIO(_NET|_PCI\w*)?",
    ),
    "checks": (
        r"\w*(KASAN|KCSAN|KMSAN|UBSAN|KFENCE|LOCKDEP|PROVE_LOCKING)\w*|FORTIFY_SOURCE",
        r"DEBUG_(NET|PAGEALLOC|PREEMPT|LIST|VM|OBJECTS|SPINLOCK|ATOMIC_SLEEP)\w*",
    ),
    "hardening": (r"INIT_(ON|STACK)_\w+|HARDENED_\w+|STACKPROTECTOR\w*|RANDOMIZE_KSTACK\w*|CFI\w*|SLAB_FREELIST_\w+",),
    "memory": (r"SL[AOU]B\w*|MEMCG\w*|NUMA\w*|SPARSEMEM\w*|\w*IOMMU\w*|SWIOTLB\w*|DEVICE_PRIVATE|BASE_SMALL",),
    "scheduling and time": (
        r"PREEMPT\w*|HZ(_\w+)?|NO_HZ\w*|SMP|SCHED_CLASS_EXT",
        r"CONTEXT_TRACKING\w*|IRQ_TIME_ACCOUNTING|VIRT_CPU_ACCOUNTING\w*|CLOCKSOURCE_\w+",
    ),
    "compiling": (
        r"CC_OPTIMIZE_\w+|LTO\w*|JUMP_LABEL|MODULES|PARAVIRT\w*",
        r"\w*FRAME_POINTER\w*|UNWINDER_\w+|\w*FUNCTION_ALIGN\w*",
    ),
    "tracing": (r"FTRACE\w*|FUNCTION_\w*TRACER|DYNAMIC_FTRACE\w*|KPROBES\w*|FPROBE|TRACING",),
}


def sides_table(comparison: Comparison) -> Table:
    """Which runs A and B are."""
    columns = (
        Column("side", "", words=True),
        Column("run_id", "run", words=True),
        Column("kernel", "kernel", words=True),
        Column("suite", "suite", words=True),
        Column("lab", "lab", words=True),
        Column("status", "status", words=True),
        Column("restarts", "restarts"),
    )
    rows = tuple(
        {
            "side": side,
            "run_id": run.run_id,
            "plan_id": run.plan_id,
            "kernel": run.fingerprint["kernel"]["release"],
            "cmdline": run.fingerprint["kernel"].get("cmdline"),
            "cpu": run.fingerprint.get("guest", run.fingerprint["host"]).get("cpu_model"),
            "suite": run.suite,
            "lab": run.lab,
            "status": run.status,
            "restarts": len(run.boots),
        }
        for side, run in (("A", comparison.a.run), ("B", comparison.b.run))
    )
    return Table("runs", "Runs", columns, rows)


def dimension_table(comparison: Comparison) -> Table:
    """In what the runs differ by intent; only the first of several is compared."""
    columns = (
        Column("dimension", "compared", words=True),
        Column("a", "A", words=True),
        Column("b", "B", words=True),
        Column("confounds", "confounds", lambda confounds: "yes" if confounds else "no", words=True, once=True),
    )
    rows = tuple(
        {"dimension": one.name, "a": one.a, "b": one.b, "confounds": bool(index)}
        for index, one in enumerate(comparison.dimensions)
    )
    return Table("dimensions", "Compared", columns, rows)


def config_table(comparison: Comparison, *, everything: bool) -> Table:
    """The symbols in which the kernels' configurations differ; else only those set otherwise that concern a packet."""
    diff = comparison.config
    chosen, bound = (diff.changed, diff.version_bound) if diff else ((), ())
    columns = (
        Column("symbol", "symbol", words=True),
        Column("a", "A", words=True),
        Column("b", "B", words=True),
        Column("about", "about", words=True),
    )
    shown = [(one, True) for one in chosen] + [(one, False) for one in bound if everything]
    rows = tuple(_symbol_row(one, chosen=is_chosen) for one, is_chosen in shown)
    if not everything:
        rows = tuple(row for row in rows if row["about"])
    title = f"Kernel configuration: {len(chosen)} symbols are set otherwise, {len(bound)} come with the version"
    left_out = len(chosen) + len(bound) - len(rows)
    notes = (f"of all: {left_out} that come with the version or are about other things; --json has them",)
    return Table("config", title, columns, rows, notes if left_out else ())


def _symbol_row(one: Difference, *, chosen: bool) -> dict[str, Any]:
    about = [name for name, patterns in RELEVANT.items() if any(re.fullmatch(one_, one.symbol) for one_ in patterns)]
    return {"symbol": one.symbol, "a": one.a, "b": one.b, "chosen": chosen, "about": ", ".join(about)}


def mismatch_table(comparison: Comparison) -> Table:
    """What differs between the runs: to be shown before any verdict."""
    columns = (
        Column("key", "what differs", words=True),
        Column("a", "A", _shorten, words=True),
        Column("b", "B", _shorten, words=True),
        Column("serious", "comparable", lambda serious: "no" if serious else "yes", words=True),
        Column("case_id", "case", words=True),
    )
    rows = tuple(_mismatch_row(one) for one in comparison.mismatches)
    return Table("differences", "Differences between the runs", columns, rows)


def _mismatch_row(one: Mismatch) -> dict[str, Any]:
    return {"key": one.key, "a": one.a, "b": one.b, "serious": one.serious, "case_id": one.case_id}


def _shorten(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
