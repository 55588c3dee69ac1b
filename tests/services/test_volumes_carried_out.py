"""A solver and a writer over one simulated API with its controllers: pods with claims, from pending to bound.

STATE is what the cluster's converters say of the store; the ledger is one log that both read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest
from tests.services.worlds.writer.bind_bench import BindBench
from tests.services.worlds.writer.objects import new_node, new_pod, pod_path, read
from tests.services.worlds.writer.store_api import StoreApi

from berth.cluster_watcher.kinds import KINDS, Kind
from berth.contracts import names, subjects
from berth.contracts.codec import encode
from berth.contracts.ledger import Decision, Epoch, Plan, PlanStatus
from berth.contracts.state import Synced
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.decide import Basis, decisions_of
from berth.placement_solver.core.trial import Trial
from berth.placement_solver.core.verify import Verifier
from berth.simcluster import Controllers, ControllerSettings, SimCluster, SimSettings
from berth.simcluster.store import ListOptions, Path
from berth.transaction.batch import plan_batch
from berth.transaction.claims import Claim

SHOWN = (
    "pod",
    "node",
    "persistentvolumeclaim",
    "persistentvolume",
    "storageclass",
    "csinode",
    "csidriver",
    "csistoragecapacity",
    "volumeattachment",
)
KIND = {kind.prefix: kind for kind in KINDS if kind.prefix in SHOWN}
HOST = "kubernetes.io/hostname"
DEADLINE_S = 20.0


class Whole:
    """The store and its controllers, what STATE says, a solver and a writer."""

    def __init__(self, *, provision_failures: float = 0.0) -> None:
        self.sim = SimCluster(SimSettings(kubelet=None))
        self.store = self.sim.store
        settings = ControllerSettings((0.0, 0.01), (0.0, 0.02), provision_failures)
        self.controllers = Controllers(self.store, settings)
        self.cluster = ClusterView([names.SCHEDULER_NAME], "s1")
        self.verifier = Verifier(self.cluster)
        self.bench = BindBench(StoreApi(self.store))
        self._shown: dict[str, bytes] = {}
        self._plans = 0
        self.decided: list[Decision] = []
        self.ledger(subjects.EPOCH_KEY, Epoch(epoch=1))

    # --- what is there -----------------------------------------------------------------------------------------------

    def create(self, kind: str, body: dict[str, Any], namespace: str = "") -> None:
        resource = KIND[kind].resource
        api_version = f"{resource.group}/{resource.version}".lstrip("/")
        whole = {"apiVersion": api_version, "kind": body.pop("kind"), **body}
        reply = self.store.create(Path(resource.group, resource.version, resource.plural, namespace), whole)
        assert reply.status == 201, reply

    def node(self, name: str) -> None:
        body = new_node(name)
        body["metadata"]["labels"] = {HOST: name}
        self.create("node", body)

    def storage_class(self, name: str, provisioner: str) -> None:
        body = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
        self.create("storageclass", {"kind": "StorageClass", **body})

    def local_volume(self, name: str, node: str) -> None:
        expressions = [{"key": HOST, "operator": "In", "values": [node]}]
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "local": {"path": "/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}},
        }
        self.create("persistentvolume", {"kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec})

    def claim(self, name: str, storage_class: str, **spec: Any) -> None:
        spec = {
            "storageClassName": storage_class,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        } | spec
        body = {"kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}
        self.create("persistentvolumeclaim", body, "default")

    def pod(self, name: str, *claims: str, **spec: Any) -> None:
        volumes = [{"name": f"v{at}", "persistentVolumeClaim": {"claimName": claim}} for at, claim in enumerate(claims)]
        body = new_pod(name, volumes=volumes, **spec)
        self.create("pod", body, "default")

    def raw(self, kind: str, name: str) -> dict[str, Any]:
        resource = KIND[kind].resource
        namespace = "default" if resource.namespaced else ""
        found = read(self.store, Path(resource.group, resource.version, resource.plural, namespace, name))
        assert found is not None
        return found

    def node_of(self, name: str) -> str:
        found = read(self.store, pod_path(name))
        assert found is not None
        return str(found["spec"].get("nodeName", ""))

    # --- the loop ----------------------------------------------------------------------------------------------------

    def show(self) -> None:
        """STATE says of every object what there is to say now, and that this is all."""
        there: dict[str, bytes] = {}
        for kind in KIND.values():
            for item in self._listed(kind):
                meta = item["metadata"]
                key = kind.key(meta.get("namespace", ""), meta["name"])
                decoded = msgspec.json.decode(msgspec.json.encode(item), type=kind.item)
                there[key] = encode(kind.convert(decoded, int(meta["resourceVersion"])))
        for key in self._shown.keys() - there.keys():
            self._tell(key, str(self.store.version).encode(), deleted=True)
        for key, value in there.items():
            if self._shown.get(key) != value:
                self._tell(key, value)
        self._shown = there
        for plural in ("reservations", "elasticquotas", *(kind.plural for kind in KIND.values())):
            marker = encode(Synced(kind=plural, version=self.store.version, complete=True))
            self._tell(subjects.synced_key(plural), marker)
        self.cluster.end_of_state()
        self.bench.cluster.end_of_state()
        self.bench.binds.at_end()

    def _listed(self, kind: Kind) -> list[dict[str, Any]]:
        resource = kind.resource
        reply = self.store.list(Path(resource.group, resource.version, resource.plural), ListOptions())
        assert reply.status == 200
        return list(msgspec.json.decode(reply.body)["items"])

    def _tell(self, key: str, value: bytes, *, deleted: bool = False) -> None:
        self.cluster.read_state(key, value, deleted=deleted, gap=False, trace=None)
        name = self.bench.cluster.read_state(key, value, deleted=deleted, gap=False)
        if name is not None:
            self.bench.binds.moved(name)

    def ledger(self, key: str, message: Any) -> None:
        self.bench.sequence += 1
        for view in (self.cluster, self.bench.cluster):
            view.read_ledger(key, encode(message), False, self.bench.sequence)

    def round(self) -> None:
        """One batch of what waits: solved, verified, written into the ledger, begun."""
        self.cluster.now += 60.0
        self.cluster.queue.wake(self.cluster.now)
        units, _ = self.cluster.batch(100)
        trial = Trial(self.cluster.capacity)
        self._plans += 1
        solution = self.cluster.solver.solve(units, trial, f"plan-{self._plans}")
        claims: list[Claim] = list(trial.claims)
        trial.undo()
        assert self.verifier.check(claims) == []
        for refusal in solution.refusals:
            self.cluster.queue.refuse(
                self.cluster.queue.waiting[refusal.candidate.name], refusal.reasons, self.cluster.now
            )
        if not solution.placements:
            return
        book = self.cluster.book
        basis = Basis(book.complete["pods"].version, book.complete["reservations"].version, 0)
        decisions, revisions = decisions_of(
            solution.placements, f"plan-{self._plans}", basis, self.cluster.nodes, self.cluster.quotas, {}
        )
        plan = Plan(id=f"plan-{self._plans}", status=PlanStatus.COMMITTED, decisions=len(decisions))
        for write in plan_batch(book.ledger, plan, decisions, revisions):
            assert write.value is not None
            self.bench.sequence += 1
            for view in (self.cluster, self.bench.cluster):
                view.read_ledger(write.key, write.value, False, self.bench.sequence)
        self.decided += decisions
        for decision in decisions:
            self.bench.binds.begin(decision)

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Controllers, STATE, solver and writer take turns."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + DEADLINE_S
        while not condition():
            assert loop.time() < deadline, what
            self.controllers.run(self.store.state.clock())
            self.show()
            self.round()
            await asyncio.sleep(0.01)


@pytest.fixture
async def begin() -> AsyncIterator[Callable[..., Whole]]:
    tasks: list[asyncio.Task[None]] = []

    def make(**settings: Any) -> Whole:
        whole = Whole(**settings)
        tasks.append(asyncio.ensure_future(whole.bench.binds.run()))
        for at in range(3):
            whole.node(f"n{at}")
        whole.storage_class("local", "kubernetes.io/no-provisioner")
        whole.storage_class("made", "csi.example.com")
        whole.create(
            "csinode",
            {
                "kind": "CSINode",
                "metadata": {"name": "n1"},
                "spec": {"drivers": [{"name": "csi.example.com", "nodeID": "n1", "topologyKeys": [HOST]}]},
            },
        )
        return whole

    yield make
    for task in tasks:
        assert not task.done()
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_replicas_of_a_stateful_set_with_local_volumes(begin: Callable[..., Whole]) -> None:
    whole = begin()
    for at in range(3):
        whole.local_volume(f"disk-{at}", f"n{at}")
        whole.claim(f"data-{at}", "local")
        whole.pod(f"web-{at}", f"data-{at}")
    await whole.until(lambda: all(whole.node_of(f"web-{at}") for at in range(3)), "every replica is bound")
    for at in range(3):
        claim = whole.raw("persistentvolumeclaim", f"data-{at}")
        assert claim["status"]["phase"] == "Bound"
        assert claim["spec"]["volumeName"] == f"disk-{whole.node_of(f'web-{at}')[1:]}", "where its pod is"
    assert len({whole.node_of(f"web-{at}") for at in range(3)}) == 3
    assert whole.bench.withdrawn == []
    assert len(whole.decided) == 3


async def test_volumes_that_are_made_for_their_pods(begin: Callable[..., Whole]) -> None:
    whole = begin()
    for at in range(4):
        whole.claim(f"data-{at}", "made")
        whole.pod(f"web-{at}", f"data-{at}")
    await whole.until(lambda: all(whole.node_of(f"web-{at}") for at in range(4)), "every pod is bound")
    for at in range(4):
        notes = whole.raw("persistentvolumeclaim", f"data-{at}")["metadata"]["annotations"]
        assert notes[names.ANNOTATION_SELECTED_NODE] == whole.node_of(f"web-{at}")


async def test_a_provisioner_that_fails_often_is_asked_again_with_another_decision(
    begin: Callable[..., Whole],
) -> None:
    whole = begin(provision_failures=0.5)
    for at in range(6):
        whole.claim(f"data-{at}", "made")
        whole.pod(f"web-{at}", f"data-{at}")
    await whole.until(lambda: all(whole.node_of(f"web-{at}") for at in range(6)), "every pod is bound in the end")
    assert whole.bench.withdrawn, "some attempt has failed"
    assert all("the provisioner has given up" in reason for _, reason in whole.bench.withdrawn)
    assert len(whole.decided) == 6 + len(whole.bench.withdrawn)


async def test_claims_that_cannot_be_served_hold_nobody_up(begin: Callable[..., Whole]) -> None:
    whole = begin()
    whole.claim("no-volume", "local")
    whole.claim("no-class", "missing")
    whole.pod("a", "no-volume")
    whole.pod("b", "no-class")
    whole.pod("c", "no-claim")
    whole.pod("free")
    await whole.until(lambda: whole.node_of("free"), "a pod without claims is bound")
    queue = whole.cluster.queue.waiting
    reasons = {name: [reason.message for reason in queue["default", name].reasons] for name in "abc"}
    assert reasons["a"] == ["node(s) didn't find available persistent volumes to bind"]
    assert reasons["b"] == ["pod has unbound immediate PersistentVolumeClaims"]
    assert reasons["c"] == ['persistentvolumeclaim "no-claim" not found']
    whole.local_volume("disk", "n2")
    await whole.until(lambda: whole.node_of("a") == "n2", "the volume has come")


async def test_two_pods_of_one_claim_go_to_its_node(begin: Callable[..., Whole]) -> None:
    whole = begin()
    whole.local_volume("disk", "n1")
    whole.claim("data", "local")
    whole.pod("a", "data")
    whole.pod("b", "data")
    await whole.until(lambda: whole.node_of("a") and whole.node_of("b"), "both are bound")
    assert whole.node_of("a") == whole.node_of("b") == "n1"
