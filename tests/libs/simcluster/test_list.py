"""Lists: selectors, pages of one moment, versions."""

import base64

import pytest

PODS = "/api/v1/namespaces/default/pods"


def names(answer):
    return [item["metadata"]["name"] for item in answer["items"]]


@pytest.fixture
async def filled(client):
    await client.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "other"}})
    for name, labels in (("a", {"app": "x"}), ("b", {"app": "y", "tier": "1"}), ("c", {})):
        await client.pod(name, labels=labels)
    await client.bind("b", "n1")
    pod = {
        "metadata": {"name": "d"},
        "spec": {"schedulerName": "berth-scheduler", "containers": [{"name": "m", "image": "i"}]},
    }
    await client.ok("POST", "/api/v1/namespaces/other/pods", pod)
    return client


async def test_list_shape_and_scope(filled):
    answer = await filled.ok("GET", PODS)
    assert (answer["kind"], answer["apiVersion"]) == ("PodList", "v1")
    assert int(answer["metadata"]["resourceVersion"]) == filled.sim.store.version
    assert names(answer) == ["a", "b", "c"]
    assert names(await filled.ok("GET", "/api/v1/pods")) == ["a", "b", "c", "d"]
    assert names(await filled.ok("GET", "/api/v1/namespaces/none/pods")) == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("labelSelector=app%3Dx", "a"),
        ("labelSelector=app==x", "a"),
        ("labelSelector=app!%3Dx", "bcd"),
        ("labelSelector=app", "ab"),
        ("labelSelector=!app", "cd"),
        ("labelSelector=app+in+(x,y)", "ab"),
        ("labelSelector=app+notin+(x),tier", "b"),
        ("labelSelector=app+in+(x,+y),tier%3D1", "b"),
        ("fieldSelector=metadata.name%3Dc", "c"),
        ("fieldSelector=metadata.namespace%3Dother", "d"),
        ("fieldSelector=spec.nodeName%3Dn1", "b"),
        ("fieldSelector=spec.nodeName%3D", "acd"),
        ("fieldSelector=spec.nodeName!%3Dn1", "acd"),
        ("fieldSelector=spec.schedulerName%3Dberth-scheduler", "d"),
        ("fieldSelector=status.phase%3DPending,spec.nodeName%3D,metadata.namespace%3Ddefault", "ac"),
        ("labelSelector=app&fieldSelector=spec.nodeName%3Dn1", "b"),
    ],
)
async def test_selectors(filled, query, expected):
    assert "".join(names(await filled.ok("GET", f"/api/v1/pods?{query}"))) == expected


@pytest.mark.parametrize(
    "query",
    [
        "labelSelector=a%3Db%3Dc",
        "labelSelector=(x)",
        "labelSelector=a+in+x",
        "fieldSelector=spec.color%3Dred",
        "fieldSelector=what",
        "limit=x",
        "resourceVersion=abc",
        "continue=%25%25",
        "continue=AAAA",
        "&".join(f"a{number}=1" for number in range(60)),
    ],
)
async def test_malformed_queries_are_400(filled, query):
    status, answer = await filled.call("GET", f"/api/v1/pods?{query}")
    assert (status, answer["reason"]) == (400, "BadRequest")


async def test_a_negative_limit_is_none(filled):
    assert names(await filled.ok("GET", "/api/v1/pods?limit=-1")) == names(await filled.ok("GET", "/api/v1/pods"))


@pytest.mark.parametrize(
    "query",
    ["resourceVersionMatch=Exact", "resourceVersionMatch=Exact&resourceVersion=0", "resourceVersionMatch=Often"],
)
async def test_a_match_of_versions_that_makes_no_sense_is_422(filled, query):
    status, answer = await filled.call("GET", f"/api/v1/pods?{query}")
    assert (status, answer["reason"]) == (422, "Invalid")
    assert answer["details"]["causes"][0]["field"] == "resourceVersionMatch"


async def test_pages_show_one_moment(client):
    for number in range(10):
        await client.pod(f"p{number}")
    page = await client.ok("GET", f"{PODS}?limit=3")
    version = page["metadata"]["resourceVersion"]
    assert page["metadata"]["remainingItemCount"] == 7
    seen = names(page)
    await client.ok("DELETE", f"{PODS}/p5")
    await client.pod("p55")
    await client.bind("p7")
    while "continue" in page["metadata"]:
        page = await client.ok("GET", f"{PODS}?limit=3&continue={page['metadata']['continue']}")
        assert page["metadata"]["resourceVersion"] == version
        assert all("nodeName" not in item["spec"] for item in page["items"])
        seen += names(page)
    assert seen == [f"p{number}" for number in range(10)]


async def test_old_pages_expire(start):
    client = await start(history=4)
    for number in range(5):
        await client.pod(f"p{number}")
    page = await client.ok("GET", f"{PODS}?limit=2")
    for number in range(10):
        await client.patch(f"{PODS}/p0", {"metadata": {"labels": {"n": str(number)}}})
    status, answer = await client.call("GET", f"{PODS}?limit=2&continue={page['metadata']['continue']}")
    assert (status, answer["reason"]) == (410, "Expired")


async def test_versions(filled):
    now = filled.sim.store.version
    assert names(await filled.ok("GET", f"{PODS}?resourceVersion=0")) == ["a", "b", "c"]
    assert names(await filled.ok("GET", f"{PODS}?resourceVersion={now}")) == ["a", "b", "c"]
    status, answer = await filled.call("GET", f"{PODS}?resourceVersion={now + 1}")
    assert status == 504
    assert answer["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    await filled.ok("DELETE", f"{PODS}/a")
    then = await filled.ok("GET", f"{PODS}?resourceVersion={now}&resourceVersionMatch=Exact")
    assert names(then) == ["a", "b", "c"]
    assert (await filled.call("GET", f"{PODS}?resourceVersion=1&resourceVersionMatch=Exact"))[0] == 410


async def test_a_forged_token_is_harmless(filled):
    token = base64.urlsafe_b64encode(b'{"v":999999999999999999,"k":"zzz"}').decode()
    assert names(await filled.ok("GET", f"{PODS}?continue={token}")) == []


async def test_discovery(client):
    assert (await client.ok("GET", "/version"))["major"] == "1"
    assert (await client.ok("GET", "/api"))["versions"] == ["v1"]
    core = await client.ok("GET", "/api/v1")
    assert {"pods", "pods/binding", "pods/eviction", "pods/status", "nodes"} <= {r["name"] for r in core["resources"]}
    groups = {group["name"] for group in (await client.ok("GET", "/apis"))["groups"]}
    assert {"policy", "events.k8s.io", "scheduling.koordinator.sh", "apiextensions.k8s.io"} <= groups
    found = await client.ok("GET", "/apis/scheduling.koordinator.sh/v1alpha1")
    assert "devices" in {r["name"] for r in found["resources"]}
    assert (await client.call("GET", "/apis/none"))[0] == 404
    async with client.session.get("/readyz") as response:
        assert await response.text() == "ok"
