"""Requests against a scripted server: what is sent, and what each way of failing becomes."""

import asyncio
from typing import Any

import pytest
from prometheus_client import REGISTRY, generate_latest

from berth.contracts.kube import Pod
from berth.kube import DEVICES, EVENTS, NODES, PODS, Answer, KubeConfigError, Listing, Patch

POD = "/api/v1/namespaces/ns/pods/p"


async def test_bind_is_one_call_with_guards_and_annotations(server: Any, connect: Any, replies: Any) -> None:
    server.on("POST", POD + "/binding", replies.json({"kind": "Status", "status": "Success"}, 201))
    kube = await connect(token="t0")
    answer = await kube.bind("ns", "p", uid="u", version="7", node="n1", annotations={"k": "v"})
    assert answer.status == 201
    method, _, _, headers, body = server.asked[0]
    assert method == "POST"
    assert headers["Authorization"] == "Bearer t0"
    assert headers["Content-Type"] == "application/json"
    assert body["metadata"]["resourceVersion"] == "7"
    assert body["metadata"]["annotations"] == {"k": "v"}
    assert body["target"]["name"] == "n1"


@pytest.mark.parametrize("patch", list(Patch))
async def test_patch_types(server: Any, connect: Any, replies: Any, patch: Patch) -> None:
    server.on("PATCH", "/api/v1/nodes/n1/status", replies.json({}))
    kube = await connect()
    body = [{"op": "remove", "path": "/x"}] if patch is Patch.JSON else {"status": {}}
    answer = await kube.patch(
        NODES, "", "n1", body, content_type=patch, subresource="status", field_manager="berth", force=True
    )
    assert answer.ok
    _, _, query, headers, sent = server.asked[0]
    assert headers["Content-Type"] == patch.value
    assert sent == body
    assert query == {"fieldManager": "berth"} | ({"force": "true"} if patch is Patch.APPLY else {})


async def test_evict_delete_replace_create(server: Any, connect: Any, replies: Any) -> None:
    server.on("POST", POD + "/eviction", replies.status(429, "TooManyRequests", "budget", Retry_After="10"))
    server.on("DELETE", POD, replies.json({}))
    server.on("PUT", POD + "/status", replies.json({}))
    server.on("POST", "/api/v1/namespaces/ns/events", replies.json({}, 201))
    kube = await connect()
    evicted = await kube.evict("ns", "p", uid="u")
    assert (evicted.status, evicted.reason, evicted.message, evicted.retry_after_s) == (
        429,
        "TooManyRequests",
        "budget",
        10.0,
    )
    assert (await kube.delete(PODS, "ns", "p", uid="u", version="4")).ok
    assert (await kube.replace(PODS, "ns", "p", b'{"a":1}', subresource="status")).ok
    assert (await kube.create(EVENTS, "ns", {"kind": "Event"})).status == 201
    bodies = [body for *_, body in server.asked]
    assert bodies[0]["deleteOptions"]["preconditions"] == {"uid": "u"}
    assert bodies[1]["preconditions"] == {"uid": "u", "resourceVersion": "4"}
    assert bodies[2] == {"a": 1}


async def test_an_answer_lost_after_the_effect_is_unknown_and_not_repeated(
    server: Any, connect: Any, replies: Any
) -> None:
    effects: list[str] = []
    server.on("POST", POD + "/binding", replies.drop(lambda: effects.append("bound")), replies.status(409, "Conflict"))
    kube = await connect()
    answer = await kube.bind("ns", "p", uid="u", version="7", node="n1", annotations={})
    assert (answer.status, answer.unknown, effects) == (0, True, ["bound"])
    assert answer.reason
    again = await kube.bind("ns", "p", uid="u", version="7", node="n1", annotations={})
    assert again.conflict


async def test_no_change_is_ever_sent_twice(server: Any, connect: Any, replies: Any) -> None:
    effects: list[str] = []
    for method in ("PUT", "DELETE", "PATCH"):
        server.on(method, POD, replies.drop(lambda: effects.append("done")))
    server.on("GET", POD, replies.json({}))
    kube = await connect(connections=1)
    for change in (kube.replace, kube.delete, kube.patch):
        assert (await kube.get(PODS, "ns", "p")).ok  # leaves a connection open, to be used again
        body: tuple[Any, ...] = () if change == kube.delete else ({},)
        assert (await change(PODS, "ns", "p", *body)).status == 0
    assert len(effects) == 3


async def test_a_slow_server_is_a_time_out(server: Any, connect: Any, replies: Any) -> None:
    server.on("GET", POD, replies.hang())
    kube = await connect(timeout_s=0.1)
    assert await kube.get(PODS, "ns", "p") == Answer(0, b"", "Timeout")


async def test_no_server_is_no_answer(server: Any, connect: Any) -> None:
    kube = await connect(url="http://127.0.0.1:1")
    answer = await kube.get(PODS, "ns", "p")
    assert answer.status == 0
    assert "127.0.0.1" in answer.reason


async def test_cancelling_a_request_is_not_an_answer(server: Any, connect: Any, replies: Any) -> None:
    server.on("GET", POD, replies.hang())
    kube = await connect()
    task = asyncio.create_task(kube.get(PODS, "ns", "p"))
    await _until(lambda: server.asked)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(("namespace", "name"), [("ns", "../x"), ("", "p"), ("ns", "")])
async def test_names_that_no_path_can_express_are_refused_here(
    server: Any, connect: Any, namespace: str, name: str
) -> None:
    kube = await connect()
    for answer in (
        await kube.get(PODS, namespace, name),
        await kube.delete(PODS, namespace, name),
        await kube.bind(namespace, name, uid="u", version="1", node="n", annotations={}),
    ):
        assert answer.status == 422
        assert "name" in answer.reason
    assert server.asked == []


async def test_a_body_that_is_no_json_is_refused_here(server: Any, connect: Any) -> None:
    kube = await connect()
    assert (await kube.create(PODS, "ns", {"a": object()})).status == 422
    assert server.asked == []


async def test_a_rotated_token_is_used_after_a_401(server: Any, connect: Any, replies: Any, tmp_path: Any) -> None:
    token = tmp_path / "token"
    token.write_text("old\n")
    server.on("GET", POD, replies.status(401, "Unauthorized"), replies.json({}))
    kube = await connect(token_file=str(token))
    kube._transport._endpoint.credentials._read_at -= 2.0
    token.write_text("new")
    assert (await kube.get(PODS, "ns", "p")).ok
    assert [headers["Authorization"] for *_, headers, _ in server.asked] == ["Bearer old", "Bearer new"]


async def test_a_401_with_the_same_token_is_not_repeated(server: Any, connect: Any, replies: Any) -> None:
    server.on("GET", POD, replies.status(401, "Unauthorized"))
    kube = await connect(token="t")
    assert (await kube.get(PODS, "ns", "p")).status == 401
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"url": "ftp://x"},
        {"url": "http://"},
        {"url": "http://x:99999"},
        {"token_file": "/does/not/exist"},
        {"token": "two\r\nlines"},
    ],
)
async def test_unusable_settings_are_told_at_once(server: Any, connect: Any, settings: dict[str, str]) -> None:
    with pytest.raises(KubeConfigError):
        await connect(**settings)


# --- lists ---------------------------------------------------------------------------------------------------------


async def test_a_list_follows_its_pages(server: Any, connect: Any, replies: Any, make_pod: Any) -> None:
    server.on(
        "GET",
        "/api/v1/namespaces/ns/pods",
        replies.page([make_pod("a", 1), make_pod("b", 2)], 10, "t+1/="),
        replies.page([make_pod("c", 3)], 10),
    )
    kube = await connect()
    listing = await kube.list(PODS, Pod, namespace="ns", label_selector="a=b,c", field_selector="spec.x!=y", limit=2)
    assert isinstance(listing, Listing)
    assert [p.metadata.name for p in listing.items] == ["a", "b", "c"]
    assert (listing.version, listing.malformed) == (10, [])
    first, second = server.queries()
    assert first == {"limit": "2", "labelSelector": "a=b,c", "fieldSelector": "spec.x!=y"}
    assert second == first | {"continue": "t+1/="}


async def test_a_list_starts_over_when_its_moment_expired(
    server: Any, connect: Any, replies: Any, make_pod: Any
) -> None:
    server.on(
        "GET",
        "/api/v1/pods",
        replies.page([make_pod("a", 1)], 10, "t"),
        replies.status(410, "Expired"),
        replies.page([make_pod("b", 2)], 20),
    )
    kube = await connect()
    listing = await kube.list(PODS, Pod)
    assert isinstance(listing, Listing)
    assert [p.metadata.name for p in listing.items] == ["b"]
    assert listing.version == 20
    assert "continue" not in server.queries()[2]


async def test_a_list_that_keeps_expiring_ends_as_an_answer(server: Any, connect: Any, replies: Any) -> None:
    server.on("GET", "/api/v1/pods", replies.status(410, "Expired"))
    kube = await connect()
    answer = await kube.list(PODS, Pod)
    assert isinstance(answer, Answer)
    assert answer.expired
    assert len(server.asked) == 4


async def test_an_empty_list_and_null_items(server: Any, connect: Any, replies: Any) -> None:
    server.on("GET", "/api/v1/pods", replies.json({"metadata": {"resourceVersion": "5"}, "items": None}))
    kube = await connect()
    assert await kube.list(PODS, Pod) == Listing([], 5, [])


@pytest.mark.parametrize("body", [[], {"metadata": {"resourceVersion": "x"}, "items": []}, {"items": 3}])
async def test_something_else_than_a_list(server: Any, connect: Any, replies: Any, body: Any) -> None:
    server.on("GET", "/api/v1/pods", replies.json(body))
    kube = await connect()
    answer = await kube.list(PODS, Pod)
    assert isinstance(answer, Answer)
    assert answer.status == 0


async def test_a_malformed_object_is_reported_beside_the_others(
    server: Any, connect: Any, replies: Any, make_pod: Any
) -> None:
    bad = make_pod("bad", 2, spec={"priority": "high"})
    worse = {"metadata": {"namespace": "ns", "labels": {"a": 1}}}
    server.on("GET", "/api/v1/pods", replies.page([make_pod("a", 1), bad, worse, make_pod("c", 3)], 10))
    kube = await connect()
    listing = await kube.list(PODS, Pod)
    assert isinstance(listing, Listing)
    assert [p.metadata.name for p in listing.items] == ["a", "c"]
    named, nameless = listing.malformed
    assert (named.key, named.uid, named.version, named.field) == ("default/bad", "uid-bad", 2, "spec.priority")
    assert "Expected" in named.message
    assert (nameless.key, nameless.field) == ("", "metadata.name")


async def test_pages_that_are_too_large_are_asked_for_in_smaller_ones(
    server: Any, connect: Any, replies: Any, make_pod: Any
) -> None:
    async def reply(request: Any) -> Any:
        count = int(request.query["limit"])
        start = int(request.query.get("continue", 0))
        names = [make_pod(f"p{i}", i + 1, note="x" * 200) for i in range(start, min(start + count, 40))]
        return await replies.page(names, 50, str(start + count) if start + count < 40 else "")(request)

    server.on("GET", "/api/v1/pods", reply)
    kube = await connect(page_bytes_max=4096)
    listing = await kube.list(PODS, Pod, limit=64)
    assert isinstance(listing, Listing)
    assert [p.metadata.name for p in listing.items] == [f"p{i}" for i in range(40)]


async def test_one_object_larger_than_a_page_may_be_is_an_answer(server: Any, connect: Any, replies: Any) -> None:
    server.on("GET", "/api/v1/pods", replies.json({"items": ["x" * 5000]}))
    kube = await connect(page_bytes_max=4096)
    answer = await kube.list(PODS, Pod)
    assert isinstance(answer, Answer)
    assert answer.reason == "ResponseTooLarge"


async def test_metrics_name_kinds_and_never_objects(server: Any, connect: Any, replies: Any) -> None:
    server.on("GET", "/apis/scheduling.koordinator.sh/v1alpha1/devices/very-special-node", replies.json({}))
    kube = await connect()
    labels = {"verb": "get", "resource": "devices.scheduling.koordinator.sh", "code": "200"}
    before = REGISTRY.get_sample_value("berth_kube_requests_total", labels) or 0.0
    await kube.get(DEVICES, "", "very-special-node")
    assert REGISTRY.get_sample_value("berth_kube_requests_total", labels) == before + 1
    assert b"very-special-node" not in generate_latest()


async def _until(condition: Any, timeout_s: float = 5.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.005)
