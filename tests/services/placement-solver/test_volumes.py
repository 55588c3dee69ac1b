"""Pods with claims through a whole solver: what is decided, what collides, what is refused, what is waited for."""

from __future__ import annotations

from typing import Any

import pytest
from tests.services.worlds.solver.nominating import nominate

from berth.contracts import subjects
from berth.contracts.kube import NodeSelector, NodeSelectorTerm, Requirement
from berth.contracts.ledger import Step
from berth.contracts.question import WhyQuestion
from berth.contracts.state import (
    CSIDriver,
    CSINode,
    CSINodeDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    Synced,
    VolumeUse,
)
from berth.placement_solver.core.displacers.one_node import Displacement
from berth.placement_solver.core.displacers.priority import PriorityPreemption
from berth.placement_solver.core.seams import Hypothesis, Target
from berth.placement_solver.core.volumes import KINDS, NOT_READ
from berth.placement_solver.why import answer as why
from berth.testing.builders import PodBuilder, pod

HOST = "kubernetes.io/hostname"


class Cluster:
    """A solver with nodes and storage; a claim by its name in `default`."""

    def __init__(self, solving: type[Any], nodes: int = 3) -> None:
        self.run = solving()
        for at in range(nodes):
            self.run.node(f"n{at}", labels={HOST: f"n{at}"})
        local = {"provisioner": "kubernetes.io/no-provisioner", "binding_mode": "WaitForFirstConsumer"}
        self.see(StorageClass(name="local", version=1, **local))
        self.see(StorageClass(name="made", version=1, provisioner="csi", binding_mode="WaitForFirstConsumer"))

    def complete(self) -> None:
        for kind in KINDS.values():
            self.run.state(subjects.synced_key(kind.plural), Synced(kind=kind.plural, version=1, complete=True))
        self.run.complete()

    def see(self, each: Any) -> Any:
        prefix = str(each.__struct_config__.tag).partition(".")[0]
        if KINDS[prefix].is_namespaced:
            key = subjects.namespaced_key(prefix, each.namespace, each.name)
        else:
            key = subjects.named_key(prefix, each.name)
        self.run.state(key, each)
        return each

    def claim(self, name: str, **fields: Any) -> PersistentVolumeClaim:
        fields = {"storage_class": "local", "access_modes": ["ReadWriteOnce"], "requested": 1} | fields
        claim = PersistentVolumeClaim(namespace="default", name=name, uid=f"uid-{name}", version=1, **fields)
        self.see(claim)
        return claim

    def volume(self, name: str, host: str = "", **fields: Any) -> PersistentVolume:
        expression = Requirement(key=HOST, operator="In", values=[host])
        affinity = NodeSelector(node_selector_terms=[NodeSelectorTerm(match_expressions=[expression])])
        fields = {
            "storage_class": "local",
            "access_modes": ["ReadWriteOnce"],
            "capacity": 1,
            "phase": "Available",
        } | fields
        volume = PersistentVolume(
            name=name, uid=f"uid-{name}", version=1, node_affinity=affinity if host else None, **fields
        )
        self.see(volume)
        return volume

    def pod(self, name: str, *claims: str) -> PodBuilder:
        uses = [VolumeUse(source="persistentVolumeClaim", claim=claim) for claim in claims]
        builder = pod(name).template(volumes=uses)
        self.run.pod(builder)
        return builder

    def retry(self) -> dict[str, str]:
        """Whoever waits is tried again, since something has come; where they go."""
        assert self.run.cluster.has_news
        self.run.cluster.now += 60.0
        self.run.cluster.wake()
        found: dict[str, str] = self.run.nodes_of(self.run.round())
        return found

    def refusal(self, solution: Any) -> str:
        ((reason, *_),) = [refusal.reasons for refusal in solution.refusals]
        return str(reason.message)


@pytest.fixture
def cluster(solving: type[Any]) -> Cluster:
    cluster = Cluster(solving)
    cluster.complete()
    return cluster


def test_the_replicas_of_a_stateful_set_get_the_volumes_of_their_nodes(cluster: Cluster) -> None:
    for at in range(3):
        cluster.volume(f"v{at}", f"n{at}")
        cluster.claim(f"data-{at}")
        cluster.pod(f"web-{at}", f"data-{at}")
    solution = cluster.run.round()
    assert not solution.refusals
    decisions = [cluster.run.cluster.book.ledger.decisions["default", f"web-{at}"].decision for at in range(3)]
    kept = {}
    for at, decision in enumerate(decisions):
        (step,) = decision.before
        assert (step.action, step.claim, step.claim_uid) == ("bind-volume", f"data-{at}", f"uid-data-{at}")
        assert step.volume == f"v{decision.node[1:]}"
        assert step.volume_uid == f"uid-{step.volume}"
        assert {f"volume.{step.volume}", f"claim.default.data-{at}"} < set(decision.accounts)
        kept[step.volume] = step.claim
    assert len(kept) == 3, "no volume is given out twice"
    cluster.claim("data-3")
    cluster.pod("web-3", "data-3")
    assert cluster.refusal(cluster.run.round()) == "node(s) didn't find available persistent volumes to bind"
    cluster.run.cluster.wake()
    cluster.volume("v3", "n1")
    assert cluster.retry() == {"web-3": "n1"}


def test_pods_with_bound_claims_follow_their_volumes_and_need_no_steps(cluster: Cluster) -> None:
    cluster.volume("v", "n2", claim="default/c", claim_uid="uid-c", phase="Bound")
    cluster.claim("c", volume="v", is_bound=True)
    cluster.pod("web", "c")
    assert cluster.run.nodes_of(cluster.run.round()) == {"web": "n2"}
    assert cluster.run.cluster.book.ledger.decisions["default", "web"].decision.before == []


def test_a_volume_is_made_where_the_pod_goes(cluster: Cluster) -> None:
    cluster.claim("c", storage_class="made")
    cluster.pod("web", "c")
    cluster.run.round()
    decision = cluster.run.cluster.book.ledger.decisions["default", "web"].decision
    assert decision.before == [Step(action="provision-volume", claim="c", claim_uid="uid-c")]
    cluster.pod("beside", "c")
    assert cluster.run.nodes_of(cluster.run.round()) == {"beside": decision.node}, "one claim, one node"


def test_a_claim_that_is_mounted_twice_is_bound_once(cluster: Cluster) -> None:
    cluster.volume("v", "n1")
    cluster.claim("c")
    cluster.pod("web", "c", "c")
    assert cluster.run.nodes_of(cluster.run.round()) == {"web": "n1"}
    assert len(cluster.run.cluster.book.ledger.decisions["default", "web"].decision.before) == 1


def test_the_profile_says_how_long_the_bind_may_wait(cluster: Cluster) -> None:
    cluster.run.configure(pluginConfig=[{"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 90}}])
    cluster.claim("c", storage_class="made")
    cluster.pod("web", "c")
    cluster.pod("plain")
    cluster.run.round()
    decisions = cluster.run.cluster.book.ledger.decisions
    assert decisions["default", "web"].decision.bind_timeout_s == 90
    assert decisions["default", "plain"].decision.bind_timeout_s is None, "it has no volumes to wait for"
    cluster.run.configure()
    cluster.claim("d", storage_class="made")
    cluster.pod("other", "d")
    cluster.run.round()
    assert decisions["default", "other"].decision.bind_timeout_s is None, "cluster-writer's own time holds"


def test_people_learn_what_the_bind_waits_for(cluster: Cluster) -> None:
    cluster.volume("v", "n1")
    cluster.claim("c")
    cluster.claim("d", storage_class="made")
    cluster.pod("web", "c", "d")
    cluster.run.round()
    question = WhyQuestion(namespace="default", name="web")
    waits = "decided for n1, waiting for the bind; "
    made = "claim d is to be bound to the volume that is provisioned for it"
    assert why(cluster.run.cluster, question).message == f"{waits}claim c is to be bound to volume v; {made}"
    cluster.claim("c", volume="v", is_bound=True)
    assert why(cluster.run.cluster, question).message == waits + made


def test_drivers_take_only_so_many_volumes(cluster: Cluster) -> None:
    for at in range(3):
        cluster.see(CSINode(name=f"n{at}", version=1, drivers=[CSINodeDriver(name="csi", count=1)]))
    for at in range(4):
        cluster.claim(f"c{at}", storage_class="made")
        cluster.pod(f"web-{at}", f"c{at}")
    solution = cluster.run.round()
    assert sorted(cluster.run.nodes_of(solution).values()) == ["n0", "n1", "n2"]
    assert cluster.refusal(solution) == "node(s) exceed max volume count"


def test_a_claim_for_one_pod_has_one_user_until_that_is_gone(cluster: Cluster) -> None:
    cluster.volume("v", claim="default/c", claim_uid="uid-c", phase="Bound")
    cluster.claim("c", volume="v", is_bound=True, access_modes=["ReadWriteOncePod"])
    first = cluster.pod("first", "c")
    cluster.run.round()
    assert "claim.default.c" in cluster.run.cluster.book.ledger.decisions["default", "first"].decision.accounts
    cluster.run.bind(first)
    cluster.pod("second", "c")
    solution = cluster.run.round()
    assert "ReadWriteOncePod access mode already in-use" in cluster.refusal(solution)
    cluster.run.delete_pod("first")
    assert set(cluster.retry()) == {"second"}


def test_a_gang_gets_its_volumes_whole_or_not_at_all(cluster: Cluster) -> None:
    cluster.run.pod_group("gang", 2)
    cluster.volume("v0", "n0")
    for at in range(2):
        cluster.claim(f"c{at}")
        uses = [VolumeUse(source="persistentVolumeClaim", claim=f"c{at}")]
        cluster.run.pod(pod(f"m{at}").template(volumes=uses).gang("gang"))
    solution, trial = cluster.run.solve()
    assert not solution.placements
    assert not trial.claims
    assert not cluster.run.cluster.facts.used_volumes.is_kept("v0"), "what was tried is given back"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (None, 'persistentvolumeclaim "c" not found'),
        ({"deleting": True}, 'persistentvolumeclaim "c" is being deleted'),
        (
            {"phase": "Lost", "volume": "gone", "is_bound": True},
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "gone"',
        ),
        ({"storage_class": "nope"}, "pod has unbound immediate PersistentVolumeClaims"),
        ({"storage_class": None}, "pod has unbound immediate PersistentVolumeClaims"),
    ],
)
def test_claims_that_cannot_be_used_hold_nobody_else_up(cluster: Cluster, fields: Any, reason: str) -> None:
    if fields is not None:
        cluster.claim("c", **fields)
    cluster.pod("bad", "c")
    cluster.run.pod(pod("good"))
    solution = cluster.run.round()
    assert set(cluster.run.nodes_of(solution)) == {"good"}
    (refusal,) = solution.refusals
    assert [each.message for each in refusal.reasons] == [reason]


def test_pods_with_claims_wait_until_all_is_read(solving: type[Any]) -> None:
    cluster = Cluster(solving)
    cluster.volume("v", "n0")
    cluster.claim("c")
    cluster.pod("web", "c")
    cluster.run.pod(pod("free"))
    solution = cluster.run.round()
    assert set(cluster.run.nodes_of(solution)) == {"free"}
    assert cluster.refusal(solution) == NOT_READ
    cluster.run.cluster.wake()
    cluster.complete()
    assert cluster.retry() == {"web": "n0"}


def test_storage_that_is_read_anew_is_waited_for(cluster: Cluster) -> None:
    cluster.run.cluster.reset_state()
    assert not cluster.run.cluster.volumes.is_complete
    assert cluster.run.cluster.storage.claims == {}


def test_other_pods_learn_of_space_that_is_reported(cluster: Cluster) -> None:
    cluster.see(CSIDriver(name="csi", version=1, storage_capacity=True))
    cluster.claim("c", storage_class="made")
    cluster.pod("web", "c")
    assert cluster.refusal(cluster.run.round()) == "node(s) did not have enough free storage"


# --- the verifier ----------------------------------------------------------------------------------------------------


def wrong_plans() -> list[Any]:
    """Plans with one thing made wrong, and what the verifier says of it."""

    def without_steps(claim: Any) -> Any:
        return claim._replace(before=())

    def elsewhere(claim: Any) -> Any:
        return claim._replace(node="n1")

    def other_volume(claim: Any) -> Any:
        (step,) = claim.before
        return claim._replace(before=(Step(**{**fields_of(step), "volume": "w", "volume_uid": "uid-w"}),))

    def made_instead(claim: Any) -> Any:
        return claim._replace(before=(Step(action="provision-volume", claim="c", claim_uid="uid-c"),))

    def twice(claim: Any) -> Any:
        return claim._replace(before=claim.before * 2)

    def of_another(claim: Any) -> Any:
        return claim._replace(before=(*claim.before, Step(action="provision-volume", claim="x", claim_uid="uid-x")))

    return [
        (without_steps, "0 steps are named for it"),
        (elsewhere, "cannot be bound to claim c on node n1"),
        (other_volume, "volume w cannot be bound to claim c"),
        (made_instead, "no volume can be made for claim c"),
        (twice, "2 steps are named for it"),
        (of_another, "a step is named for claim x, which the pod does not use"),
    ]


def fields_of(step: Step) -> dict[str, Any]:
    return {field: getattr(step, field) for field in step.__struct_fields__}


@pytest.mark.parametrize(("spoil", "problem"), wrong_plans())
def test_the_verifier_rejects_steps_made_wrong(cluster: Cluster, spoil: Any, problem: str) -> None:
    cluster.volume("v", "n0")
    cluster.volume("w", "n2")
    cluster.claim("c")
    cluster.pod("web", "c")
    solution, trial = cluster.run.solve()
    trial.undo()
    (placement,) = solution.placements
    claim = placement.claim
    assert cluster.run.verifier.check([claim]) == []
    if claim.node != "n0":
        claim = claim._replace(node="n0", before=(bound("c", "v"),))
        assert cluster.run.verifier.check([claim]) == []
    assert any(problem in text for text in cluster.run.verifier.check([spoil(claim)]))


def bound(claim: str, volume: str) -> Step:
    return Step(action="bind-volume", claim=claim, claim_uid=f"uid-{claim}", volume=volume, volume_uid=f"uid-{volume}")


def test_the_verifier_rejects_what_two_pods_cannot_share(cluster: Cluster) -> None:
    cluster.volume("v", "n0")
    cluster.claim("c")
    cluster.claim("d")
    cluster.claim("one", volume="kept", is_bound=True, access_modes=["ReadWriteOncePod"])
    cluster.volume("kept", claim="default/one", claim_uid="uid-one", phase="Bound")
    cluster.pod("a", "c")
    solution, trial = cluster.run.solve()
    trial.undo()
    claim = solution.placements[0].claim
    for name, named in (("b", "d"), ("x", "one"), ("y", "one")):
        cluster.pod(name, named)
    others = {name: claim._replace(name=("default", name), uid=f"uid-{name}", before=()) for name in ("b", "x", "y")}
    for name, each in others.items():
        others[name] = each._replace(uid=cluster.run.cluster.book.pods["default", name].uid)
    stolen = others["b"]._replace(before=(bound("d", "v"),))
    assert "volume v is kept for two claims" in cluster.run.verifier.check([claim, stolen])
    problems = cluster.run.verifier.check([others["x"], others["y"]])
    assert any("may be used by one pod only" in text for text in problems)


def test_what_victims_use_is_free_for_whom_they_leave(cluster: Cluster) -> None:
    cluster.see(CSINode(name="n0", version=1, drivers=[CSINodeDriver(name="csi", count=1)]))
    disk = VolumeUse(source="gcePersistentDisk", disk=["d"])
    for name in ("one", "other"):
        cluster.claim(name, storage_class="made", volume=f"v-{name}", is_bound=True, access_modes=["ReadWriteOncePod"])
        cluster.volume(
            f"v-{name}", claim=f"default/{name}", claim_uid=f"uid-{name}", phase="Bound", driver="csi", handle=name
        )
    uses = {name: VolumeUse(source="persistentVolumeClaim", claim=name) for name in ("one", "other")}
    low = pod("low").template(volumes=[uses["one"], disk])
    cluster.run.pod(low.on("n0"))
    cluster.run.pod(pod("alike").template(volumes=[uses["one"], disk], priority=9))
    cluster.run.pod(pod("unlike").template(volumes=[uses["other"]], priority=9))
    units, _ = cluster.run.cluster.batch(8)
    candidates = {each.name[1]: each for unit in units for each in unit.candidates}
    victim = cluster.run.cluster.book.pods["default", "low"]
    for name, problem in (("alike", "may be used by one pod only"), ("unlike", "1 are taken")):
        held = next(each for each in cluster.run.cluster.book.claims_on("n0"))
        hypothesis = Hypothesis(gone=(held,))
        placement = cluster.run.cluster.solver.place_under(candidates[name], Target(0, hypothesis), "plan")
        assert placement is not None
        assert any(problem in text for text in cluster.run.verifier.check([placement.claim]))
        assert cluster.run.verifier.check_nomination([placement.claim], [victim], []) == []


def test_a_claim_that_a_pod_is_nominated_with_is_its_own_on_every_node(solving: type[Any]) -> None:
    cluster = Cluster(solving, nodes=0)
    run = cluster.run
    for name in ("n0", "n1"):
        run.node(name, cpu=4000, labels={HOST: name})
    cluster.complete()
    cluster.claim("one", volume="v", is_bound=True, access_modes=["ReadWriteOncePod"])
    cluster.volume("v", claim="default/one", claim_uid="uid-one", phase="Bound")
    run.pod(pod("low").requests(cpu=4000).on("n0"))
    run.pod(pod("top").requests(cpu=4000).template(priority=20).on("n1"))
    use = VolumeUse(source="persistentVolumeClaim", claim="one")
    run.pod(pod("waits").requests(cpu=4000).template(volumes=[use], priority=9))
    units, _ = run.cluster.batch(8)
    nominate(run, "waits", "n1", 4)
    found = PriorityPreemption(run.cluster.ground, lambda pod: False).choose(units[0].candidates[0])
    assert isinstance(found, Displacement), found
    assert [victim.name for victim in found.victims] == ["low"]


def test_a_pod_nominated_to_one_node_may_have_its_volume_made_for_another(cluster: Cluster) -> None:
    run = cluster.run
    cluster.claim("one", storage_class="made")
    cluster.complete()
    cluster.pod("waits", "one")
    made_there = Step(action="provision-volume", claim="one", claim_uid="uid-one")
    nominate(run, "waits", "n1", 1, before=[made_there])
    solution, trial = run.solve()
    trial.undo()
    (claim,) = (placement.claim for placement in solution.placements)
    elsewhere = claim._replace(node="n2")
    assert elsewhere.before == (made_there,)
    assert run.verifier.check([elsewhere]) == []
    run.pod(pod("other").template(volumes=[VolumeUse(source="persistentVolumeClaim", claim="one")]))
    other = elsewhere._replace(name=("default", "other"), uid=run.cluster.book.pods["default", "other"].uid)
    assert run.verifier.check([other]) == ["claim one gets its volume in two ways"]


def test_the_verifier_counts_disks_and_places_for_volumes(cluster: Cluster) -> None:
    cluster.see(CSINode(name="n0", version=1, drivers=[CSINodeDriver(name="csi", count=1)]))
    for at in range(2):
        cluster.claim(f"c{at}", storage_class="made")
        cluster.pod(f"p{at}", f"c{at}")
        disk = [VolumeUse(source="gcePersistentDisk", disk=["d"])]
        cluster.run.pod(pod(f"d{at}").template(volumes=disk))
    solution, trial = cluster.run.solve()
    trial.undo()
    claims = {placement.candidate.name[1]: placement.claim._replace(node="n0") for placement in solution.placements}
    problems = cluster.run.verifier.check([claims["p0"], claims["p1"]])
    assert "node n0: 2 volumes of csi, at most 1 are taken" in problems
    problems = cluster.run.verifier.check([claims["d0"], claims["d1"]])
    assert "node n0: a disk is in use there, wanted by d1" in problems
