# SPDX-License-Identifier: GPL-2.0-or-later
"""Configurations of kernels: what is read, and what two of them differ in."""

import pytest

from xdprepro.kconfig import Difference, diff_configs, parse_config

TEXT = """\
# Linux/x86 6.1.176 Kernel Configuration
CONFIG_CC_VERSION_TEXT="gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0"
CONFIG_BPF=y
CONFIG_VETH=m
# CONFIG_XDP_SOCKETS_DIAG is not set
CONFIG_HZ=250
CONFIG_CMDLINE="a=b # CONFIG_NOT_A_LINE is not set"
"""


def test_values_are_read_as_they_are_spelt() -> None:
    assert parse_config(TEXT) == {
        "CC_VERSION_TEXT": '"gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0"',
        "BPF": "y",
        "VETH": "m",
        "XDP_SOCKETS_DIAG": "n",
        "HZ": "250",
        "CMDLINE": '"a=b # CONFIG_NOT_A_LINE is not set"',
    }


def test_a_text_does_not_differ_from_itself() -> None:
    diff = diff_configs(TEXT, TEXT)
    assert diff.version_bound == diff.changed == ()


def test_a_choice_that_differs_is_told_as_changed() -> None:
    other = TEXT.replace("CONFIG_HZ=250", "CONFIG_HZ=1000").replace("CONFIG_VETH=m", "# CONFIG_VETH is not set")
    diff = diff_configs(TEXT, other)
    assert diff.changed == (Difference("HZ", "250", "1000"), Difference("VETH", "m", "n"))
    assert diff.version_bound == ()


def test_a_symbol_that_one_text_does_not_know_is_version_bound() -> None:
    diff = diff_configs(TEXT, TEXT + "# CONFIG_NET_NEW is not set\nCONFIG_PAGE_POOL_STATS=y\n")
    assert diff.version_bound == (Difference("NET_NEW", None, "n"), Difference("PAGE_POOL_STATS", None, "y"))
    assert diff.changed == ()


def test_a_symbol_whose_type_a_version_changed_is_version_bound() -> None:
    diff = diff_configs("CONFIG_BASE_SMALL=0\n", "# CONFIG_BASE_SMALL is not set\n")
    assert diff.version_bound == (Difference("BASE_SMALL", "0", "n"),)
    assert diff.changed == ()


@pytest.mark.parametrize(
    "line",
    [
        'CONFIG_CC_VERSION_TEXT="gcc-14"',
        "CONFIG_GCC_VERSION=140200",
        "CONFIG_AS_VERSION=24400",
        "CONFIG_LD_IS_BFD=y",
        "CONFIG_CC_HAS_ASM_GOTO_OUTPUT=y",
        "CONFIG_AS_HAS_NON_CONST_ULEB128=y",
        "CONFIG_PAHOLE_HAS_SPLIT_BTF=y",
        "CONFIG_RUSTC_LLVM_VERSION=190000",
        "CONFIG_ARCH_HAS_CC_PLATFORM=y",
        "CONFIG_HAVE_KVM_IRQ_BYPASS=m",
        'CONFIG_LOCALVERSION="-dirty"',
        'CONFIG_BUILD_SALT="6.1.0-50-amd64"',
        "CONFIG_KERNEL_ZSTD=y",
        "CONFIG_MODULE_COMPRESS_XZ=y",
    ],
)
def test_what_describes_tools_and_names_is_version_bound(line: str) -> None:
    symbol = line.removeprefix("CONFIG_").partition("=")[0]
    diff = diff_configs(f"{line}\n", f"# CONFIG_{symbol} is not set\n")
    assert [one.symbol for one in diff.version_bound] == [symbol]
    assert diff.changed == ()


@pytest.mark.parametrize(
    "symbol", ["RETPOLINE", "BPF_JIT_ALWAYS_ON", "PAGE_POOL", "INIT_ON_ALLOC_DEFAULT_ON", "HZ_250", "PREEMPT_VOLUNTARY"]
)
def test_what_changes_a_packets_cost_is_never_taken_for_a_description(symbol: str) -> None:
    assert [one.symbol for one in diff_configs(f"CONFIG_{symbol}=y\n", f"# CONFIG_{symbol} is not set\n").changed] == [
        symbol
    ]
