"""What kubectl shows: tables, OpenAPI, discovery; and kubectl itself, where it is installed."""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from berth.testing.kube_server import KubeMissingError, find_binary

PODS = "/api/v1/namespaces/default/pods"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
QUOTAS = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/elasticquotas"
RESERVATIONS = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"


async def rows(client: Any, path: str) -> tuple[list[str], list[list[Any]]]:
    table = await client.ok("GET", path, Accept=TABLE)
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    shown = [column["name"] for column in table["columnDefinitions"] if not column["priority"]]
    return shown, [row["cells"][: len(shown)] for row in table["rows"]]


async def test_pods_and_nodes_as_tables(client: Any) -> None:
    await client.ok("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}})
    await client.pod("a")
    columns, cells = await rows(client, PODS)
    assert columns == ["Name", "Ready", "Status", "Restarts", "Age"]
    assert [cell[:4] for cell in cells] == [["a", "0/1", "Pending", "0"]]
    columns, cells = await rows(client, "/api/v1/nodes")
    assert columns == ["Name", "Status", "Roles", "Age", "Version"]
    assert cells[0][:3] == ["n1", "Unknown", "<none>"]


async def test_claims_volumes_and_classes_as_tables(client: Any) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast"}
    await client.ok(
        "POST",
        "/api/v1/namespaces/default/persistentvolumeclaims",
        {"metadata": {"name": "c"}, "spec": {**spec, "resources": {"requests": {"storage": "1Gi"}}}},
    )
    ref = {"namespace": "default", "name": "c"}
    volume = {**spec, "capacity": {"storage": "2Gi"}, "claimRef": ref, "hostPath": {"path": "/x"}}
    await client.ok("POST", "/api/v1/persistentvolumes", {"metadata": {"name": "v"}, "spec": volume})
    classes = "/apis/storage.k8s.io/v1/storageclasses"
    await client.ok("POST", classes, {"metadata": {"name": "fast"}, "provisioner": "d"})
    columns, cells = await rows(client, "/api/v1/persistentvolumeclaims")
    assert columns == ["Name", "Status", "Volume", "Capacity", "Access Modes", "StorageClass", "Age"]
    assert cells[0][:6] == ["c", "Pending", "", "", "", "fast"]
    _, cells = await rows(client, "/api/v1/persistentvolumes")
    assert cells[0][:7] == ["v", "2Gi", "RWO", "Retain", "Pending", "default/c", "fast"]
    _, cells = await rows(client, classes)
    assert cells[0][:4] == ["fast", "d", "Delete", "Immediate"]


async def test_one_object_is_a_table_of_one_row(client: Any) -> None:
    await client.pod("a")
    _, cells = await rows(client, f"{PODS}/a")
    assert [cell[0] for cell in cells] == ["a"]
    table = await client.ok("GET", f"{PODS}/a", Accept=TABLE)
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    assert table["rows"][0]["object"]["metadata"]["namespace"] == "default"
    table = await client.ok("GET", f"{PODS}/a?includeObject=Object", Accept=TABLE)
    assert table["rows"][0]["object"]["spec"]


async def test_custom_resources_have_the_columns_of_their_definition(client: Any) -> None:
    await client.ok("POST", QUOTAS, {"metadata": {"name": "q"}, "spec": {}})
    columns, cells = await rows(client, QUOTAS)
    assert (columns, cells[0][0]) == (["Name", "Age"], "q")
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"template": template, "owners": [{"object": {"name": "x"}}], "ttl": "1h"}
    await client.ok("POST", RESERVATIONS, {"metadata": {"name": "r"}, "spec": spec})
    columns, cells = await rows(client, RESERVATIONS)
    assert columns == ["Name", "Phase", "Age", "Node", "TTL", "Expires"]
    assert (cells[0][0], cells[0][4]) == ("r", "1h")


async def test_a_watch_of_tables(client: Any) -> None:
    async with client.session.get(f"{PODS}?watch=1", headers={"Accept": TABLE}) as response:
        await client.pod("a")
        event = json.loads(await asyncio.wait_for(response.content.readline(), 10))
    assert (event["type"], event["object"]["kind"]) == ("ADDED", "Table")
    assert event["object"]["rows"][0]["cells"][0] == "a"


async def test_whoever_wants_no_table_gets_none(client: Any) -> None:
    assert (await client.ok("GET", PODS))["kind"] == "PodList"
    assert (await client.ok("GET", PODS, Accept=f"application/json,{TABLE}"))["kind"] == "PodList"


async def test_openapi_has_every_served_kind(client: Any) -> None:
    root = await client.ok("GET", "/openapi/v3")
    assert {"api/v1", "apis/apps/v1", "apis/scheduling.sigs.k8s.io/v1alpha1"} <= set(root["paths"])
    for path, kind in (("api/v1", "Pod"), ("apis/scheduling.sigs.k8s.io/v1alpha1", "ElasticQuota")):
        document = await client.ok("GET", root["paths"][path]["serverRelativeURL"])
        kinds = [
            known["kind"]
            for schema in document["components"]["schemas"].values()
            for known in schema.get("x-kubernetes-group-version-kind", ())
        ]
        assert kind in kinds
        patches = [each["patch"] for each in document["paths"].values() if "patch" in each]
        assert all(any(p["name"] == "fieldValidation" for p in patch["parameters"]) for patch in patches)
        names = set(document["components"]["schemas"])
        text = json.dumps(document)
        assert {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]} <= names


@pytest.fixture
def kubectl(tmp_path: Path) -> Callable[..., Any]:
    """Run kubectl against a server: exit code and everything that it says."""
    try:
        binary = find_binary("kubectl")
    except KubeMissingError as error:
        pytest.skip(str(error))

    async def run(client: Any, *words: str, stdin: str = "") -> tuple[int, str]:
        environment = {**os.environ, "HOME": str(tmp_path), "KUBECONFIG": ""}
        process = await asyncio.create_subprocess_exec(
            str(binary),
            "--server",
            client.sim.url,
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=environment,
        )
        out, _ = await asyncio.wait_for(process.communicate(stdin.encode()), 60)
        return process.returncode or 0, out.decode()

    return run


async def test_kubectl_as_a_stranger_would_use_it(start: Callable[..., Any], kubectl: Callable[..., Any]) -> None:
    client = await start()
    await client.ok("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}})
    manifest = json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "a"},
            "spec": {"containers": [{"name": "main", "image": "i"}]},
        }
    )

    async def ok(*words: str, stdin: str = "") -> str:
        code, said = await kubectl(client, *words, stdin=stdin)
        assert code == 0, said
        assert "Warning" not in said, said
        return said

    assert await ok("apply", "-f", "-", stdin=manifest) == "pod/a created\n"
    assert await ok("apply", "-f", "-", stdin=manifest) == "pod/a unchanged\n"
    changed = manifest.replace('"name": "a"}', '"name": "a", "labels": {"x": "y"}}')
    assert await ok("apply", "-f", "-", stdin=changed) == "pod/a configured\n"
    assert "NAME" in await ok("get", "po,no", "-o", "wide")
    assert "Pending" in await ok("get", "pods", "-A", "--show-labels")
    assert "x=y" in await ok("describe", "pod", "a")
    await ok("describe", "node", "n1")
    assert "hostPort" in await ok("explain", "pod.spec.containers.ports")
    assert "minMember" in await ok("explain", "podgroup.spec")
    wrong = manifest.replace('"image"', '"imag": "x", "image"')
    code, said = await kubectl(client, "apply", "-f", "-", stdin=wrong)
    assert (code, 'unknown field "spec.containers[0].imag"' in said) == (1, True), said
    assert "pod/a labeled" in await ok("label", "pod", "a", "z=1")
    code, said = await kubectl(client, "create", "namespace", "team")
    assert (code, "kubectl apply -f FILE" in said) == (1, True), said
    everything = json.dumps({"apiVersion": "v1", "kind": "List", "items": [json.loads(manifest)]})
    assert "pod/a" in await ok("apply", "-f", "-", stdin=everything)
    await ok("api-resources")
    code, said = await kubectl(client, "logs", "a")
    assert (code, "no container runs in a simulated cluster" in said) == (1, True), said
    assert "deleted" in await ok("delete", "pod", "a", "--now")
