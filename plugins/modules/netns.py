#!/usr/bin/python
# SPDX-License-Identifier: GPL-2.0-or-later
"""Ansible module: the network namespaces of a lab."""

from __future__ import annotations

DOCUMENTATION = r"""
module: netns
short_description: Make or remove the network namespaces of a lab
description:
  - Makes named network namespaces in which IPv6 is disabled, so that no neighbour or listener discovery frames are
    counted with the frames of a measurement, and in which IPv4 neither forwards nor filters by reverse path, whatever
    the host does.
  - Removes them together with the links that M(xdprepro.lab.veth_pair) made in them, and with nothing else.
  - A namespace that holds a link which xdprepro did not make is refused, in both states.
  - A name that an interrupted creation left without a namespace is taken over.
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
  owner:
    description: Name of the lab; links of other owners are foreign.
    type: str
    required: true
  state:
    description: Whether the namespaces are there.
    type: str
    choices: [present, absent]
    default: present
attributes:
  check_mode:
    description: Says what would change and changes nothing.
    support: full
  diff_mode:
    description: Shows the namespaces before and after.
    support: full
"""

EXAMPLES = r"""
- name: Make the namespaces of the lab
  xdprepro.lab.netns:
    names: [xdprepro-veth-dut, xdprepro-veth-tester]
    owner: veth

- name: Remove the namespaces of the lab
  xdprepro.lab.netns:
    names: [xdprepro-veth-dut, xdprepro-veth-tester]
    owner: veth
    state: absent
"""

RETURN = r"""
before:
  description: C(state), C(sysctls) and the names of the C(links) of each namespace, by name, as found.
  type: dict
  returned: success
after:
  description: The same, as left; in check mode as it would be left.
  type: dict
  returned: success
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.xdprepro.lab.plugins.module_utils import lab_links

State = dict[str, Any]


def work(params: State, check_mode: bool) -> State:
    names, owner = params["names"], params["owner"]
    for name in names:
        lab_links.check_netns_name(name)
    found = [lab_links.read_netns(name) for name in names]
    for state in found:
        lab_links.refuse_foreign_links(state, owner)
    decide = make if params["state"] == "present" else remove
    left = [decide(state, owner, check_mode=check_mode) for state in found]
    before, after = by_name(found), by_name(left)
    return {"changed": before != after, "before": before, "after": after, "diff": {"before": before, "after": after}}


def make(state: State, _owner: str, *, check_mode: bool) -> State:
    if state["state"] == "present" and lab_links.is_quiet(state):
        return state
    if check_mode:
        return state | {"state": "present", "sysctls": dict(lab_links.QUIET), "links": state["links"] or {"lo": {}}}
    lab_links.create_netns(state["name"])
    made: State = lab_links.read_netns(state["name"])
    return made


def remove(state: State, owner: str, *, check_mode: bool) -> State:
    if state["state"] == "absent":
        return state
    if not check_mode:
        lab_links.remove_netns(state["name"], owner)
    return {"name": state["name"], "state": "absent", "sysctls": {}, "links": {}}


def by_name(states: list[State]) -> State:
    return {state["name"]: state | {"links": sorted(state["links"])} for state in states}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "names": {"type": "list", "elements": "str", "required": True},
            "owner": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    lab_links.run_module(module, work)


if __name__ == "__main__":
    main()
