"""Objects that are made to say what is asked for, each kind in its way."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace
from tests.services.worlds.writer.command_bench import applied, strategy

from berth.contracts import names
from berth.contracts.command import MANAGER, ApplyObject, DeleteObject
from berth.contracts.errors import InvalidMessage
from berth.contracts.kube import OwnerReference
from berth.simcluster.store import Path


async def test_an_object_is_made_then_changed_and_belongs_to_its_owner(desk, api, uid):
    await desk.send(strategy(60, uid=uid))
    made = applied(api)
    assert made["kind"] == "NodeSLO"
    assert made["spec"]["resourceUsedThresholdWithBE"]["cpuSuppressThresholdPercent"] == 60
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"], owner["name"], owner["uid"]) == ("v1", "Node", "n", uid)
    await desk.send(strategy(70, uid=uid, revision=2))
    again = applied(api)
    assert again["spec"]["resourceUsedThresholdWithBE"]["cpuSuppressThresholdPercent"] == 70
    assert again["metadata"]["uid"] == made["metadata"]["uid"]
    await desk.send(strategy(70, uid=uid, revision=2))
    assert applied(api) == again


METRIC = Path("slo.koordinator.sh", "v1alpha1", "nodemetrics", "", "n")


async def test_an_object_is_made_with_its_status(desk, api, uid):
    owner = OwnerReference(api_version="v1", kind="Node", name="n", uid=uid)
    metric = ApplyObject(
        api="slo.koordinator.sh/v1alpha1/nodemetrics",
        name="n",
        spec={"metricCollectPolicy": {"reportIntervalSeconds": 60}},
        status={"updateTime": "2026-01-01T00:00:00Z"},
        owner=owner,
        revision=1,
    )
    for minute in range(2):
        status = {"updateTime": f"2026-01-01T00:0{minute}:00Z"}
        await desk.send(replace(metric, status=status, revision=minute + 1))
        made = json.loads(api.store.get(METRIC).body)
        assert made["status"]["updateTime"] == status["updateTime"]
        assert made["spec"] == metric.spec
    assert made["metadata"]["labels"] == {names.LABEL_MANAGED_BY: "berth"}


async def test_a_koordlets_metric_is_left_alone(desk, api, uid):
    body = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": {"name": "n"}, "spec": {}}
    assert api.store.create(METRIC._replace(name=""), body).status == 201
    owner = OwnerReference(api_version="v1", kind="Node", name="n", uid=uid)
    status = {"updateTime": "2026-01-01T00:00:00Z"}
    api_name = "slo.koordinator.sh/v1alpha1/nodemetrics"
    await desk.send(ApplyObject(api=api_name, name="n", status=status, owner=owner, revision=1))
    assert "status" not in json.loads(api.store.get(METRIC).body)


async def test_other_kinds_may_not_be_made(desk):
    with pytest.raises(InvalidMessage, match="v1/secrets"):
        await desk.objects.apply(ApplyObject(api="v1/secrets", name="s"))


TOPOLOGY = Path("topology.node.k8s.io", "v1alpha1", "noderesourcetopologies", "", "n")


async def test_a_kind_without_a_spec_is_made_of_its_fields(desk, api, uid):
    owner = OwnerReference(api_version="v1", kind="Node", name="n", uid=uid)
    fields = {"topologyPolicies": ["None"], "zones": [], "kind": "Secret", "metadata": {"name": "other"}}
    ask = ApplyObject(api="topology.node.k8s.io/v1alpha1/noderesourcetopologies", name="n", fields=fields, owner=owner)
    await desk.send(ask)
    made = json.loads(api.store.get(TOPOLOGY).body)
    assert (made["kind"], made["topologyPolicies"], made["zones"]) == ("NodeResourceTopology", ["None"], [])
    assert made["metadata"]["labels"] == {names.LABEL_MANAGED_BY: MANAGER}
    await desk.objects.delete(DeleteObject(api=ask.api, name="n", uid=made["metadata"]["uid"]))
    assert api.store.get(TOPOLOGY).status == 404


QUOTA_API = "scheduling.sigs.k8s.io/v1alpha1/elasticquotas"
QUOTA = Path("scheduling.sigs.k8s.io", "v1alpha1", "elasticquotas", "default", "pool-root")


def root_quota(cpu, revision=1):
    spec = {"min": {"cpu": cpu}, "max": {"cpu": "100"}}
    return ApplyObject(
        api=QUOTA_API,
        namespace="default",
        name="pool-root",
        spec=spec,
        revision=revision,
        labels={names.LABEL_QUOTA_IS_ROOT: "true"},
    )


async def test_a_quota_is_made_in_its_namespace_and_follows(desk, api):
    await desk.send(root_quota("4"))
    made = json.loads(api.store.get(QUOTA).body)
    assert (made["metadata"]["namespace"], made["spec"]["min"]) == ("default", {"cpu": "4"})
    assert made["metadata"]["labels"] == {names.LABEL_QUOTA_IS_ROOT: "true", names.LABEL_MANAGED_BY: MANAGER}
    await desk.send(root_quota("8", revision=2))
    assert json.loads(api.store.get(QUOTA).body)["spec"]["min"] == {"cpu": "8"}


async def test_quotas_are_not_deleted(desk):
    with pytest.raises(InvalidMessage, match="is none of"):
        await desk.objects.delete(DeleteObject(api=QUOTA_API, name="pool-root", uid="u"))


async def test_a_spec_that_the_schema_forbids_is_broken(desk, uid):
    with pytest.raises(InvalidMessage, match="422"):
        await desk.send(strategy(500, uid=uid))
