"""Answers to people about a gang in the network: where it lies, and what the domains that it may go into take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.gatherers.attempt import SolverAttempt
from berth.placement_solver.core.groups import Gang
from berth.placement_solver.core.plan import Unit
from berth.placement_solver.core.trial import Trial
from berth.rules.network_topology.layers import Path
from berth.rules.network_topology.spec import must_gather_layer

SHOWN_MAX: Final = 16


def network_facts(cluster: ClusterView, gang: Gang) -> dict[str, str]:
    """Facts of a gang that asks for a place in the network; none of another."""
    facts = {"slots": "; ".join(slots_of(cluster, gang))}
    homes = _homes(cluster, gang)
    facts["scattered" if len(homes) > 1 else "domain"] = domain_of(cluster, gang)
    return {name: text for name, text in facts.items() if text}


def domain_of(cluster: ClusterView, gang: Gang) -> str:
    """In which domains of the layer that they have to stay in one of its members are, each with how many."""
    homes = _homes(cluster, gang)
    listed = ", ".join(f"{'/'.join(path)} ({count})" for path, count in sorted(homes.items()))
    return f"{_must_layer(cluster, gang)} {listed}" if homes else ""


def slots_of(cluster: ClusterView, gang: Gang) -> Iterator[str]:
    """What each domain takes of the members that wait."""
    if not _is_gathered(cluster, gang):
        return
    candidates = cluster.candidates(sorted(gang.children - gang.placed))
    unit = Unit(gang.id, tuple(candidates), {each.name: gang.id for each in candidates})
    for gatherer in candidates[0].cls.rules.gatherers if candidates else ():
        for job in gatherer.jobs(unit):
            found = gatherer.considered(job, SolverAttempt(cluster.solver, Trial(cluster.capacity), ""))
            yield from found[:SHOWN_MAX]
            if len(found) > SHOWN_MAX:
                yield f"and {len(found) - SHOWN_MAX} more"


def _is_gathered(cluster: ClusterView, gang: Gang) -> bool:
    asked = gang.config.network if gang.config is not None else None
    return asked is not None and asked.problem is None and cluster.network.is_known


def _must_layer(cluster: ClusterView, gang: Gang) -> str:
    """The layer of which one domain has to hold them all; empty: there is none."""
    asked = gang.config.network if gang.config is not None else None
    if asked is None or not _is_gathered(cluster, gang):
        return ""
    layer = must_gather_layer(asked.rules, cluster.network.names)
    return layer if layer in cluster.network.names else ""


def _homes(cluster: ClusterView, gang: Gang) -> Mapping[Path, int]:
    layer = _must_layer(cluster, gang)
    return cluster.network.homes(gang, cluster.network.names.index(layer) + 1) if layer else {}
