#!/usr/bin/python
# SPDX-License-Identifier: GPL-2.0-or-later
"""Ansible module: the veth pair of a lab."""

from __future__ import annotations

DOCUMENTATION = r"""
module: veth_pair
short_description: Make the veth pair of a lab
description:
  - Makes a multi-queue veth pair directly inside two network namespaces, so that neither end is ever seen outside them.
  - A pair that differs in anything from what is asked for is deleted and made anew. That includes what others did to
    it, such as an attached XDP program, a queueing discipline or fewer channels.
  - Links that this module made under other names in the two namespaces are removed; links of others are refused.
version_added: 0.1.0
author:
  - xdprepro developers (@xdprepro)
requirements:
  - pyroute2 >= 0.9
options:
  ends:
    description: The two ends of the pair.
    type: list
    elements: dict
    required: true
    suboptions:
      netns:
        description: Namespace of this end; M(xdprepro.lab.netns) makes it.
        type: str
        required: true
      ifname:
        description: Name of this end.
        type: str
        required: true
      mac:
        description: Its MAC address.
        type: str
        required: true
  queues:
    description: Receive queues and transmit queues of each end, all in use.
    type: int
    required: true
  mtu:
    description: MTU of both ends.
    type: int
    required: true
  owner:
    description: Name of the lab, written into the alias of both ends.
    type: str
    required: true
attributes:
  check_mode:
    description: Says what would change and changes nothing.
    support: full
  diff_mode:
    description: Shows both ends before and after.
    support: full
"""

EXAMPLES = r"""
- name: Make the veth pair
  xdprepro.lab.veth_pair:
    ends:
      - {netns: xdprepro-veth-dut, ifname: dut0, mac: "02:00:00:00:00:01"}
      - {netns: xdprepro-veth-tester, ifname: tester0, mac: "02:00:00:00:00:02"}
    queues: 2
    mtu: 1500
    owner: veth
"""

RETURN = r"""
before:
  description: State of each end by C(netns/ifname), as found; C(null) for an end that was not there.
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
    check(params)
    namespaces = [lab_links.read_netns(end["netns"]) for end in params["ends"]]
    for state in namespaces:
        lab_links.refuse_foreign_links(state, params["owner"])
    before, after = read(params), wanted(params)
    strays = stray_links(params, namespaces)
    changed = bool(strays) or before != after
    if changed and not check_mode:
        remake(params, namespaces)
        after = read(params)
    diff = {"before": before | {"strays": strays}, "after": after | {"strays": []}}
    return {"changed": changed, "before": before, "after": after, "diff": diff}


def check(params: State) -> None:
    if len(params["ends"]) != 2:
        raise lab_links.LabLinksError(f"a pair has two ends, got {len(params['ends'])}")
    lab_links.check_range("MTU", params["mtu"], lab_links.MTU_RANGE)
    lab_links.check_range("number of queues", params["queues"], lab_links.QUEUES_RANGE)
    for end in params["ends"]:
        lab_links.check_netns_name(end["netns"])
        lab_links.check_ifname(end["ifname"])


def wanted(params: State) -> State:
    queues = {"rx": params["queues"], "tx": params["queues"]}
    common = {
        "kind": "veth",
        "alias": lab_links.OWNER_ALIAS.format(owner=params["owner"]),
        "group": lab_links.OWNER_GROUP,
        "mtu": params["mtu"],
        "up": True,
        "carrier": True,
        "qdisc": "noqueue",
        "promiscuity": 0,
        "queues": queues,
        "channels": queues,
        "xdp_attached": False,
        "joined": True,
    }
    return {label(end): common | {"mac": end["mac"].lower()} for end in params["ends"]}


def read(params: State) -> State:
    return {label(near): read_end(near, far) for near, far in (params["ends"], reversed(params["ends"]))}


def read_end(near: State, far: State) -> State | None:
    link = lab_links.read_link(near["netns"], near["ifname"])
    if link is None:
        return None
    unstable = {"ifname", "ifindex", "peer_ifindex", "peer_nsid"}
    state = {key: value for key, value in link.items() if key not in unstable}
    return state | {"joined": lab_links.is_joined(near, far)}


def stray_links(params: State, namespaces: list[State]) -> list[str]:
    """Links of ours that are not the pair: the lab had other names before."""
    found = {f"{state['name']}/{ifname}" for state in namespaces for ifname in state["links"]}
    kernel = {f"{state['name']}/{ifname}" for state in namespaces for ifname in lab_links.KERNEL_LINKS}
    return sorted(found - kernel - {label(end) for end in params["ends"]})


def remake(params: State, namespaces: list[State]) -> None:
    for state in namespaces:
        if state["state"] != "present":
            raise lab_links.LabLinksError(f"the namespace {state['name']} is {state['state']}")
        lab_links.delete_links(lab_links.read_netns(state["name"]), params["owner"])
    lab_links.create_pair(params["ends"], queues=params["queues"], mtu=params["mtu"], owner=params["owner"])


def label(end: State) -> str:
    return f"{end['netns']}/{end['ifname']}"


def main() -> None:
    end = {key: {"type": "str", "required": True} for key in ("netns", "ifname", "mac")}
    module = AnsibleModule(
        argument_spec={
            "ends": {"type": "list", "elements": "dict", "required": True, "options": end},
            "queues": {"type": "int", "required": True},
            "mtu": {"type": "int", "required": True},
            "owner": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    lab_links.run_module(module, work)


if __name__ == "__main__":
    main()
