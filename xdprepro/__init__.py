# SPDX-License-Identifier: GPL-2.0-or-later
"""xdprepro: a reproducible XDP and AF_XDP performance lab with a result archive."""

__version__ = "0.1.0"
