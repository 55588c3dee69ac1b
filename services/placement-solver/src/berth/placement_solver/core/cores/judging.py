"""What a pod comes to on one node, before its CPUs and NUMA nodes are chosen."""

from __future__ import annotations

from collections.abc import Sequence

from berth.contracts import names
from berth.placement_solver.core.cores import CoresAsked, Verdict
from berth.placement_solver.core.cores.store import KINDS
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.seams import (
    Rejection,
    Target,
    ZoneHinter,
)
from berth.placement_solver.core.words import amounts_listed, listed
from berth.resources.amounts import Amounts
from berth.rules.amplification import amplify
from berth.rules.cpus.available import FULL_PCPUS
from berth.rules.cpus.cpuset import NO_CPUS
from berth.rules.cpus.kubelet import SINGLE_NUMA_NODE
from berth.rules.numa.amplified_cpu import INSUFFICIENT as TOO_LITTLE
from berth.rules.numa.amplified_cpu import lacking_cpu
from berth.rules.numa.split import ZoneRequest
from berth.rules.scheduler_config import NumaArgs

SINGLE, SEVERAL = 1, 2
"""How a NUMA policy is asked of many nodes at once; 0: not at all."""


class Judging:
    """What is known of nodes, and the verdict on a pod by the make of a node."""

    def __init__(
        self,
        nodes: Nodes,
        args: NumaArgs | None = None,
        *,
        beside_kubelet: bool = False,
        beside: Sequence[ZoneHinter] = (),
    ) -> None:
        """`beside_kubelet`: own CPUs are given out also where kubelet's CPU manager gives them out itself. `beside` are
        the constraints whose things lie on NUMA nodes together with CPUs and memory."""
        args = args or NumaArgs()
        self._nodes = nodes
        self._cores = nodes.cores
        self._default_bind = args.default_cpu_bind_policy
        self._strategy = args.numa_scoring_strategy.type
        self._weights = args.numa_scoring_strategy.weights
        self._beside_kubelet = beside_kubelet
        self._beside = beside

    def _verdict(self, query: CoresAsked, row: int) -> Verdict:
        self._cores.follow()
        return self._cores.verdicts(query)[int(self._cores.make[row])]

    def _shown_cpu(self, query: CoresAsked, verdict: Verdict, row: int) -> int:
        """The pod's cpu in what a node shows."""
        own = 1000 * verdict.own
        return query.amounts.get(names.CPU, 0) - own + amplify(own, self._cores.ratio(row))

    def _lacking_cpu(self, query: CoresAsked, verdict: Verdict, target: Target) -> int:
        """What `_lacking_cpus` says of one node, under a hypothesis."""
        cores, row = self._cores, target.row
        return lacking_cpu(
            query.amounts.get(names.CPU, 0),
            allocatable_milli=self._allocatable_cpu(row),
            requested_milli=cores.requested(row, names.CPU, target.hypothesis),
            own_cpus=len(cores.pinned_cpus(row, target.hypothesis)),
            ratio=cores.ratio(row),
            own_milli=1000 * verdict.own,
        )

    def _lacking_for(self, query: CoresAsked, verdict: Verdict, row: int, count: int) -> int:
        """How much cpu so many pods lack on a node that shows more than it has."""
        cores = self._cores
        return lacking_cpu(
            count * query.amounts.get(names.CPU, 0),
            allocatable_milli=self._allocatable_cpu(row),
            requested_milli=cores.requested(row, names.CPU),
            own_cpus=len(cores.pinned_cpus(row)),
            ratio=cores.ratio(row),
            own_milli=count * 1000 * verdict.own,
        )

    def _allocatable_cpu(self, row: int) -> int:
        return int(self._nodes.allocatable[self._nodes.columns[names.CPU], row])

    def _too_little(self, query: CoresAsked, verdict: Verdict, row: int, lacking: int) -> Rejection:
        is_resolvable = self._shown_cpu(query, verdict, row) <= self._allocatable_cpu(row)
        return Rejection((TOO_LITTLE,), is_resolvable, {names.CPU: lacking})


def kind_of(verdict: Verdict) -> int:
    """Which of `KINDS` counts."""
    return KINDS.index(verdict.bind) if verdict.required else 0


def policy_of(verdict: Verdict) -> int:
    """How NUMA nodes are asked: 0, `SINGLE` or `SEVERAL`."""
    return 0 if not verdict.policy else SINGLE if verdict.policy == SINGLE_NUMA_NODE else SEVERAL


def request_on(
    query: CoresAsked,
    verdict: Verdict,
    strategy: str = "",
    rivals: frozenset[int] = NO_CPUS,
    preferred: frozenset[int] = NO_CPUS,
) -> ZoneRequest:
    """What it asks of the NUMA nodes of a node. `rivals` are CPUs whose cores or NUMA nodes it has to keep off."""
    return ZoneRequest(
        amounts=query.amounts,
        own_cpus=verdict.own,
        bind=verdict.bind,
        required=verdict.required,
        exclusive=query.binding.exclusive,
        rivals=rivals,
        preferred=preferred,
        strategy=strategy,
    )


def cpus_in_words(count: int, verdict: Verdict) -> str:
    """So many CPUs of its own."""
    number = "1 exclusive CPU" if count == 1 else f"{count} exclusive CPUs"
    return f"{number} of whole cores" if verdict.required and verdict.bind == FULL_PCPUS else number


def missing_in_words(amounts: Amounts, verdict: Verdict) -> str:
    """In words; of CPUs of its own the number."""
    cpus = amounts.get(names.CPU, 0) // 1000 if verdict.own else 0
    plain = {name: amount for name, amount in amounts.items() if not (cpus and name == names.CPU)}
    parts = [cpus_in_words(cpus, verdict)] if cpus else []
    return listed([*parts, *amounts_listed(plain)]) if parts or plain else ""
