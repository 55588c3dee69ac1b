"""What is to be done about a decision: the writer's step 4, as a function of its book.

A decision is bound only when the view is as new as its solver's, of pods and of Reservations (R13), its object is there
with the same uid and attempt and unbound, its node is the one that was chosen and still lets it in, its devices are
healthy (`fitness`), nobody else holds what it takes (R11), and no law of what lies within a node is broken
(`within_node`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, NamedTuple

from berth.cluster_writer.core.basis import is_late
from berth.cluster_writer.core.fitness import NO_DEVICES, asks_devices, unfit
from berth.cluster_writer.core.growths import is_due, not_wanted
from berth.cluster_writer.core.handing import OFF
from berth.cluster_writer.core.last_check import clash
from berth.cluster_writer.core.progress import Progress, Request, View
from berth.cluster_writer.core.steps import next_step, timed_out
from berth.cluster_writer.core.take_over_steps import taken_by_another
from berth.cluster_writer.core.volume_holders import VolumeHolders
from berth.cluster_writer.core.within_node import Place, asks_cores, broken_law
from berth.contracts.ledger import Decision, PlanStatus
from berth.contracts.state import Device, Node
from berth.contracts.topology import NodeTopology
from berth.transaction.book import FINISHED_PHASES, Book
from berth.transaction.claims import of_decision


class Verdict(Enum):
    """What follows for one decision."""

    NOTHING = "nothing"
    """Bound, gone or withdrawn: it is over."""
    WAIT = "wait"
    """The view is not new enough to judge."""
    STEP = "step"
    """Send the request of a step that comes before the bind."""
    BIND = "bind"
    """Bind it, guarded by uid and `version` (R5)."""
    WITHDRAW = "withdraw"
    """Raise its attempt, guarded by `version` (R6)."""
    LOSS = "loss"
    """The ledger has lost something: raise the epoch."""


class Topologies(NamedTuple):
    """What the writer knows of the CPUs and NUMA nodes of nodes: `of` a node, None if there is no object of it in view,
    which proves that there is none where they `are_known`."""

    of: Callable[[str], NodeTopology | None]
    are_known: bool


NO_TOPOLOGIES: Final = Topologies(lambda node: None, False)


class Volumes(NamedTuple):
    """What the writer knows of what steps are about.

    `asked` are the versions that the requests of the decision's steps have left, `waited_s` how long it has waited for
    its volumes, of at most `timeout_s`.
    """

    view: View
    holders: VolumeHolders
    asked: Mapping[int, int]
    waited_s: float
    timeout_s: float


class Judgement(NamedTuple):
    """A verdict, why, and the resource version of the object that was judged.

    `is_doubtful`: a view that is late in another kind (nodes, the holders of the capacity) would say the same, so the
    verdict counts only when the end of STATE was reached since the decision was read. `request` comes with STEP.
    """

    verdict: Verdict
    reason: str = ""
    version: int = 0
    is_doubtful: bool = False
    request: Request | None = None


def judge(
    decision: Decision,
    book: Book,
    nodes: Mapping[str, Node],
    *,
    nodes_known: bool = True,
    devices: Mapping[str, Device] = NO_DEVICES,
    devices_known: bool = False,
    topologies: Topologies = NO_TOPOLOGIES,
    volumes: Volumes | None = None,
    vendors: frozenset[str] = OFF,
) -> Judgement:
    """Judge one decision of a committed plan.

    `nodes_known`: all nodes are in `nodes`, a missing one is gone. `devices`: Device objects by node, all of them if
    `devices_known`. `topologies`: what is known of the CPUs and NUMA nodes of nodes. `volumes`: what is known of the
    volumes that its steps are about; None: they are not looked at. `vendors`: to whose device plugins something is
    handed.
    """
    name = (decision.namespace, decision.name)
    if book.ledger.plan_status(decision.plan) is not PlanStatus.COMMITTED:
        return Judgement(Verdict.NOTHING, "its plan is not committed")
    if is_late(book, decision):
        return Judgement(Verdict.WAIT, "the view is older than the solver's")
    seen = book.seen(name)
    if seen is None or seen.uid != decision.uid:
        return Judgement(Verdict.NOTHING if book.is_gone(decision) else Verdict.WAIT, "its object is gone")
    if seen.attempt > decision.attempt or seen.phase in FINISHED_PHASES or not is_due(decision, seen):
        return Judgement(Verdict.NOTHING, "bound, withdrawn or ended")
    if seen.attempt < decision.attempt:
        return Judgement(Verdict.WAIT, "the view shows an older attempt")
    if seen.deleting or seen.template.gates:
        return Judgement(Verdict.WAIT, "its object is being deleted, or gated")
    if why := not_wanted(decision, seen):
        return Judgement(Verdict.WITHDRAW, why, seen.version)
    node = nodes.get(decision.node)
    if node is None and not nodes_known:
        return Judgement(Verdict.WAIT, "the nodes are not all known")
    if node is None or node.deleting:
        return Judgement(Verdict.WITHDRAW, f"node {decision.node} is gone", seen.version, node is None)
    if not devices_known and decision.node not in devices and asks_devices(decision):
        return Judgement(Verdict.WAIT, "the Devices are not all known")
    is_of_cores = asks_cores(decision)
    if is_of_cores and not topologies.are_known and topologies.of(decision.node) is None:
        return Judgement(Verdict.WAIT, "the topologies of nodes are not all known")
    reason = unfit(decision, seen.template, node, devices.get(decision.node), vendors=vendors)
    if reason:
        return Judgement(Verdict.WITHDRAW, reason, seen.version, is_doubtful=True)
    found = clash(decision, book.claims_on(decision.node), node.allocatable)
    found = found or taken_by_another(decision, book)
    if found is None and volumes is not None:
        found = volumes.holders.clash(decision, book, volumes.view.storage)
    if found is None and decision.allocation.grants:
        mine = of_decision(decision)
        others = [claim for claim in book.claims_on(decision.node) if (claim.name, claim.uid) != (mine.name, mine.uid)]
        topology = topologies.of(decision.node) if is_of_cores else None
        reason = broken_law(mine, others, seen.template, Place(node, devices.get(decision.node), topology))
        if reason:
            return Judgement(Verdict.WITHDRAW, reason, seen.version, is_doubtful=True)
    if found is None:
        return _before(decision, volumes, node, seen.version)
    return Judgement(Verdict.LOSS if found.is_ours else Verdict.WITHDRAW, found.text, seen.version, is_doubtful=True)


def _before(decision: Decision, volumes: Volumes | None, node: Node, version: int) -> Judgement:
    """Nothing speaks against the bind: are the steps before it done?"""
    if volumes is None or not decision.before:
        return Judgement(Verdict.BIND, "", version)
    outcome = next_step(decision, volumes.view, node, volumes.asked)
    if outcome.progress is Progress.DONE:
        return Judgement(Verdict.BIND, "", version)
    if outcome.progress is Progress.REFUSED:
        return Judgement(Verdict.WITHDRAW, outcome.reason, version, is_doubtful=True)
    if volumes.waited_s >= volumes.timeout_s:
        reason = timed_out(outcome.reason, volumes.timeout_s)
        return Judgement(Verdict.WITHDRAW, reason, version, is_doubtful=True)
    if outcome.progress is Progress.WAIT:
        return Judgement(Verdict.WAIT, outcome.reason)
    return Judgement(Verdict.STEP, "", version, request=outcome.request)
