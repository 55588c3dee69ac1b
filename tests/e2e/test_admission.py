"""Admission on both API servers: profiles change pods, and nobody waits for a webhook that is away.

The webhook is scaled to 0, stands still, and shows a certificate that nobody trusts: pods of others and heartbeats of
nodes are as before, and pods of profiles are created as they are. The gates that are closed by default are open:
strategies of nodes are kept apart.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from tests.e2e.clusters import HOME, cluster_of
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
GATES = "NodeValidatingWebhook=true,ConfigMapValidatingWebhook=true,NodeMutatingWebhook=true"
MAPS = f"/api/v1/namespaces/{HOME}/configmaps"
THRESHOLDS = "resource-threshold-config"
PROMPT_S = 1.5
"""Less than the time-out of a webhook: nobody was waited for."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def whole(kind: str) -> AsyncIterator[Whole]:
    with cluster_of(kind) as cluster:
        async with run_whole(cluster, replicas={WEBHOOK: 1}, environment={"BERTH_ADMISSION_GATES": GATES}) as running:
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


def strategies(*pools: str, percent: int = 60) -> dict[str, Any]:
    """The ConfigMap of strategies, with one for each of these pools of nodes."""
    made = [{"name": each, "nodeSelector": {"matchLabels": {each: "yes"}}} for each in pools]
    document = {"clusterStrategy": {"cpuSuppressThresholdPercent": percent}, "nodeStrategies": made}
    labels = {names.LABEL_CONFIG_MAP_TYPE: names.SLO_CONFIG_MAP_TYPE}
    metadata = {"name": names.SLO_CONFIG_MAP_TYPE, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {THRESHOLDS: json.dumps(document)}}


async def test_a_configmap_of_strategies_is_checked(whole: Whole, corner: Corner) -> None:
    node = await corner.node("n")
    await whole.patch(f"{NODES}/{node}", {"metadata": {"labels": {"fast": "yes", "large": "yes"}}})
    await whole.call("POST", MAPS, strategies())
    path = f"{MAPS}/{names.SLO_CONFIG_MAP_TYPE}"

    async def refusal(wanted: dict[str, Any]) -> str:
        changed = {"data": wanted["data"]}
        status, answer = await whole.try_call("PATCH", path, changed, kind="application/merge-patch+json")
        assert status in (200, 403), answer
        return answer["message"] if status == 403 else ""

    await until(lambda: refusal(strategies(percent=101)), "a percentage beyond 100 to be refused")
    message = await refusal(strategies(percent=101))
    assert "ConfigParamInvalid" in message
    assert "cpuSuppressThresholdPercent" in message

    percents = iter(range(50))  # what is as it was is not looked at again

    async def meets() -> bool:
        return "ExistNodeConfict" in await refusal(strategies("fast", "large", percent=next(percents)))

    await until(meets, "the node with both labels to be seen")
    assert await refusal(strategies("fast", "slow")) == ""


async def test_labels_that_give_a_node_two_strategies_are_refused(whole: Whole, corner: Corner) -> None:
    node = await corner.node("n")
    await whole.try_call("POST", MAPS, strategies())
    await whole.patch(f"{MAPS}/{names.SLO_CONFIG_MAP_TYPE}", {"data": strategies("fast", "slow")["data"]})

    async def labelled(**labels: str | None) -> tuple[int, str]:
        changed = {"metadata": {"labels": labels}}
        status, answer = await whole.try_call("PATCH", f"{NODES}/{node}", changed, kind="application/merge-patch+json")
        return status, answer.get("message", "")

    assert (await labelled(fast="yes"))[0] == 200

    async def is_refused() -> bool:
        status, message = await labelled(slow="yes")
        if status == 403:
            assert THRESHOLDS in message
            return True
        await labelled(slow=None)
        return False

    await until(is_refused, "the second strategy to be refused")
    await whole.patch(f"{NODES}/{node}", {"metadata": {"annotations": {"note": "passes"}}})
    await whole.stack.scale(WEBHOOK, 0)
    assert (await labelled(slow="yes"))[0] == 200, "away, it keeps nobody from writing"
    await whole.stack.scale(WEBHOOK, 1)


async def test_a_report_passes_with_a_broken_note_of_amplification(whole: Whole, corner: Corner) -> None:
    node = await corner.node("n")
    ratios = {names.ANNOTATION_AMPLIFICATION_RATIO: '{"cpu": 1.5}'}
    await whole.patch(f"{NODES}/{node}", {"metadata": {"annotations": ratios}})

    async def reported(cpu: str) -> str:
        """What the node shows when its kubelet reports this."""
        made = await whole.patch(f"{NODES}/{node}/status", {"status": {"allocatable": {"cpu": cpu}}})
        return str(made["status"]["allocatable"]["cpu"])

    async def is_amplified() -> bool:
        await reported("8")
        return await reported("10") == "15"

    await until(is_amplified, "reports to be amplified")
    for broken in ({names.ANNOTATION_AMPLIFICATION_RATIO: "{"}, {names.ANNOTATION_RAW_ALLOCATABLE: "[" * 5000}):
        await whole.patch(f"{NODES}/{node}", {"metadata": {"annotations": {**ratios, **broken}}})
        before = await heartbeat(corner, node)
        assert before < PROMPT_S
        assert (await reported("8"))[0] in "18", "the report passes"
