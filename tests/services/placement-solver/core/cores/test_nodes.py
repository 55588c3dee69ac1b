"""Which nodes give CPUs, to whom, and beside what is held there."""

from __future__ import annotations

from typing import Any

from msgspec import structs
from tests.services.worlds.solver.cores import FULL, cpus_of, held, pinned, told

from berth.contracts import names, subjects
from berth.contracts.codec import encode
from berth.contracts.state import NodeResourceTopology
from berth.placement_solver.core.constraints.node_numa_resource import UNCOUNTED, UNKNOWN, WAIT
from berth.rules.cpus.bind_policy import KUBELET_GIVES, NO_LAYOUT
from berth.testing.builders import GI, node_topology, pod


def test_a_node_without_topology_gives_none(solving: type[Any]) -> None:
    run = solving()
    run.node("n")
    run.pod(pinned("a", 2))
    assert NO_LAYOUT in told(run)


def test_kubelets_static_policy_keeps_them(solving: type[Any]) -> None:
    run = solving()
    run.node("n")
    run.topology("n", node_topology(cpu_manager="static", full_cores=True))
    run.pods([pinned("a", 2), pod("plain").requests(cpu=1500)])
    assert KUBELET_GIVES in told(run)
    assert held(run, "plain") == ()


def test_a_profile_may_give_cpus_beside_kubelet(solving: type[Any]) -> None:
    run = solving()
    assert run.configure(pluginConfig=[{"name": "Berth", "args": {"ownCpusBesideKubelet": True}}])
    run.node("n")
    run.topology("n", node_topology(cpu_manager="static", full_cores=True, reserved=(0, 1)))
    run.pods([pinned("a", 2), pinned("odd", 3)])
    assert "node(s) requested cpus not multiple cpus per core" in told(run)
    assert cpus_of(held(run, "a")) == "2-3"


def test_a_topology_that_waits_to_be_read_gives_none(solving: type[Any]) -> None:
    run = solving()
    run.node("n")
    run.version += 1
    report = NodeResourceTopology(name="n", version=run.version)
    run.state(subjects.named_key("noderesourcetopology", "n"), report)
    run.pod(pinned("a", 2))
    assert told(run) == f"0/1 nodes are available: 1 {UNCOUNTED}. To repair: {WAIT}."
    run.topology("n", node_topology())
    run.cluster.now += 1000
    assert run.nodes_of(run.round()) == {"a": "n"}


def test_after_a_loss_an_older_topology_is_not_planned_with(run: Any) -> None:
    older = run.version
    run.topology("n", node_topology(zones=2, reserved=tuple(range(12))))
    run.cluster.reset_inventory()
    old = structs.replace(node_topology("n", zones=2), version=older)
    run.cluster.read_inventory(subjects.named_key("topology", "n"), encode(old), False)
    run.pod(pinned("a", 2))
    assert UNCOUNTED in told(run)
    new = structs.replace(node_topology("n", zones=2, reserved=tuple(range(12))), version=run.version - 1)
    run.cluster.read_inventory(subjects.named_key("topology", "n"), encode(new), False)
    run.cluster.now += 1000
    run.round()
    assert cpus_of(held(run, "a")) == "12-13"


def test_a_node_may_give_cpus_to_every_pod(solving: type[Any]) -> None:
    run = solving()
    run.pod(pod("early").requests(cpu=2000))
    run.round()
    label = {names.LABEL_CPU_BIND_POLICY: "SpreadByPCPUs"}
    run.node("n", labels=label)
    run.topology("n", node_topology())
    run.cluster.now += 1000
    run.pods([pod("late").requests(cpu=2000), pod("part").requests(cpu=1500), pod("none").requests(memory=GI)])
    solution = run.round()
    assert run.nodes_of(solution) == {"early": "n", "late": "n", "none": "n"}
    assert [refusal.candidate.name[1] for refusal in solution.refusals] == ["part"]
    assert [cpus_of(held(run, name)) for name in ("early", "late", "none")] == ["0,2", "1,3", ""]
    run.bind(pod("early").requests(cpu=2000))
    assert cpus_of(held(run, "early")) == "0,2"
    run.node("n")
    run.pod(pod("after").requests(cpu=1500))
    assert run.nodes_of(run.round()) == {"after": "n"}
    assert held(run, "after") == ()


def test_a_record_that_cannot_be_read_keeps_cpus_from_everybody(run: Any) -> None:
    run.pod(pinned("torn", 2).annotation(names.ANNOTATION_RESOURCE_STATUS, '{"cpuset":"0-99999999"}').on("n"))
    run.pods([pinned("a", 2), pod("plain").requests(cpu=1000)])
    assert UNKNOWN in told(run)
    assert held(run, "plain") == ()
    run.delete_pod("torn")
    run.cluster.now += 1000
    assert run.nodes_of(run.round()) == {"a": "n"}


def test_a_record_of_others_counts(run: Any) -> None:
    run.pod(pinned("other", 4).annotation(names.ANNOTATION_RESOURCE_STATUS, '{"cpuset":"0,1,8,9"}').on("n"))
    run.pod(pinned("a", 4))
    run.round()
    assert not {*range(2), 8, 9} & {int(grant.id) for grant in held(run, "a")}


def test_a_topology_that_changes_under_holders_keeps_what_they_hold(run: Any) -> None:
    run.pod(pinned("a", 4))
    run.round()
    run.topology("n", node_topology(zones=1))
    run.pod(pinned("b", 4))
    run.round()
    assert cpus_of(held(run, "b")) == "4-7"
    run.topology("n", node_topology(zones=2))
    run.pod(pinned("c", 8, requiredCPUBindPolicy=FULL))
    run.round()
    assert cpus_of(held(run, "c")) == "8-15"
