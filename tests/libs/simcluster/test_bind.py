"""Binding: one atomic call with preconditions."""

import asyncio

PODS = "/api/v1/namespaces/default/pods"


async def test_bind_sets_node_annotations_and_condition_in_one_version(client):
    pod = await client.pod("a", annotations={"old": "1", "kept": "1"})
    before = client.sim.store.version
    status, answer = await client.bind(
        "a",
        uid=pod["metadata"]["uid"],
        resourceVersion=pod["metadata"]["resourceVersion"],
        annotations={"old": "2", "new": "3"},
        labels={"ignored": "yes"},
    )
    assert (status, answer["status"], answer["code"]) == (201, "Success", 201)
    assert client.sim.store.version == before + 1
    after = await client.ok("GET", f"{PODS}/a")
    assert after["spec"]["nodeName"] == "n1"
    assert after["metadata"]["annotations"] == {"old": "2", "kept": "1", "new": "3"}
    assert "labels" not in after["metadata"]
    (condition,) = after["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")


async def test_a_bound_pod_is_409(client):
    await client.pod("a")
    await client.bind("a", "n1")
    status, answer = await client.bind("a", "n1")
    assert (status, answer["reason"]) == (409, "Conflict")
    assert answer["message"] == (
        'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n1"'
    )
    assert answer["details"] == {"name": "a", "kind": "pods/binding"}


async def test_preconditions_are_409_with_both_values(client):
    pod = await client.pod("a")
    uid, version = pod["metadata"]["uid"], pod["metadata"]["resourceVersion"]
    status, answer = await client.bind("a", uid="other")
    assert status == 409
    assert f"UID in precondition: other, UID in object meta: {uid}" in answer["message"]
    await client.patch(f"{PODS}/a", {"metadata": {"annotations": {"attempt": "1"}}})
    status, answer = await client.bind("a", uid=uid, resourceVersion=version)
    assert status == 409
    assert f"ResourceVersion in precondition: {version}, ResourceVersion in object meta:" in answer["message"]
    assert "nodeName" not in (await client.ok("GET", f"{PODS}/a"))["spec"]


async def test_missing_gated_and_dying_pods(client):
    status, answer = await client.bind("none")
    assert (status, answer["message"]) == (404, 'pods "none" not found')
    await client.pod("gated", spec={"schedulingGates": [{"name": "g"}]})
    status, answer = await client.bind("gated")
    assert status == 409
    assert "non-empty .spec.schedulingGates" in answer["message"]
    await client.pod("dying", finalizers=["a.b/c"])
    await client.ok("DELETE", f"{PODS}/dying")
    status, answer = await client.bind("dying")
    assert status == 409
    assert "is being deleted, cannot be assigned to a host" in answer["message"]


async def test_malformed_bindings(client):
    await client.pod("a")
    path = f"{PODS}/a/binding"
    # What is wrong with a target is a plain error of the API server, not a refusal that names a reason.
    status, answer = await client.call("POST", path, {"target": {}})
    assert (status, answer.get("reason"), answer["message"]) == (500, None, "target.name: Required value")
    assert (await client.call("POST", path, {"target": {"name": 3}}))[0] == 400
    assert (await client.call("POST", path, {"target": {"kind": "Pod", "name": "n"}}))[0] == 500
    assert (await client.call("POST", path, {"metadata": {"name": "b"}, "target": {"name": "n"}}))[0] == 400
    assert (await client.call("POST", path, {"metadata": 3, "target": {"name": "n"}}))[0] == 400
    bad = {"metadata": {"annotations": {"a": 3}}, "target": {"name": "n"}}
    assert (await client.call("POST", path, bad))[0] == 400
    assert (await client.call("GET", path))[0] == 404


async def test_the_older_path_binds_too(client):
    await client.pod("a")
    body = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n9"}}
    assert (await client.call("POST", "/api/v1/namespaces/default/bindings", body))[0] == 201
    assert (await client.ok("GET", f"{PODS}/a"))["spec"]["nodeName"] == "n9"


async def test_concurrent_binds_have_one_winner(client):
    await client.pod("a")
    answers = await asyncio.gather(*(client.bind("a", f"n{number}") for number in range(20)))
    assert sorted(status for status, _ in answers) == [201] + [409] * 19
