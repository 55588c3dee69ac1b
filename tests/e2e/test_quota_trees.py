"""From an ElasticQuotaProfile to its root quota and to the place of a pod, on a running control plane."""

from __future__ import annotations

from typing import Any

import pytest
from tests.e2e.corner import Corner
from tests.e2e.objects import NODES, QUOTAS
from tests.e2e.waiting import until
from tests.e2e.whole import Whole

from berth.contracts import names

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

PROFILES = "/apis/quota.koordinator.sh/v1alpha1/namespaces/{}/elasticquotaprofiles"


async def root(whole: Whole, path: str, cpu: str) -> dict[str, Any]:
    """The root quota, once it is there and promises so much."""

    async def look() -> dict[str, Any] | None:
        status, found = await whole.try_call("GET", path)
        return found if status == 200 and found["spec"]["min"].get("cpu") == cpu else None

    return await until(look, f"a root quota of {cpu} CPUs")


async def test_a_pool_has_a_tree_and_the_tree_keeps_to_the_pool(whole: Whole, corner: Corner) -> None:
    inside = await corner.node("inside", labels={"pool": corner.namespace})
    outside = await corner.node("outside")
    profile = {
        "apiVersion": "quota.koordinator.sh/v1alpha1",
        "kind": "ElasticQuotaProfile",
        "metadata": {"name": "pool", "namespace": corner.namespace},
        "spec": {
            "quotaName": f"{corner.namespace}-root",
            "quotaLabels": {names.LABEL_QUOTA_IS_PARENT: "true"},
            "nodeSelector": {"matchLabels": {"pool": corner.namespace}},
        },
    }
    await corner.create(PROFILES.format(corner.namespace), profile)
    path = f"{QUOTAS.format(corner.namespace)}/{corner.namespace}-root"
    made = await root(whole, path, "8")
    tree = made["metadata"]["labels"][names.LABEL_QUOTA_TREE]
    assert made["metadata"]["labels"][names.LABEL_QUOTA_IS_ROOT] == "true"

    async def told() -> bool:
        shown = await whole.call("GET", f"{PROFILES.format(corner.namespace)}/pool")
        return (shown["metadata"].get("labels") or {}).get(names.LABEL_QUOTA_TREE) == tree

    await until(told, "the profile to name its tree")

    team = f"{corner.namespace}-team"
    labels = {names.LABEL_QUOTA_TREE: tree, names.LABEL_QUOTA_PARENT: f"{corner.namespace}-root"}
    quota = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": team, "namespace": corner.namespace, "labels": labels},
        "spec": {"min": {"cpu": "4"}, "max": {"cpu": "16"}},
    }
    await corner.create(QUOTAS.format(corner.namespace), quota)
    pays = {names.LABEL_QUOTA_NAME: team}
    for number in range(4):
        await corner.pod(f"pooled-{number}", labels=pays)
    pods = await corner.bound(*(f"pooled-{number}" for number in range(4)))
    assert {pod["spec"]["nodeName"] for pod in pods} == {inside}

    # A node that joins the pool enlarges the tree, and may take its pods.
    await whole.patch(f"{NODES}/{outside}", {"metadata": {"labels": {"pool": corner.namespace}}})
    await root(whole, path, "16")
    await whole.patch(f"{NODES}/{inside}", {"metadata": {"labels": {"pool": None}}})
    await root(whole, path, "8")
    await corner.pod("later", labels=pays)
    (later,) = await corner.bound("later")
    assert later["spec"]["nodeName"] == outside
    await whole.call("DELETE", path)
