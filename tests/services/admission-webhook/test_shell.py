"""The service on a real nats-server: certificates, what it asks for, and answers by TLS."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from tests.services.worlds.shell import ShellWorld

from berth.admission_webhook import keys
from berth.admission_webhook.settings import SERVICE, Settings
from berth.admission_webhook.shell import Shell
from berth.contracts import buckets, names
from berth.contracts.codec import decode
from berth.contracts.command import ConfigureWebhooks
from berth.contracts.event import ObjectRefused
from berth.contracts.slo import CONFIG_MAP
from berth.contracts.state import (
    ClusterColocationProfile,
    ConfigMap,
    MutatingWebhookConfiguration,
    Namespace,
    Node,
    PriorityClass,
    ValidatingWebhookConfiguration,
)
from berth.contracts.subjects import named_key, namespaced_key
from berth.rules.webhooks import KINDS, rendered
from berth.testing.nats_server import NatsServer
from berth.testing.views import View, eventually

KEYS = {kind: named_key(f"{kind}webhookconfiguration", names.WEBHOOKS) for kind in KINDS}
MESSAGES: dict[str, Any] = {"mutating": MutatingWebhookConfiguration, "validating": ValidatingWebhookConfiguration}
BATCH = {"selector": {"matchLabels": {"app": "etl"}}, "qosClass": "BE", "priorityClassName": "koord-batch"}
URL = "https://127.0.0.1:1"


class World(ShellWorld[Settings]):
    """The rest of the control plane: cluster-writer carries out what is asked for, and STATE shows it."""

    service, publishes, command = SERVICE, buckets.LEASE, ConfigureWebhooks
    kinds = ("clustercolocationprofiles", "priorityclasses", "namespaces", "elasticquotas", *KEYS.values())

    def __init__(self, server: NatsServer) -> None:
        self.leases = View()
        super().__init__(server, self.leases)
        self.version = 1
        self.bundle: dict[str, str] = {}

    async def start(self, instance: str, **settings: Any) -> Shell:
        given = {"lease_ttl_s": 2, "webhook_url": URL, "webhook_port": 0, **settings}
        context = await self.context(instance, Settings(**given))
        shell = Shell(context)
        self.run(context, shell.run())
        return shell

    def show(self, kind: str, entries: list[dict[str, Any]], bundle: str) -> None:
        self.version += 1
        self.bundle[kind] = bundle
        seen = MESSAGES[kind](name=names.WEBHOOKS, uid=kind, version=self.version, webhooks=entries, ca_bundle=bundle)
        self.put(KEYS[kind], seen)

    def empty(self) -> None:
        for kind in KINDS:
            self.show(kind, [], "")
        self.complete()

    async def carry_out(self, holds: Any) -> None:
        """Do what is asked for until this holds."""
        done = 0

        def look() -> bool:
            nonlocal done
            for asked in self.commands[done:]:
                if asked.version == str(self.newest(asked.kind)):
                    self.show(asked.kind, [rendered(entry, URL) for entry in asked.entries], asked.ca_bundle)
            done = len(self.commands)
            return bool(holds())

        await eventually(look, what="what was asked for")

    def newest(self, kind: str) -> int:
        value = self.state_view.values.get(KEYS[kind])
        return int(decode(value, MESSAGES[kind]).version) if value else 0

    async def begin(self) -> None:
        await super().begin()
        self.state_view = View()
        self._state = asyncio.create_task(self.bus.follow(buckets.STATE, self.state_view).run())

    async def end(self) -> None:
        self._state.cancel()
        await asyncio.gather(self._state, return_exceptions=True)
        await super().end()


@pytest.fixture
async def world(nats_server: NatsServer) -> AsyncIterator[World]:
    world = World(nats_server)
    await world.begin()
    world.empty()
    yield world
    await world.end()


def pod(**labels: str) -> dict[str, Any]:
    amounts = {"cpu": "1", "memory": "1Gi"}
    container = {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
    return {"metadata": {"labels": labels}, "spec": {"schedulerName": "berth-scheduler", "containers": [container]}}


async def ask(shell: Shell, bundle: str, path: str, body: Any) -> tuple[int, Any]:
    context = ssl.create_default_context(cadata=bundle)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"https://127.0.0.1:{shell.server.port}{path}", data=json.dumps(body), ssl=context) as response,
    ):
        return response.status, json.loads(await response.read()) if response.status == 200 else await response.text()


def review(item: dict[str, Any]) -> dict[str, Any]:
    return {"request": {"uid": "u", "operation": "CREATE", "namespace": "default", "object": item}}


async def test_a_replica_is_ready_once_the_api_server_can_trust_it(world: World) -> None:
    shell = await world.start("one")
    await eventually(lambda: bool(world.commands), what="a request")
    assert not shell.is_ready
    assert shell.missing == "waiting for its certificate to stand in the webhook configurations"
    await world.carry_out(lambda: shell.is_ready)
    assert {asked.kind for asked in world.commands} == set(KINDS)
    assert world.bundle["mutating"] == world.bundle["validating"]
    status, answer = await ask(shell, world.bundle["mutating"], "/mutate-pod", review(pod()))
    assert (status, answer["response"]) == (200, {"uid": "u", "allowed": True})
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await ask(shell, keys.make("127.0.0.1", 1_700_000_000, 1e9).pem, "/mutate-pod", review(pod()))
    assert (await world.status()).ready


async def test_a_profile_gets_an_entry_and_changes_pods(world: World) -> None:
    world.put(named_key("namespace", "default"), Namespace(name="default", version=1))
    world.put(named_key("priorityclass", "koord-batch"), PriorityClass(name="koord-batch", version=1, value=5000))
    world.put(
        named_key("clustercolocationprofile", "batch"),
        ClusterColocationProfile(name="batch", uid="u", version=1, spec=BATCH),
    )
    world.put(
        named_key("clustercolocationprofile", "odd"),
        ClusterColocationProfile(name="odd", uid="u", version=1, spec={"probability": "150%"}),
    )
    shell = await world.start("one")
    await world.carry_out(lambda: shell.is_ready)
    entries = {entry.name: entry for asked in world.commands if asked.kind == "mutating" for entry in asked.entries}
    assert entries["batch.profiles.admission.berth.sh"].object_selector == BATCH["selector"]
    assert not any(name.startswith("odd") for name in entries)
    await eventually(lambda: any("clustercolocationprofiles" in each.subject for each in world.events), what="an event")
    (told,) = [decode(each.data, ObjectRefused) for each in world.events if "object.refused" in each.subject]
    assert (told.name, told.problems[0].field) == ("odd", "spec.probability")
    _, answer = await ask(shell, world.bundle["mutating"], "/mutate-pod", review(pod(app="etl")))
    patch = json.loads(base64.b64decode(answer["response"]["patch"]))
    values = {each["path"]: each["value"] for each in patch if "value" in each}
    assert values["/metadata/labels/koordinator.sh~1qosClass"] == "BE"
    assert values["/spec/priorityClassName"] == "koord-batch"
    assert (await ask(shell, world.bundle["mutating"], "/mutate-pod", {"x": 1}))[0] == 400
    assert (await ask(shell, world.bundle["mutating"], "/other", {}))[0] == 404


async def test_certificates_of_all_replicas_stand_side_by_side_until_one_leaves(world: World) -> None:
    one, two = await world.start("one"), await world.start("two")
    await world.carry_out(lambda: one.is_ready and two.is_ready)
    assert all(each._certificate.pem in world.bundle["mutating"] for each in (one, two))
    await world.stop(world.replicas[1])
    await world.carry_out(lambda: two._certificate.pem not in world.bundle["mutating"])
    assert one.is_ready


async def test_a_successor_takes_over_without_a_gap(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("berth.admission_webhook.core.succession.SETTLE_S", 0.1)
    shell = await world.start("one", certificate_days=6 / 86_400)
    first = shell._certificate.pem
    await world.carry_out(lambda: shell.is_ready)
    await world.carry_out(lambda: shell._certificate.pem != first)
    assert shell.is_ready
    assert (await ask(shell, world.bundle["mutating"], "/mutate-pod", review(pod())))[0] == 200
    await world.carry_out(lambda: first not in world.bundle["mutating"])


async def test_strategies_of_nodes_are_kept_apart(world: World) -> None:
    """By the ConfigMap that is there for nodes, and by the nodes that are there for the ConfigMap."""
    key = namespaced_key("configmap", *CONFIG_MAP.split("/"))

    def strategies(*pools: str) -> dict[str, str]:
        made = [{"name": pool, "nodeSelector": {"matchLabels": {pool: "yes"}}} for pool in pools]
        return {"resource-threshold-config": json.dumps({"nodeStrategies": made})}

    def moved(**labels: str) -> Any:
        new, old = {"metadata": {"labels": labels}}, {"metadata": {"labels": {"a": "yes"}}}
        return {"request": {"uid": "u", "operation": "UPDATE", "object": new, "oldObject": old}}

    def written(*pools: str) -> Any:
        metadata = {"labels": {names.LABEL_CONFIG_MAP_TYPE: names.SLO_CONFIG_MAP_TYPE}}
        return review({"metadata": metadata, "data": strategies(*pools)})

    world.put(
        key, ConfigMap(namespace="berth-system", name=names.SLO_CONFIG_MAP_TYPE, version=1, data=strategies(*"ab"))
    )
    world.put(named_key("node", "n"), Node(name="n", uid="n", version=1, labels={"c": "yes", "d": "yes"}))
    shell = await world.start("one", admission_gates="NodeValidatingWebhook=true,ConfigMapValidatingWebhook=true")
    await world.carry_out(lambda: shell.is_ready)

    async def refusal(path: str, asked: Any) -> Any:
        _, answer = await ask(shell, world.bundle["validating"], path, asked)
        return answer["response"].get("status", {}).get("message", "")

    assert await refusal("/validate-node", moved(a="yes", c="yes")) == ""
    assert "several strategies of resource-threshold-config: a, b" in await refusal(
        "/validate-node", moved(a="yes", b="yes")
    )
    assert await refusal("/validate-configmap", written("a", "c")) == ""
    assert "n (c, d)" in await refusal("/validate-configmap", written("c", "d"))
    world.put(
        key, ConfigMap(namespace="berth-system", name=names.SLO_CONFIG_MAP_TYPE, version=2, data=strategies(*"bc"))
    )
    await eventually(
        lambda: not list(shell.cluster.reviewed.node_selectors.conflicts({"a": "yes", "b": "yes"})), what="the change"
    )


async def test_what_somebody_else_wrote_is_put_right(world: World) -> None:
    shell = await world.start("one")
    await world.carry_out(lambda: shell.is_ready)
    world.show("validating", [], world.bundle["mutating"])
    await world.carry_out(lambda: world.newest("validating") == world.version and shell.is_ready)
    asked = world.commands[-1]
    assert (asked.kind, len(asked.entries) > 0) == ("validating", True)
