"""Admission on both API servers: profiles change pods, and nobody waits for a webhook that is away.

The webhook is scaled to 0, stands still, and shows a certificate that nobody trusts: pods of others and heartbeats of
nodes are as before, and pods of profiles are created as they are.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from tests.e2e.clusters import cluster_of
from tests.e2e.corner import Corner
from tests.e2e.objects import NODES, PODS
from tests.e2e.waiting import until
from tests.e2e.whole import Whole, run_whole

from berth.admission_webhook import keys
from berth.cli.stack.services import WEBHOOK
from berth.contracts import names
from berth.rules.webhooks import KINDS, with_bundle

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

PROFILES = "/apis/config.koordinator.sh/v1alpha1/clustercolocationprofiles"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations/" + names.WEBHOOKS
MINE = {"app": "etl"}
PROMPT_S = 1.5
"""Less than the time-out of a webhook: nobody was waited for."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def whole(kind: str) -> AsyncIterator[Whole]:
    with cluster_of(kind) as cluster:
        async with run_whole(cluster, replicas={WEBHOOK: 1}) as running:
            await running.try_call("POST", CLASSES, {"metadata": {"name": "koord-batch"}, "value": 5000})
            spec = {"selector": {"matchLabels": MINE}, "qosClass": "BE", "priorityClassName": "koord-batch"}
            profile = {"apiVersion": "config.koordinator.sh/v1alpha1", "kind": "ClusterColocationProfile"}
            await running.call("POST", PROFILES, {**profile, "metadata": {"name": "etl"}, "spec": spec})
            yield running


async def create(corner: Corner, name: str, labels: dict[str, str], scheduler: str) -> tuple[dict[str, Any], float]:
    """The pod as it was created, and how long that took."""
    began = time.monotonic()
    manifest = corner.manifest(name, labels=labels, scheduler=scheduler)
    made = await corner.whole.call("POST", PODS.format(corner.namespace), manifest)
    return made, time.monotonic() - began


async def is_changed(corner: Corner) -> bool:
    """Whether a profile's pod of another scheduler is changed when it is created."""
    made, _ = await create(corner, f"probe-{time.monotonic_ns()}", MINE, "theirs")
    return bool(made["metadata"]["labels"].get(names.LABEL_QOS) == "BE")


async def heartbeat(corner: Corner, node: str) -> float:
    began = time.monotonic()
    condition = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": str(began)}
    await corner.whole.patch(f"{NODES}/{node}/status", {"status": {"conditions": [condition]}})
    return time.monotonic() - began


async def unharmed(corner: Corner, node: str, mark: str) -> None:
    """Everybody goes on without the webhook."""
    _, foreign_s = await create(corner, f"foreign-{mark}", {"app": "web"}, "theirs")
    assert foreign_s < PROMPT_S
    assert await heartbeat(corner, node) < PROMPT_S
    for scheduler in ("theirs", names.SCHEDULER_NAME):
        made, _ = await create(corner, f"mine-{mark}-{scheduler[:5]}", MINE, scheduler)
        assert names.LABEL_QOS not in made["metadata"]["labels"], "created, and without its profile"
        assert made["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "500m"
    refused = corner.manifest(f"refused-{mark}", labels={names.LABEL_QOS: "BE", **MINE})
    status, answer = await corner.whole.try_call("POST", PODS.format(corner.namespace), refused)
    if corner.whole.cluster.kind == "real":
        assert status == 422, answer
        assert "cannot be used in combination" in answer["message"], "what must not be missed is no webhook's"


async def test_a_profile_changes_the_pods_that_it_selects(corner: Corner) -> None:
    await until(lambda: is_changed(corner), "the profile to be called for")
    made, _ = await create(corner, "mine", MINE, names.SCHEDULER_NAME)
    labels, annotations = made["metadata"]["labels"], made["metadata"]["annotations"]
    assert (labels[names.LABEL_QOS], made["spec"]["priority"]) == ("BE", 5000)
    amounts = made["spec"]["containers"][0]["resources"]
    wanted = {names.BATCH_CPU: "500", names.BATCH_MEMORY: "256Mi"}
    assert amounts == {"requests": wanted, "limits": wanted}
    spec = json.loads(annotations[names.ANNOTATION_EXTENDED_RESOURCE_SPEC])
    assert spec["containers"]["main"]["requests"][names.BATCH_CPU] == "500"
    mark = json.loads(annotations[names.ANNOTATION_PROFILES])
    assert mark["profiles"] == ["etl"]
    made, _ = await create(corner, "other", {"app": "web"}, names.SCHEDULER_NAME)
    assert names.LABEL_QOS not in made["metadata"]["labels"]


async def test_nobody_waits_for_a_webhook_that_is_scaled_to_0(whole: Whole, corner: Corner) -> None:
    await until(lambda: is_changed(corner), "the profile to be called for")
    node = await corner.node("n")
    await whole.stack.scale(WEBHOOK, 0)
    await unharmed(corner, node, "away")
    await whole.stack.scale(WEBHOOK, 1)
    await until(lambda: is_changed(corner), "a new replica, with a new certificate, to be called")


async def test_nobody_waits_for_a_webhook_that_hangs(whole: Whole, corner: Corner) -> None:
    await until(lambda: is_changed(corner), "the profile to be called for")
    node = await corner.node("n")
    async with whole.paused(WEBHOOK):
        await unharmed(corner, node, "hung")
    await until(lambda: is_changed(corner), "the webhook to answer again")


async def test_nobody_waits_for_a_webhook_that_nobody_trusts(whole: Whole, corner: Corner) -> None:
    await until(lambda: is_changed(corner), "the profile to be called for")
    node = await corner.node("n")
    stranger = keys.make("127.0.0.1", time.time(), 3600).pem
    async with whole.paused("cluster-writer"):
        for kind in KINDS:
            path = CONFIGURATIONS.format(kind)
            entries = (await whole.call("GET", path))["webhooks"]
            await whole.patch(path, {"webhooks": [with_bundle(entry, stranger) for entry in entries]})

        async def is_untrusted() -> bool:
            return not await is_changed(corner)

        await until(is_untrusted, "the API server to go by the other certificate")
        await unharmed(corner, node, "untrusted")
    await until(lambda: is_changed(corner), "the certificates to be put right")
