"""How the node's device to the network is shared by classes of pods: an htb tree, and who is in which of its classes.

Packets are put into classes by netfilter, before their source is masqueraded: afterwards the device sees nothing but
the node's own address. Packets of pods that use the node's network are known by their control group.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from berth.node_qos_enforcer.core.laws.bandwidth import LEVEL_0, LEVEL_1, LEVEL_2, Level

ROOT: Final = 1
SYSTEM_CLASS: Final = 2
CLASS_OF_LEVEL: Final = {LEVEL_0: SYSTEM_CLASS, LEVEL_1: 3, LEVEL_2: 4}
FIRST_OWN: Final = 10
"""The first class of a pod that has one of its own."""
LAST_OWN: Final = 0xFFFE
TABLE: Final = "berth_qos"
_LEAST_BITS: Final = 8
"""A class without a rate of its own: htb takes none of 0."""


class Sender(NamedTuple):
    """A pod: its level, its addresses, or its control group if it uses the node's network; bits a second of its own, 0:
    none."""

    uid: str
    level: int
    ips: tuple[str, ...] = ()
    group: str = ""
    egress_bits: int = 0


def own_classes(senders: Iterable[Sender], before: Mapping[str, int]) -> dict[str, int]:
    """The classes of pods that have one of their own, by uid. Who had one keeps it."""
    wanted = [each.uid for each in senders if each.egress_bits > 0]
    kept = {uid: before[uid] for uid in wanted if uid in before}
    taken = set(kept.values())
    free = (minor for minor in range(FIRST_OWN, LAST_OWN + 1) if minor not in taken)
    return {uid: kept[uid] if uid in kept else next(free) for uid in wanted[: LAST_OWN - FIRST_OWN]}


def tree_text(device: str, total_bits: int, level_1: Level, level_2: Level, own: Mapping[int, int]) -> str:
    """The tree as lines of `tc -batch`.

    Args:
        device: that the default route goes by.
        total_bits: what it can send, a second.
        level_1: of latency-sensitive pods, in bits.
        level_2: of best-effort pods, in bits.
        own: classes of single pods, and what each may send.
    """
    rest = max(total_bits - level_1.egress_min - level_2.egress_min, 0)
    classes = [
        (SYSTEM_CLASS, 1, rest, total_bits),
        (CLASS_OF_LEVEL[LEVEL_1], 2, level_1.egress_min, level_1.egress_max or total_bits),
        (CLASS_OF_LEVEL[LEVEL_2], 3, level_2.egress_min, level_2.egress_max or total_bits),
        *((minor, 3, bits, bits) for minor, bits in sorted(own.items())),
    ]
    lines = [
        f"qdisc add dev {device} root handle {ROOT}: htb default {SYSTEM_CLASS:x}",
        f"class add dev {device} parent {ROOT}: classid {ROOT}:1 htb rate {total_bits}bit",
    ]
    for minor, priority, rate, ceiling in classes:
        rate = min(max(rate, _LEAST_BITS), max(ceiling, _LEAST_BITS))
        lines.append(
            f"class add dev {device} parent {ROOT}:1 classid {ROOT}:{minor:x} htb"
            f" rate {rate}bit ceil {max(ceiling, _LEAST_BITS)}bit prio {priority}"
        )
    return "".join(f"{line}\n" for line in lines)


def marks_text(senders: Sequence[Sender], own: Mapping[str, int], *, has_groups: bool) -> str:
    """Who is in which class, as a table of nftables that replaces the one of before.

    `has_groups`: control groups are of version 2, by which netfilter knows processes.
    """
    by_family: dict[int, dict[str, int]] = {4: {}, 6: {}}
    rules: list[str] = []
    for each in senders:
        minor = own.get(each.uid, CLASS_OF_LEVEL[each.level])
        for ip in each.ips:
            address = _address(ip)
            if address is not None:
                by_family[address.version][str(address)] = minor
        if each.group and has_groups and minor != SYSTEM_CLASS:
            depth = each.group.count("/") + 1
            rules.append(f'socket cgroupv2 level {depth} "{each.group}" meta priority set {ROOT}:{minor:x}')
    lines = [f"table inet {TABLE}", f"delete table inet {TABLE}", f"table inet {TABLE} {{"]
    for family, key in ((4, "ipv4_addr"), (6, "ipv6_addr")):
        elements = ", ".join(f"{ip} : {ROOT}:{minor:x}" for ip, minor in sorted(by_family[family].items()))
        lines += [f" map pods{family} {{", f"  type {key} : classid"]
        lines += [f"  elements = {{ {elements} }}"] if elements else []
        lines.append(" }")
    lines += [
        " chain forwarded {",
        "  type filter hook postrouting priority mangle; policy accept;",
        "  meta priority set ip saddr map @pods4",
        "  meta priority set ip6 saddr map @pods6",
        " }",
        " chain local {",
        "  type route hook output priority mangle; policy accept;",
        *(f"  {rule}" for rule in sorted(rules)),
        " }",
        "}",
    ]
    return "".join(f"{line}\n" for line in lines)


def default_device(routes: str) -> str:
    """The device of the default route, from /proc/net/route; of several the one of the least metric; empty: none."""
    found: list[tuple[int, str]] = []
    for line in routes.splitlines()[1:]:
        words = line.split()
        if len(words) > 7 and words[1] == words[7] == "00000000" and words[6].isdecimal():
            found.append((int(words[6]), words[0]))
    return min(found)[1] if found else ""


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
