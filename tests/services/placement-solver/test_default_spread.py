"""Constraints of the configuration: pods without their own are spread with those that their services and controllers
select."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from berth.contracts import subjects
from berth.contracts.kube import LabelSelector, OwnerReference
from berth.contracts.state import ReplicaSet, Service, StatefulSet, Synced
from berth.placement_solver.core.pod_selectors import NOT_READ
from berth.rules.topology_spread import REASON
from berth.testing.builders import pod

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
WEB = {"app": "web"}
BY_SCORE = {"name": "Berth", "args": {"decides": "kube-scheduler"}}
LISTED = {
    "defaultingType": "List",
    "defaultConstraints": [{"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
}
HARD = {"name": "PodTopologySpread", "args": LISTED}
SOFT = {
    "name": "PodTopologySpread",
    "args": {
        "defaultingType": "List",
        "defaultConstraints": [{"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}],
    },
}
KINDS = ("services", "replicationcontrollers", "replicasets", "statefulsets")


class Run:
    """A solver over three zones, zone a with much more free capacity than the others."""

    def __init__(self, solving: Any, *config: Any, complete: bool = True) -> None:
        self.solving = solving()
        self.solving.configure(pluginConfig=list(config))
        for zone in "abc":
            self.solving.node(f"{zone}1", cpu=64_000, labels={ZONE: zone, HOST: f"{zone}1"})
        if complete:
            self.complete()

    def complete(self, *kinds: str) -> None:
        for kind in kinds or KINDS:
            self.solving.state(subjects.synced_key(kind), Synced(kind=kind, version=self.version(), complete=True))
        self.solving.reader.end_of_state()

    def version(self) -> int:
        self.solving.version += 1
        return int(self.solving.version)

    def service(self, name: str, selector: dict[str, str], namespace: str = "default") -> None:
        message = Service(namespace=namespace, name=name, version=self.version(), selector=selector)
        self.solving.state(subjects.namespaced_key("service", namespace, name), message)

    def replica_set(self, name: str, labels: dict[str, str]) -> None:
        message = ReplicaSet(
            namespace="default", name=name, version=self.version(), selector=LabelSelector(match_labels=labels)
        )
        self.solving.state(subjects.namespaced_key("replicaset", "default", name), message)

    def zones(self, solution: Any) -> Counter[str]:
        return Counter(node[0] for node in self.solving.nodes_of(solution).values())

    def reasons(self, solution: Any) -> dict[str, list[tuple[str, str]]]:
        return {
            refusal.candidate.name[1]: [(reason.code, reason.message) for reason in refusal.reasons]
            for refusal in solution.refusals
        }

    def is_woken(self) -> bool:
        self.solving.cluster.wake()
        self.solving.cluster.now += 20.0
        return bool(self.solving.cluster.queue.has_ready(self.solving.cluster.now))


def web(name: str, *, owner: str = "", kind: str = "ReplicaSet") -> Any:
    made = pod(name).label("app", "web").requests(cpu=100)
    if owner:
        made.set(owners=[OwnerReference(api_version="apps/v1", kind=kind, name=owner, uid="u", controller=True)])
    return made


def crowded(run: Run) -> None:
    """Zones b and c have a node that is nearly full: by resources alone everybody goes to zone a."""
    for zone in "bc":
        run.solving.pod(pod(f"big-{zone}").requests(cpu=60_000, memory=200 << 30).on(f"{zone}1"))


def test_systems_defaults_spread_where_scores_decide(solving: Any) -> None:
    run = Run(solving, BY_SCORE)
    run.service("web", WEB)
    run.solving.pods(web(f"p{number}") for number in range(6))
    assert run.zones(run.solving.round()) == {"a": 2, "b": 2, "c": 2}


@pytest.mark.parametrize("config", [(BY_SCORE,), (BY_SCORE, SOFT), (SOFT,)])
def test_a_pod_goes_where_fewer_of_its_service_are(solving: Any, config: tuple[Any, ...]) -> None:
    """Two fellows in zone a, one that is none in zone b: the service decides who counts."""
    run = Run(solving, *config)
    run.solving.pods([*(web(f"there-{number}").on("a1") for number in range(2)), web("more").on("c1")])
    run.solving.pod(pod("other").label("app", "db").requests(cpu=300).on("b1"))
    run.service("web", WEB)
    run.solving.pod(web("p"))
    assert run.solving.nodes_of(run.solving.round()) == {"p": "b1"}


def test_without_fellows_nobody_is_spread(solving: Any) -> None:
    run = Run(solving, BY_SCORE, HARD)
    run.service("db", {"app": "db"})
    run.service("web", WEB, namespace="elsewhere")
    crowded(run)
    run.solving.pods(web(f"p{number}") for number in range(4))
    assert run.zones(run.solving.round()) == {"a": 4}


def test_own_constraints_switch_the_defaults_off(solving: Any) -> None:
    run = Run(solving, HARD)
    run.service("web", WEB)
    crowded(run)
    run.solving.pods(web(f"p{number}").spread(HOST, WEB, max_skew=9) for number in range(4))
    assert run.zones(run.solving.round()) == {"a": 4}


def test_the_systems_defaults_do_not_move_berths_own_choice(solving: Any) -> None:
    run = Run(solving)
    run.service("web", WEB)
    crowded(run)
    run.solving.pods(web(f"p{number}") for number in range(4))
    assert len(run.zones(run.solving.round())) == 1


@pytest.mark.parametrize("by", ["service", "ReplicaSet", "StatefulSet"])
def test_listed_hard_constraints_rule_nodes_out(solving: Any, by: str) -> None:
    """Within a batch as well; the verifier, which `round` asks, counts for itself."""
    run = Run(solving, HARD)
    if by == "service":
        run.service("web", WEB)
    elif by == "ReplicaSet":
        run.replica_set("web", WEB)
    else:
        key = subjects.namespaced_key("statefulset", "default", "web")
        selector = LabelSelector(match_labels=WEB)
        run.solving.state(key, StatefulSet(namespace="default", name="web", version=run.version(), selector=selector))
    owner = {} if by == "service" else {"owner": "web", "kind": by}
    run.solving.pods(web(f"p{number}", **owner) for number in range(6))
    assert run.zones(run.solving.round()) == {"a": 2, "b": 2, "c": 2}


def test_the_verifier_rejects_what_the_defaults_rule_out(solving: Any) -> None:
    run = Run(solving, HARD)
    crowded(run)
    run.solving.pods(web(f"p{number}") for number in range(3))
    solution, trial = run.solving.solve()
    trial.undo()
    claims = [placement.claim for placement in solution.placements]
    assert {claim.node for claim in claims} == {"a1"}
    assert run.solving.verifier.check(claims) == []
    run.service("web", WEB)
    assert [text for text in run.solving.verifier.check(claims) if REASON in text]


def test_nobody_is_placed_by_services_that_are_not_read_yet(solving: Any) -> None:
    run = Run(solving, HARD, complete=False)
    run.complete(*KINDS[:-1])
    run.solving.pods([web("p"), pod("own", "elsewhere").spread(HOST, WEB).requests(cpu=100)])
    run.solving.cluster.wake()
    solution = run.solving.round()
    assert run.reasons(solution) == {"p": [("PodTopologySpread", NOT_READ)]}
    assert list(run.solving.nodes_of(solution)) == ["own"]
    assert not run.is_woken()
    run.complete(KINDS[-1])
    assert run.is_woken()
    assert list(run.solving.nodes_of(run.solving.round())) == ["p"]
    run.solving.cluster.reset_state()
    assert not run.solving.cluster.selecting_is_complete


def test_another_selector_is_another_try(solving: Any) -> None:
    run = Run(solving, HARD)
    run.service("web", WEB)
    run.solving.pods(web(f"there-{number}").on("a1") for number in range(2))
    for zone in "bc":
        run.solving.node(f"{zone}1", cpu=10, labels={ZONE: zone, HOST: f"{zone}1"})
    run.solving.pod(web("p"))
    run.solving.cluster.wake()
    assert ("PodTopologySpread", REASON) in run.reasons(run.solving.round())["p"]
    assert not run.is_woken()
    run.service("db", {"app": "db"})  # none of its services
    assert run.is_woken()
    run.solving.round()
    run.solving.delete(subjects.namespaced_key("service", "default", "web"))
    assert run.is_woken()
    assert run.solving.nodes_of(run.solving.round()) == {"p": "a1"}


def test_a_fellow_that_goes_is_another_try(solving: Any) -> None:
    run = Run(solving, HARD)
    run.service("web", WEB)
    run.solving.pods(web(f"there-{number}").on("a1") for number in range(2))
    for zone in "bc":
        run.solving.node(f"{zone}1", cpu=10, labels={ZONE: zone, HOST: f"{zone}1"})
    run.solving.pod(web("p"))
    run.solving.cluster.wake()
    run.solving.round()
    assert not run.is_woken()
    run.solving.delete_pod("there-0")
    run.solving.delete_pod("there-1")
    assert run.is_woken()
    assert run.solving.nodes_of(run.solving.round()) == {"p": "a1"}
