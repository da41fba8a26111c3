#!/usr/bin/python
# SPDX-License-Identifier: GPL-2.0-or-later
"""Ansible module: read the links of network namespaces."""

from __future__ import annotations

DOCUMENTATION = r"""
module: link_facts
short_description: Read network namespaces and their links
description:
  - Reads named network namespaces and every link in them, and changes nothing.
version_added: 0.1.0
author:
  - xdprepro developers (@xdprepro)
requirements:
  - pyroute2 >= 0.9
options:
  names:
    description: Names of the namespaces, as in C(ip netns).
    type: list
    elements: str
    required: true
attributes:
  check_mode:
    description: Reads in check mode too.
    support: full
  diff_mode:
    description: There is never a difference.
    support: none
"""

EXAMPLES = r"""
- name: Read the lab's links
  xdprepro.lab.link_facts:
    names: [xdprepro-veth-dut]
  register: lab_links_found
"""

RETURN = r"""
namespaces:
  description:
    - By name, the C(state) (C(present), C(absent), or C(dead) for a name without a namespace), its C(sysctls),
      whether it is C(quiet) (they are those that M(xdprepro.lab.netns) sets), and its C(links).
    - A link, by its name, has C(kind), C(alias), C(mac), C(mtu), C(up), C(carrier), C(qdisc), C(queues) as allocated,
      C(channels) as in use, C(xdp_attached), and the index and namespace id of its peer.
  type: dict
  returned: success
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.xdprepro.lab.plugins.module_utils import lab_links

State = dict[str, Any]


def work(params: State, _check_mode: bool) -> State:
    for name in params["names"]:
        lab_links.check_netns_name(name)
    states = {name: lab_links.read_netns(name) for name in params["names"]}
    return {
        "changed": False,
        "namespaces": {name: state | {"quiet": lab_links.is_quiet(state)} for name, state in states.items()},
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={"names": {"type": "list", "elements": "str", "required": True}},
        supports_check_mode=True,
    )
    lab_links.run_module(module, work)


if __name__ == "__main__":
    main()
