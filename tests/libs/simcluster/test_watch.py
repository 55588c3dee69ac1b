"""Watches: from a version, from nothing, with selectors; bookmarks, expiry, ends."""

import asyncio

import pytest

PODS = "/api/v1/namespaces/default/pods"


async def test_changes_after_a_version_in_order(client):
    first = await client.pod("a")
    version = first["metadata"]["resourceVersion"]
    await client.pod("b")
    async with client.watch(f"{PODS}?watch=1&resourceVersion={version}") as watch:
        assert await watch.change() == ("ADDED", "b")
        await client.bind("a")
        assert await watch.change() == ("MODIFIED", "a")
        await client.ok("DELETE", f"{PODS}/b")
        event = await watch.next()
        assert (event["type"], event["object"]["metadata"]["name"]) == ("DELETED", "b")
        assert int(event["object"]["metadata"]["resourceVersion"]) == client.sim.store.version


async def test_without_version_begins_with_what_is_there(client):
    await client.pod("a")
    await client.pod("b")
    for query in ("", "&resourceVersion=0"):
        async with client.watch(f"{PODS}?watch=true{query}") as watch:
            assert await watch.change() == ("ADDED", "a")
            assert await watch.change() == ("ADDED", "b")


async def test_all_watchers_get_the_same_object(client):
    async with client.watch("/api/v1/pods?watch=1") as one, client.watch(f"{PODS}?watch=1") as two:
        pod = await client.pod("a")
        assert (await one.next())["object"] == (await two.next())["object"] == pod


async def test_namespaces_are_kept_apart(client, new_pod):
    version = client.sim.store.version
    async with client.watch(f"/api/v1/namespaces/kube-system/pods?watch=1&resourceVersion={version}") as watch:
        await client.pod("a")
        await client.ok("POST", "/api/v1/namespaces/kube-system/pods", new_pod("b"))
        assert await watch.change() == ("ADDED", "b")


async def test_selectors_turn_changes_into_added_and_deleted(client):
    version = client.sim.store.version
    path = f"{PODS}?watch=1&resourceVersion={version}&fieldSelector=spec.nodeName%3D"
    async with client.watch(path) as unbound, client.watch(path.replace("%3D", "!%3D")) as bound:
        await client.pod("a", labels={"x": "1"})
        assert await unbound.change() == ("ADDED", "a")
        await client.bind("a")
        event = await unbound.next()
        assert event["type"] == "DELETED"
        assert "nodeName" not in event["object"]["spec"]
        assert int(event["object"]["metadata"]["resourceVersion"]) == client.sim.store.version
        event = await bound.next()
        assert (event["type"], event["object"]["spec"]["nodeName"]) == ("ADDED", "n1")
        await client.patch(f"{PODS}/a", {"metadata": {"labels": {"x": "2"}}})
        assert await bound.change() == ("MODIFIED", "a")
        await client.ok("DELETE", f"{PODS}/a?gracePeriodSeconds=0")
        assert await bound.change() == ("DELETED", "a")


async def test_one_object(client):
    await client.pod("a")
    await client.pod("b")
    async with client.watch(f"{PODS}/b?watch=1") as watch:
        assert await watch.change() == ("ADDED", "b")
        await client.bind("a")
        await client.bind("b")
        assert await watch.change() == ("MODIFIED", "b")


async def test_bookmarks_only_for_those_who_ask(start):
    client = await start(bookmark_s=0.05)
    await client.pod("a")
    version = client.sim.store.version
    async with (
        client.watch(f"/api/v1/nodes?watch=1&resourceVersion={version}&allowWatchBookmarks=true") as asked,
        client.watch(f"/api/v1/nodes?watch=1&resourceVersion={version}") as other,
    ):
        event = await asked.next()
        assert event["type"] == "BOOKMARK"
        assert event["object"]["kind"] == "Node"
        assert int(event["object"]["metadata"]["resourceVersion"]) >= version
        await client.ok("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})
        assert (await other.next())["type"] == "ADDED"


async def test_initial_events_end_with_a_bookmark(client):
    await client.pod("a")
    path = f"{PODS}?watch=1&allowWatchBookmarks=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    async with client.watch(path) as watch:
        assert await watch.change() == ("ADDED", "a")
        event = await watch.next()
        assert event["type"] == "BOOKMARK"
        assert event["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert (await client.call("GET", f"{PODS}?watch=1&sendInitialEvents=true"))[0] == 400


@pytest.mark.parametrize("ahead", [0, 10])
async def test_forgotten_and_future_versions_are_410(start, ahead):
    client = await start(history=2)
    for number in range(10):
        await client.pod(f"p{number}")
    version = client.sim.store.version + ahead if ahead else client.sim.store.version - 9
    async with client.watch(f"{PODS}?watch=1&resourceVersion={version}") as watch:
        event = await watch.next()
        assert event["type"] == "ERROR"
        assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
        assert await watch.next() is None


async def test_restart_never_goes_back(start):
    first = await start()
    await first.pod("a")
    second = await start(first_version=first.sim.store.version + 1)
    async with second.watch(f"{PODS}?watch=1&resourceVersion={first.sim.store.version}") as watch:
        assert (await watch.next())["object"]["code"] == 410


async def test_timeout_ends_a_watch_cleanly(client, eventually):
    version = client.sim.store.version
    async with client.watch(f"{PODS}?watch=1&resourceVersion={version}&timeoutSeconds=1") as watch:
        assert await watch.next() is None
    await eventually(lambda: len(client.sim.hub) == 0)


async def test_a_client_that_goes_is_forgotten(client, eventually):
    async with client.watch(f"{PODS}?watch=1"):
        await eventually(lambda: len(client.sim.hub) == 1)
    await eventually(lambda: len(client.sim.hub) == 0)


async def test_many_changes_arrive_complete_and_ordered(client):
    version = client.sim.store.version
    async with client.watch(f"{PODS}?watch=1&resourceVersion={version}") as watch:
        await asyncio.gather(*(client.pod(f"p{number:03d}") for number in range(200)))
        versions, seen = [], set()
        for _ in range(200):
            event = await watch.next()
            versions.append(int(event["object"]["metadata"]["resourceVersion"]))
            seen.add(event["object"]["metadata"]["name"])
        assert versions == sorted(set(versions))
        assert len(seen) == 200


async def test_bad_watches_are_refused_before_they_begin(client):
    assert (await client.call("GET", f"{PODS}?watch=1&resourceVersion=x"))[0] == 400
    assert (await client.call("GET", f"{PODS}?watch=1&fieldSelector=a%3Db"))[0] == 400
    assert (await client.call("GET", "/api/v1/widgets?watch=1"))[0] == 404
    assert len(client.sim.hub) == 0
