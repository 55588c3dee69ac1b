"""Binds whose decisions have steps: requests, waits, refusals, and what others do meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from tests.services.worlds.writer.bind_bench import BindBench
from tests.services.worlds.writer.store_api import StoreApi

from berth.cluster_watcher.kinds import KINDS
from berth.contracts import names
from berth.contracts.ledger import Step
from berth.contracts.state import Synced
from berth.contracts.subjects import synced_key
from berth.kube.answer import Answer, answer_of
from berth.simcluster.store import Path
from berth.testing.views import eventually

CLAIMS = "persistentvolumeclaim"
VOLUMES = "persistentvolume"
KIND = {kind.prefix: kind for kind in KINDS}


class VolumeBench(BindBench):
    """Binds with claims and volumes, and what the PersistentVolume controller and a provisioner do about them."""

    def __init__(self, api: StoreApi, **more: Any) -> None:
        super().__init__(api, **more)
        for kind in ("persistentvolumeclaims", "persistentvolumes"):
            self.put(synced_key(kind), Synced(kind=kind, version=1, complete=True))

    def path(self, kind: str, name: str = "") -> Path:
        return Path("", "v1", KIND[kind].resource.plural, "default" if kind == CLAIMS else "", name)

    def claim(self, name: str, **spec: Any) -> Any:
        body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}}
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}} | spec
        return self._create(CLAIMS, name, body | {"spec": spec})

    def volume(self, name: str, **spec: Any) -> Any:
        body = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}}
        spec = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}} | spec
        spec["csi"] = {"driver": "csi", "volumeHandle": name}
        return self._create(VOLUMES, name, body | {"spec": spec})

    def _create(self, kind: str, name: str, body: dict[str, Any]) -> Any:
        reply = self.api.store.create(self.path(kind), body)
        assert reply.status == 201, reply
        return self.shown(kind, name)

    def shown(self, kind: str, name: str) -> Any:
        """STATE shows an object as it is."""
        raw = self.raw_object(kind, name)
        item = msgspec.convert(raw, KIND[kind].item)
        message = KIND[kind].convert(item, int(raw["metadata"]["resourceVersion"]))
        self.put(KIND[kind].key("default" if kind == CLAIMS else "", name), message)
        return message

    def raw_object(self, kind: str, name: str) -> dict[str, Any]:
        found = msgspec.json.decode(self.api.store.get(self.path(kind, name)).body)
        assert isinstance(found, dict)
        return found

    def patch(self, kind: str, name: str, body: dict[str, Any]) -> None:
        assert self.api.store.patch(self.path(kind, name), body).status == 200
        self.shown(kind, name)

    def bound(self, claim: str, volume: str) -> None:
        """The controller has bound a claim to the volume that is kept for it."""
        note = {names.ANNOTATION_BIND_COMPLETED: "yes"}
        self.patch(CLAIMS, claim, {"metadata": {"annotations": note}, "spec": {"volumeName": volume}})

    async def given_up(self) -> str:
        """The reason of the only decision, once it is withdrawn; the end of STATE is reached again and again."""

        def is_over() -> bool:
            self.end()
            return not len(self.binds)

        await eventually(is_over, what="the decision is over")
        ((_, reason),) = self.withdrawn
        return reason

    def reference(self, volume: str) -> str:
        return str(self.raw_object(VOLUMES, volume)["spec"].get("claimRef", {}).get("name", ""))

    def selected(self, claim: str) -> str:
        notes = self.raw_object(CLAIMS, claim)["metadata"].get("annotations", {})
        return str(notes.get(names.ANNOTATION_SELECTED_NODE, ""))


@pytest.fixture
async def bench(api: StoreApi) -> AsyncIterator[VolumeBench]:
    bench = VolumeBench(api)
    task = asyncio.create_task(bench.binds.run())
    yield bench
    assert not task.done(), "no answer ends the workers"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def bind(claim: Any, volume: Any) -> Step:
    return Step(action="bind-volume", claim=claim.name, claim_uid=claim.uid, volume=volume.name, volume_uid=volume.uid)


def provision(claim: Any) -> Step:
    return Step(action="provision-volume", claim=claim.name, claim_uid=claim.uid)


async def test_a_volume_is_kept_and_bound_before_the_pod_is(bench: VolumeBench) -> None:
    claim, volume = bench.claim("c"), bench.volume("v")
    bench.begin(before=[bind(claim, volume)])
    await eventually(lambda: bench.reference("v") == "c", what="the volume names the claim")
    assert bench.raw_object(VOLUMES, "v")["spec"]["claimRef"]["uid"] == claim.uid
    bench.shown(VOLUMES, "v")
    await asyncio.sleep(0.05)
    assert bench.node_of() == "", "the claim is not bound yet"
    assert bench.binds.has_parked()
    bench.bound("c", "v")
    await bench.over()
    assert bench.node_of() == "n"
    assert bench.api.calls["patch"] == 1


async def test_a_claim_names_the_node_and_its_volume_is_waited_for(bench: VolumeBench) -> None:
    claim = bench.claim("c")
    bench.begin(before=[provision(claim)])
    await eventually(lambda: bench.selected("c") == "n", what="the claim names the node")
    bench.shown(CLAIMS, "c")
    bench.volume("made", claimRef={"namespace": "default", "name": "c", "uid": claim.uid})
    bench.bound("c", "made")
    await bench.over()
    assert bench.node_of() == "n"
    assert bench.api.calls["patch"] == 1


async def test_steps_come_one_after_the_other(bench: VolumeBench) -> None:
    first, second, volume = bench.claim("c"), bench.claim("d"), bench.volume("v")
    bench.begin(before=[bind(first, volume), provision(second)])
    await eventually(lambda: bench.reference("v") == "c")
    bench.shown(VOLUMES, "v")
    await asyncio.sleep(0.05)
    assert bench.selected("d") == ""
    bench.bound("c", "v")
    await eventually(lambda: bench.selected("d") == "n")
    bench.shown(CLAIMS, "d")
    bench.volume("made")
    bench.bound("d", "made")
    await bench.over()
    assert bench.node_of() == "n"


async def test_pods_with_bound_claims_and_others_are_not_held_up(bench: VolumeBench) -> None:
    claim = bench.claim("c")
    for at in range(6):  # more than there are places
        waiting = bench.claim(f"c{at}")
        bench.begin(f"w{at}", plan=f"p{at}", before=[provision(waiting)])
        await eventually(lambda at=at: bench.selected(f"c{at}") == "n")
    assert claim.name == "c"
    bench.begin("free", plan="q")
    await eventually(lambda: bench.node_of("free") == "n", what="a bind without steps goes by")
    assert bench.binds.under_way() == 0


async def test_those_who_wait_for_one_claim_go_on_by_name(bench: VolumeBench) -> None:
    """In the same order in every process, whatever it draws its hashes from."""
    claim, waiting = bench.claim("c"), [f"w{at}" for at in range(8)]
    for name in reversed(waiting):
        bench.begin(name, plan=f"p-{name}", before=[provision(claim)])
    await eventually(lambda: bench.selected("c") == "n")
    await eventually(lambda: bench.binds.under_way() == 0)
    bench.volume("made", claimRef={"namespace": "default", "name": "c", "uid": claim.uid})
    await eventually(lambda: bench.binds.under_way() == 0)
    bench.bound("c", "made")
    await bench.over()
    assert bench.landed == waiting


async def test_a_volume_that_somebody_else_takes_gives_the_decision_up(bench: VolumeBench) -> None:
    claim, volume = bench.claim("c"), bench.volume("v")
    other = bench.claim("d")
    reference = {"namespace": "default", "name": "d", "uid": other.uid}

    def take(*_: Any) -> None:
        assert bench.api.store.patch(bench.path(VOLUMES, "v"), {"spec": {"claimRef": reference}}).status == 200

    bench.api.on("patch", take)
    bench.begin(before=[bind(claim, volume)])
    await eventually(lambda: bench.reference("v") == "d")
    await asyncio.sleep(0.05)
    assert bench.withdrawn == [], "the view does not show it yet"
    bench.shown(VOLUMES, "v")
    assert await bench.given_up() == "persistentvolume v is bound to claim default/d"
    assert bench.node_of() == ""


async def test_a_provisioner_that_gives_up(bench: VolumeBench) -> None:
    claim = bench.claim("c")
    bench.begin(before=[provision(claim)])
    await eventually(lambda: bench.selected("c") == "n")
    bench.shown(CLAIMS, "c")
    bench.patch(CLAIMS, "c", {"metadata": {"annotations": {names.ANNOTATION_SELECTED_NODE: None}}})
    assert await bench.given_up() == "the provisioner has given up the volume of persistentvolumeclaim c on node n"


async def test_volumes_that_never_come(api: StoreApi) -> None:
    bench = VolumeBench(api, volume_timeout_s=0.2)
    task = asyncio.create_task(bench.binds.run())
    claim = bench.claim("c")
    bench.begin(before=[provision(claim)])
    await eventually(lambda: bench.selected("c") == "n")
    bench.shown(CLAIMS, "c")
    reason = await bench.given_up()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert reason.startswith("binding volumes: not done after 0.2 s: the volume of persistentvolumeclaim c")


async def test_the_profile_says_how_long_volumes_may_take(bench: VolumeBench) -> None:
    """The writer's own time is minutes; no time at all still has them asked for."""
    claim = bench.claim("c")
    bench.begin(before=[provision(claim)], bind_timeout_s=0)
    await eventually(lambda: bench.selected("c") == "n")
    bench.shown(CLAIMS, "c")
    assert (await bench.given_up()).startswith("binding volumes: not done after 1 s: ")


async def test_a_request_whose_answer_was_lost_is_not_sent_twice_with_effect(bench: VolumeBench) -> None:
    claim, volume = bench.claim("c"), bench.volume("v")
    bench.api.on("patch", lambda name, body: bench.api.store.patch(bench.path(VOLUMES, "v"), body) and Answer(0))
    bench.begin(before=[bind(claim, volume)])
    await eventually(lambda: bench.api.calls["patch"] >= 2)
    bench.shown(VOLUMES, "v")
    bench.bound("c", "v")
    await bench.over()
    assert bench.node_of() == "n"
    assert bench.withdrawn == []


async def test_a_step_that_the_server_forbids_gives_the_decision_up(bench: VolumeBench) -> None:
    claim, volume = bench.claim("c"), bench.volume("v")
    refused = answer_of(
        400, b'{"kind": "Status", "apiVersion": "v1", "code": 400, "message": "no such field"}', "", None
    )
    bench.api.on("patch", lambda name, body: refused)
    bench.begin(before=[bind(claim, volume)])
    await bench.over()
    assert bench.withdrawn == [("a", "bind-volume refused: 400 no such field")]


async def test_two_decisions_that_keep_one_volume_are_the_sign_of_a_loss(bench: VolumeBench) -> None:
    first, second, volume = bench.claim("c"), bench.claim("d"), bench.volume("v")
    bench.begin("a", before=[bind(first, volume)])
    bench.begin("b", plan="q", node="n", before=[bind(second, volume)])
    await eventually(lambda: bench.end() or bool(bench.lost), what="the clash is seen")
    assert "volume v is kept for another claim" in bench.lost[0]


async def test_a_claim_for_one_pod_that_somebody_uses_already(bench: VolumeBench) -> None:
    bench.claim("c", accessModes=["ReadWriteOncePod"])
    uses = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}
    bench.api.pod("there", nodeName="n", **uses)
    bench.show("there")
    pod = bench.api.pod("a", **uses)
    bench.show("a")
    bench.binds.begin(bench.decide(pod))
    assert await bench.given_up() == "claim c may be used by one pod only, and there uses it"


async def test_a_volume_that_the_node_does_not_reach_any_more(bench: VolumeBench) -> None:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["elsewhere"]}]}]
    claim = bench.claim("c")
    volume = bench.volume("v", nodeAffinity={"required": {"nodeSelectorTerms": terms}})
    bench.begin(before=[bind(claim, volume)])
    assert await bench.given_up() == "persistentvolume v is not reached from node n"
    assert bench.reference("v") == ""


async def test_what_waits_for_its_volume_is_given_up_at_once(bench: VolumeBench) -> None:
    claim = bench.claim("c")
    decision = bench.begin(before=[provision(claim)])
    await eventually(lambda: bench.selected("c") == "n")
    bench.shown(CLAIMS, "c")
    await eventually(bench.binds.has_parked)
    bench.binds.give_up(decision, "its gang is not whole")
    assert await bench.given_up() == "its gang is not whole"
