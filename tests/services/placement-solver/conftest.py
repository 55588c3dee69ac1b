"""A solver without a bus: a view fed by hand, and rounds that solve, verify and commit as the rounds do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from berth.contracts import names, subjects
from berth.contracts.codec import encode
from berth.contracts.ledger import Decision, Plan, PlanStatus
from berth.contracts.metrics import NodeMetrics, Usage
from berth.contracts.state import NodeMetric, Pod
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.decide import Basis, decisions_of
from berth.placement_solver.core.plan import Solution
from berth.placement_solver.core.trial import Trial
from berth.placement_solver.core.verify import Verifier
from berth.testing.builders import GI, PodBuilder
from berth.testing.feed import Feed
from berth.transaction.batch import plan_batch


class Solving(Feed):
    """A view with its feed. `now` is the view's time in seconds."""

    def __init__(self, **settings: Any) -> None:
        self.cluster = ClusterView([names.SCHEDULER_NAME], "s1", **settings)
        self.verifier = Verifier(self.cluster)
        self.plans = 0
        super().__init__(self.cluster)

    def configure(self, **profile: Any) -> bool:
        """Read a configuration with one profile, for our scheduler name; whether another one holds from now on."""
        head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        document = {**head, "profiles": [{"schedulerName": names.SCHEDULER_NAME, **profile}]}
        return self.cluster.configuration.read(json.dumps(document))

    def uses(self, node: str, stored_s: float, *, cpu: int = 0, memory: int = 0, **fields: Any) -> None:
        """METRICS: what the agent of a node measures; `stored_s` is when the bus stored it."""
        fields = {"measured_at": stored_s, "interval_s": 10.0, "memory_total_bytes": 256 * GI, **fields}
        message = NodeMetrics(node=node, node_usage=Usage(cpu_milli=cpu, memory_bytes=memory), **fields)
        key = subjects.named_key("node", node)
        self.cluster.loads.tell_time(stored_s)
        self.cluster.read_metrics(key, encode(message), deleted=False, stored_s=stored_s)

    def reports(self, node: str, status: dict[str, Any]) -> None:
        """STATE: the NodeMetric of a node, as another agent writes it."""
        self.version += 1
        message = NodeMetric(name=node, version=self.version, status=status)
        self.cluster.read_node_metric(subjects.named_key("nodemetric", node), encode(message), deleted=False)

    def solve(self, limit: int = 200) -> tuple[Solution, Trial]:
        """One batch, tried on the capacity and not taken back."""
        units, held_back = self.cluster.batch(limit)
        for waiting, reason in held_back:
            self.cluster.queue.hold(waiting, (reason,), self.cluster.now)
        trial = Trial(self.cluster.capacity)
        self.plans += 1
        return self.cluster.solver.solve(units, trial, f"plan-{self.plans}"), trial

    def round(self, limit: int = 200) -> Solution:
        """One batch, solved, verified, committed and read back."""
        solution, trial = self.solve(limit)
        problems = self.verifier.check([placement.claim for placement in solution.placements])
        assert problems == []
        trial.undo()
        if solution.placements:
            assert self.commit_solution(solution)
        for refusal in solution.refusals:
            waiting = self.cluster.queue.waiting.get(refusal.candidate.name)
            if waiting is not None:
                self.cluster.queue.refuse(waiting, refusal.reasons, self.cluster.now)
        return solution

    def decide(self, solution: Solution) -> tuple[list[Decision], dict[str, int]]:
        """The decisions of a solution."""
        basis = Basis(self.version, self.version, 0)
        plan = solution.placements[0].claim.plan
        return decisions_of(solution.placements, plan, basis, self.cluster.nodes, self.cluster.quotas, {})

    def commit_solution(self, solution: Solution) -> bool:
        """Write a solution into the ledger as one batch."""
        decisions, revisions = self.decide(solution)
        plan = Plan(id=solution.placements[0].claim.plan, status=PlanStatus.COMMITTED, decisions=len(decisions))
        return self.commit(plan_batch(self.cluster.book.ledger, plan, decisions, revisions))

    def bind(self, builder: PodBuilder) -> Pod:
        """Show a decided pod as bound, with the annotations of its decision."""
        pod = builder.build(0)
        held = self.cluster.book.ledger.decisions[pod.namespace, pod.name].decision
        for key, value in held.annotations.items():
            builder.annotation(key, value)
        return self.pod(builder.set(node=held.node, phase="Running", plan=held.plan))

    def nodes_of(self, solution: Solution) -> dict[str, str]:
        """Where each pod of a solution goes, by its name."""
        return {placement.candidate.name[1]: placement.claim.node for placement in solution.placements}


@pytest.fixture(scope="session")
def solving() -> type[Solving]:
    """The type, so that property tests make one per example."""
    return Solving
