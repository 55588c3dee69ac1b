"""Answers to people about a gang in the network: where it lies, and what the domains that it may go into take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.gatherers.attempt import SolverAttempt
from berth.placement_solver.core.groups import Gang
from berth.placement_solver.core.plan import Unit
from berth.placement_solver.core.solve import Trial
from berth.rules.network_topology.spec import must_gather_layer

SHOWN_MAX: Final = 16


def network_facts(cluster: ClusterView, gang: Gang) -> dict[str, str]:
    """Facts of a gang that asks for a place in the network; none of another."""
    asked = gang.config.network if gang.config is not None else None
    if asked is None or asked.problem is not None or not cluster.network.is_known:
        return {}
    layers = cluster.network.names
    layer = must_gather_layer(asked.rules, layers)
    facts = {"slots": "; ".join(_slots(cluster, gang))}
    if layer in layers:
        homes = cluster.network.homes(gang, layers.index(layer) + 1)
        listed = ", ".join(f"{'/'.join(path)} ({count})" for path, count in sorted(homes.items()))
        facts["scattered" if len(homes) > 1 else "domain"] = f"{layer} {listed}" if homes else ""
    return {name: text for name, text in facts.items() if text}


def _slots(cluster: ClusterView, gang: Gang) -> Iterator[str]:
    """What each domain takes of the members that wait."""
    candidates = cluster.candidates(sorted(gang.children - gang.placed))
    unit = Unit(gang.id, tuple(candidates), {each.name: gang.id for each in candidates})
    for gatherer in candidates[0].cls.rules.gatherers if candidates else ():
        for job in gatherer.jobs(unit):
            found = gatherer.considered(job, SolverAttempt(cluster.solver, Trial(cluster.capacity), ""))
            yield from found[:SHOWN_MAX]
            if len(found) > SHOWN_MAX:
                yield f"and {len(found) - SHOWN_MAX} more"
