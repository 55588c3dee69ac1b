"""NetworkTopology: the members of a gang that must lie in one domain of the network do, those that are there already
and those that a plan adds; and a plan that begins a gang has the multiples that are asked for in every layer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from berth.placement_solver.core.verify.gangs import settings_of
from berth.placement_solver.core.verify.view import View
from berth.rules.gang_config import GangConfig
from berth.rules.network_topology.spec import MUST, GatherSpec
from berth.transaction.claims import Claim, Name

NODES: Final = "NodeTopologyLayer"


def network_problems(members: Mapping[str, Sequence[Claim]], view: View) -> Iterator[str]:
    """What speaks against a plan that makes these claims of members of gangs, by the id of the gang."""
    jobs: dict[tuple[str, GatherSpec], list[Claim]] = {}
    for gang_id, claims in members.items():
        config = settings_of(gang_id, view)
        if config is not None and config.network is not None:
            jobs.setdefault((_group_of(config), config.network), []).extend(claims)
    for (group, asked), arriving in jobs.items():
        layers = view.network.message
        if asked.problem is not None or layers is None or not layers.digest:
            yield f"gang {group}: what it asks of the network cannot be honoured"
            continue
        yield from _job_problems(group, asked, arriving, [*(each.name for each in layers.layers), NODES], view)


def _job_problems(
    group: str, asked: GatherSpec, arriving: Sequence[Claim], layers: Sequence[str], view: View
) -> Iterator[str]:
    places = []
    for claim in arriving:
        place = _place(claim.node, view)
        if place is None:
            yield f"{'/'.join(claim.name)}: node {claim.node} lies nowhere in the network"
            return
        places.append(place)
    there = [place for node in _nodes_of_others(group, asked, arriving, view) if (place := _place(node, view))]
    for rule in asked.rules:
        if rule.layer not in layers:
            yield f"gang {group}: the network has no layer {rule.layer}"
            continue
        depth = layers.index(rule.layer) + 1
        if rule.strategy == MUST:
            domains = {place[:depth] for place in places}
            known = {place[:depth] for place in there}
            if len(domains) > 1 or (known and not domains <= known):
                yield f"gang {group}: its members are not in one domain of {rule.layer}"
        if rule.multiple > 1 and not there:
            for domain, count in Counter(place[:depth] for place in places).items():
                if count % rule.multiple:
                    yield f"gang {group}: {count} members in {'/'.join(domain)}, no multiple of {rule.multiple}"


def _nodes_of_others(group: str, asked: GatherSpec, arriving: Sequence[Claim], view: View) -> Iterator[str]:
    """Where members of the group's gangs that ask for the same are, beside the plan's."""
    names = {claim.name for claim in arriving}
    for gang_id in group.split(","):
        config, gang = settings_of(gang_id, view), view.gangs.gangs.get(gang_id)
        if gang is None or config is None or config.network != asked:
            continue
        for name in sorted(gang.children - names):
            yield from (node for node in _node_of(name, view) if node)


def _node_of(name: Name, view: View) -> Iterator[str]:
    seen = view.book.seen(name)
    if seen is not None and seen.node:
        yield seen.node
        return
    decision = view.book.open_decision(name)
    if decision is not None and not decision.nominates:
        yield decision.node


def _place(node: str, view: View) -> tuple[str, ...] | None:
    layers, found = view.network.message, view.network.domains.get(node)
    if layers is None or found is None or found.digest != layers.digest:
        return None
    return (*found.path, node)


def _group_of(config: GangConfig) -> str:
    return config.group_id if config.id in config.group else config.id
