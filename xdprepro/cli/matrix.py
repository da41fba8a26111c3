# SPDX-License-Identifier: GPL-2.0-or-later
"""xdprepro run on a lab that boots the kernels it measures."""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import product

from xdprepro import archive, guest, kernel_store, kernels
from xdprepro.bench import Outcome
from xdprepro.cli.kernel import show_status
from xdprepro.cli.output import note, print_tables
from xdprepro.errors import USAGE, XdpreproError
from xdprepro.exact import is_exact
from xdprepro.exact_report import matrix_table
from xdprepro.guest_boots import Setup, Variant
from xdprepro.kernel import Kernel
from xdprepro.lab import GUEST_PORTS, Lab
from xdprepro.view import view_run

ACCELS = ("count", "auto", "kvm", "tcg")


@dataclass(frozen=True)
class GuestOptions:
    """What the command line says about guests; what it does not say is empty."""

    kernel: tuple[str, ...] = ()
    port: tuple[str, ...] = ()
    cmdline: tuple[str, ...] = ()
    cpu: tuple[str, ...] = ()
    repeat: int = 0
    accel: str = ""
    memory: bool = False
    jobs: int = 0


def print_matrix(outcomes: Sequence[Outcome]) -> None:
    """What was counted, kernel beside kernel; rates are left to `archive show`."""
    views = [view_run(archive.load_run(outcome.path)) for outcome in outcomes]
    counted = [view for view in views if is_exact(view)]
    if counted:
        print_tables([matrix_table(counted)])


def refuse_guest_options(lab: Lab, options: GuestOptions) -> None:
    """A lab that measures the running kernel takes none of these."""
    for name, value in asdict(options).items():
        if value:
            raise XdpreproError(
                f"lab {lab.name} measures the kernel that runs: --{name} is for labs that boot kernels",
                hint="leave it out, or name such a lab: --lab vm",
                status=USAGE,
            )


@contextmanager
def start_guests(lab: Lab, options: GuestOptions, *, trials: int | None) -> Iterator[tuple[list[Variant], Setup]]:
    """Find the kernels, and keep them from being pruned; gives every variant of them and how to measure it."""
    setup = _make_setup(lab, options, trials)
    guest.check_qemu(counting=setup.counting)  # before kernels are fetched and built for nothing
    with ExitStack() as stack:
        found = []
        for spec in dict.fromkeys(options.kernel):
            with show_status(spec) as tell:
                found.append(kernels.find_kernel(spec, tell=tell))
            stack.enter_context(kernel_store.start_use(found[-1]))
            kernel_store.check_image(found[-1])
            _tell_unsummed(found[-1])
        cpus = tuple(dict.fromkeys(options.cpu or (lab.cpu,)))
        if setup.accel == "auto":
            setup = replace(setup, accel=_choose_accel(found[0], cpus))
        cmdlines = dict.fromkeys(options.cmdline or ("",))
        # Two specs may name one kernel.
        chosen = {kernel.key: kernel for kernel in found}.values()
        yield [Variant(*one) for one in product(chosen, cmdlines, cpus)], setup


def _tell_unsummed(kernel: Kernel) -> None:
    if kernel.modules and not kernel.modules_sha256:
        note(f"note: {kernel.key} was cached without sums of its modules: 'xdprepro kernel prune' and a run mend that")


def _make_setup(lab: Lab, options: GuestOptions, trials: int | None) -> Setup:
    if not options.kernel:
        raise XdpreproError(
            f"lab {lab.name} boots the kernels it measures, and none is named",
            hint="add --kernel deb:6.12, or any other that 'xdprepro kernel --help' tells of",
            status=USAGE,
        )
    accel = options.accel or "count"
    if accel not in ACCELS:
        raise XdpreproError(f"--accel is {accel!r}; allowed: {', '.join(ACCELS)}", status=USAGE)
    if options.memory and accel != "count":
        raise XdpreproError(
            f"--memory counts, --accel {accel} measures rates", hint="leave one of them out", status=USAGE
        )
    if trials and accel == "count":
        raise XdpreproError(
            f"--trials {trials}: a counted case has the windows that it needs",
            hint="--repeat N boots each kernel N times",
            status=USAGE,
        )
    return Setup(
        ports=_ports(options.port or lab.ports),
        repeat=options.repeat or 1,
        accel=accel,
        memory_pass=options.memory,
        # One guest at a time where speed is what is measured.
        jobs=(options.jobs or len(os.sched_getaffinity(0))) if accel == "count" else 1,
        trials=trials or 1,
    )


def _choose_accel(kernel: Kernel, cpus: Sequence[str]) -> str:
    """One for all, as rates of two kinds are not to be compared."""
    found = [guest.find_accel(kernel, cpu=cpu) for cpu in cpus]
    chosen = next((one for one in found if one.reason), found[0])
    if chosen.reason:
        note(f"note: rates are measured with {chosen.name}: {chosen.reason}")
    return chosen.name


def _ports(named: tuple[str, ...]) -> tuple[str, ...]:
    ports = GUEST_PORTS if "all" in named else tuple(dict.fromkeys(named))
    for port in ports:
        if port not in GUEST_PORTS:
            raise XdpreproError(f"--port is {port!r}; allowed: {', '.join(GUEST_PORTS)}, all", status=USAGE)
    return ports
