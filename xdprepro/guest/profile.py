# SPDX-License-Identifier: GPL-2.0-or-later
"""What a boot's packets cost: the plugin's counts by function and side, and the packets from the agents' lines."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdprepro.guest.boot import Boot
from xdprepro.guest.counts import Key, Program, Window, parse_counts
from xdprepro.guest.symbols import join_kallsyms, parse_kallsyms
from xdprepro.sample import SIDES, Profile, ProfileRow, parse_stream
from xdprepro.stats import count_seen

# Of a context's kind. A poll in which the receiver's program ran is the receive side, another one the sender's port's.
SIDE_OF = {"poll": "generator", "generator": "generator", "app": "app", "interrupt": "rest", "rest": "rest"}

Message = Mapping[str, Any]


@dataclass(frozen=True)
class Counted:
    """A boot's trials by slot, which is their window's id: what was counted, and why of the others nothing was."""

    profiles: Mapping[int, Profile]
    faults: Mapping[int, str]


def read_counted(boot: Boot) -> Counted:
    """What the plugin's windows say of each trial; nothing where nothing was to be counted."""
    if boot.counts is None:
        return Counted({}, {})
    trials = _sort_trials(boot.lines)
    programs = {slot: tuple(_iter_programs(sides)) for slot, sides in trials.items()}
    counts = parse_counts(boot.counts, parse_kallsyms(join_kallsyms(boot.lines)), programs)
    failed = {line["trial_end"]: line["reason"] for line in boot.lines if line.get("status") == "failed"}
    profiles: dict[int, Profile] = {}
    faults: dict[int, str] = {}
    for slot, sides in trials.items():
        packets = _count_packets(sides["dut"])
        if slot in failed:
            faults[slot] = failed[slot]
        elif slot in counts.faults:
            faults[slot] = f"the counts of instructions are wrong: {counts.faults[slot]}"
        elif slot not in counts.windows:
            faults[slot] = f"no instructions were counted: {counts.stray or 'its window never closed'}"
        elif packets is None:
            faults[slot] = "the DUT did not say how many packets it saw"
        else:
            dut_sends = "generator" not in parse_stream(sides["tester"]).ready
            profiles[slot] = make_profile(counts.windows[slot], programs[slot], packets, dut_sends=dut_sends)
    return Counted(profiles, faults)


def make_profile(window: Window, programs: Iterable[Program], packets: int, *, dut_sends: bool = False) -> Profile:
    """By side instead of context, the most expensive first."""
    sides = _find_sides(window, tuple(programs), dut_sends=dut_sends)
    insn: Counter[Key] = Counter()
    memory: dict[Key, tuple[int, ...]] = {}
    for (function, context), count in window.insn.items():
        insn[function, sides[context]] += count
    for (function, context), counts in window.memory.items():
        key = function, sides[context]
        memory[key] = tuple(map(sum, zip(memory.get(key, (0, 0, 0)), counts, strict=True)))
    none = (0, 0, 0) if memory else ()
    keys = sorted(insn.keys() | memory.keys(), key=lambda key: (-insn[key], key))
    rows = tuple(ProfileRow(*key, insn[key], *memory.get(key, none)) for key in keys)
    return Profile(packets=packets, rows=rows, total_insn=sum(window.totals.values()))


def _find_sides(window: Window, programs: Sequence[Program], *, dut_sends: bool) -> dict[str, str]:
    """A poll that ran the DUT's program received for it; where the DUT has none, one that did not run the tester's.

    Where the DUT sends, the tester receives, and other polls are of the DUT's port, which takes back what was sent.
    """
    polls = {context for context, kind in window.kinds.items() if kind == "poll"}
    ran = {
        is_dut: {context for function, context in window.insn if function in names} & polls
        for is_dut in (True, False)
        for names in [{program.name for program in programs if program.is_dut == is_dut}]
    }
    has_program = any(program.is_dut for program in programs)
    receive = ran[not dut_sends] if dut_sends or has_program else polls - ran[False]
    return {context: "receive" if context in receive else SIDE_OF[kind] for context, kind in window.kinds.items()}


def _sort_trials(lines: Iterable[Message]) -> dict[int, dict[str, list[Message]]]:
    """What both agents said, by slot and side."""
    trials: dict[int, dict[str, list[Message]]] = {}
    for line in lines:
        if "slot" in line:
            trials.setdefault(line["slot"], {side: [] for side in SIDES})[line["side"]].append(line["msg"])
    return trials


def _iter_programs(sides: Mapping[str, Sequence[Message]]) -> Iterator[Program]:
    """The programs that the agents say they have loaded; only the generator's has no name."""
    for side, messages in sides.items():
        ready = parse_stream(messages).ready
        for about in (ready.get("attach"), ready.get("tc"), ready.get("generator")):
            if about and about.get("jited_addr"):
                start = int(about["jited_addr"], 16)
                name = f"bpf:{about.get('prog_name', 'generator')} ({side})"
                yield Program(start, start + about["jited_len"], name, is_dut=side == "dut")


def _count_packets(messages: Iterable[Message]) -> int | None:
    """What came to the DUT, or went out from it, between the edges."""
    stream = parse_stream(messages)
    if "end" not in stream.edges:
        return None
    return count_seen(stream.delta())
