# SPDX-License-Identifier: GPL-2.0-or-later
"""Options that modules about kernels share."""

from __future__ import annotations


class ModuleDocFragment:
    """Ansible wants it as a class of this name; `package` is for modules that take a package of Debian's apart."""

    DOCUMENTATION = r"""
options:
  progress:
    description: A file to write the state of the work into, for people.
    type: str
    default: ''
"""

    PACKAGE = r"""
options:
  index:
    description: The file with the kernel packages, as M(xdprepro.lab.debian_lists) made it.
    type: path
    required: true
  version:
    description: The package's version; empty means the newest.
    type: str
    default: ''
  suite:
    description: The suite that it must be in; empty means any.
    type: str
    default: ''
"""
