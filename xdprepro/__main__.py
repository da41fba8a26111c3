# SPDX-License-Identifier: GPL-2.0-or-later
"""python -m xdprepro"""

from xdprepro.cli import main

main()
