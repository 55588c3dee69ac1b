"""Pods of a priority on small nodes: who is nominated, and what the nomination and its victims show."""

from __future__ import annotations

from typing import Any

from tests.services.worlds.solver.bench import SolverBench

from berth.contracts import names
from berth.contracts.codec import decode
from berth.contracts.command import RefusePod
from berth.contracts.ledger import Decision
from berth.rules.eviction_notes import Mark, Nominated, mark_note, nomination_note
from berth.testing.builders import PodBuilder, pod


def sized(name: str, cpu: int, priority: int, **fields: Any) -> PodBuilder:
    """A pod that asks for so many cores."""
    return pod(name).requests(cpu=cpu * 1000).template(priority=priority).set(**fields)


def low(**fields: Any) -> PodBuilder:
    """Who fills the node n0, and is the first to leave."""
    return sized("low", 4, 0, **fields).on("n0")


def held(run: Any, name: str) -> Decision:
    """What LEDGER holds for a pod."""
    found: Decision = run.cluster.book.ledger.decisions["default", name].decision
    return found


def is_nominated(run: Any, name: str) -> bool:
    entry = run.cluster.book.ledger.decisions.get(("default", name))
    return entry is not None and entry.decision.nominates


def refused(bench: SolverBench) -> list[RefusePod]:
    """What was asked to be told of pods that cannot be placed."""
    return [decode(payload, RefusePod) for subject, payload in bench.commands.messages if ".cmd.refuse." in subject]


def free_cpu(run: Any, node: str = "n0") -> int:
    """What the solver counts as free there, in milli."""
    nodes = run.cluster.nodes
    return int(nodes.free[nodes.column(names.CPU), nodes.rows[node]])


def noted(builder: PodBuilder, run: Any) -> PodBuilder:
    """As cluster-writer patches a beneficiary (E3)."""
    decision = held(run, builder.build(0).name)
    for key, value in nomination_note(Nominated(decision.plan, decision.node)).items():
        builder.annotation(key, value)
    return builder.set(nominated=decision.node)


def marked(builder: PodBuilder, run: Any, name: str) -> PodBuilder:
    """As cluster-writer patches a victim of the pod of this name."""
    decision = held(run, name)
    for key, value in mark_note(Mark(decision.plan, f"default/{name}", decision.uid)).items():
        builder.annotation(key, value)
    return builder
