"""Creation: names, identity, defaults, admission, refusals."""

import asyncio
import io

PODS = "/api/v1/namespaces/default/pods"


def causes(answer):
    return {cause["field"] for cause in answer["details"]["causes"]}


async def test_created_pod_has_identity_and_defaults(client, new_pod):
    pod = new_pod("a", labels={"app": "x"})
    pod["status"] = {"phase": "Running"}
    pod["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1", "koordinator.sh/gpu-core": "50"}}
    status, made = await client.call("POST", PODS, pod)
    assert status == 201
    assert (made["apiVersion"], made["kind"]) == ("v1", "Pod")
    meta = made["metadata"]
    assert len(meta["uid"]) == 36
    assert meta["creationTimestamp"].endswith("Z")
    assert int(meta["resourceVersion"]) == client.sim.store.version
    assert made["status"] == {"phase": "Pending", "qosClass": "Burstable"}
    assert made["spec"]["schedulerName"] == "default-scheduler"
    assert made["spec"]["priority"] == 0
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1", "koordinator.sh/gpu-core": "50"}


async def test_uids_and_versions_differ_between_objects(client):
    first, second = await client.pod("a"), await client.pod("b")
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    assert int(first["metadata"]["resourceVersion"]) < int(second["metadata"]["resourceVersion"])


async def test_a_taken_name_is_409(client, new_pod):
    await client.pod("a")
    status, answer = await client.call("POST", PODS, new_pod("a"))
    assert status == 409
    assert answer["reason"] == "AlreadyExists"
    assert answer["message"] == 'pods "a" already exists'
    assert answer["details"] == {"name": "a", "kind": "pods"}


async def test_generate_name(client, new_pod):
    pod = new_pod("")
    pod["metadata"] = {"generateName": "job-"}
    names = {(await client.ok("POST", PODS, pod))["metadata"]["name"] for _ in range(20)}
    assert len(names) == 20
    assert all(name.startswith("job-") and len(name) == 9 for name in names)


async def test_concurrent_creates_of_one_name_have_one_winner(client, new_pod):
    answers = await asyncio.gather(*(client.call("POST", PODS, new_pod("a")) for _ in range(10)))
    assert sorted(status for status, _ in answers) == [201] + [409] * 9


async def test_missing_namespace_is_404(client, new_pod):
    status, answer = await client.call("POST", "/api/v1/namespaces/nowhere/pods", new_pod("a"))
    assert status == 404
    assert answer["message"] == 'namespaces "nowhere" not found'


async def test_malformed_bodies_are_400(client, new_pod):
    for body in (b"{", b"[]", b"\xff\xfe", b"3", b'{"metadata": 3}', b'{"kind":"Node"}', b'{"apiVersion":"v2"}'):
        status, answer = await client.call("POST", PODS, body)
        assert (status, answer["kind"]) == (400, "Status"), body
    status, _ = await client.call("POST", PODS, new_pod("a", namespace="other"))
    assert status == 400
    status, _ = await client.call("POST", PODS, new_pod("a", resourceVersion="7"))
    assert status == 400


async def test_deep_nesting_is_refused_not_fatal(client):
    status, answer = await client.call("POST", PODS, b'{"spec":' + b"[" * 100_000 + b"]" * 100_000 + b"}")
    assert (status, answer["reason"]) == (400, "BadRequest")


async def test_too_large_is_413(client):
    body = io.BytesIO(b'{"a":"' + b"x" * (4 << 20) + b'"}')
    async with client.session.post(PODS, data=body) as response:
        assert response.status == 413
        assert (await response.json())["reason"] == "RequestEntityTooLarge"


async def test_invalid_fields_are_422_and_named(client, new_pod):
    cases = [
        (new_pod("Upper"), "metadata.name"),
        (new_pod(""), "metadata.name"),
        (new_pod("a", labels={"-": "x"}), "metadata.labels"),
        (new_pod("a", labels={"a": "x y"}), "metadata.labels"),
        (new_pod("a", annotations={"a": "x" * 300_000}), "metadata.annotations"),
        ({"metadata": {"name": "a"}}, "spec.containers"),
        (new_pod("a", spec={"containers": []}), "spec.containers"),
        (new_pod("a", spec={"containers": [{"image": "i"}]}), "spec.containers[0].name"),
        (new_pod("a", spec={"containers": [{"name": "m"}, {"name": "m"}]}), "spec.containers[1].name"),
        (new_pod("a", spec={"terminationGracePeriodSeconds": -1}), "spec.terminationGracePeriodSeconds"),
        (new_pod("a", spec={"nodeName": "n", "schedulingGates": [{"name": "g"}]}), "spec.nodeName"),
    ]
    for body, field in cases:
        status, answer = await client.call("POST", PODS, body)
        assert (status, answer["reason"]) == (422, "Invalid"), (field, answer)
        assert field in causes(answer)
        assert field in answer["message"]


async def test_wrong_types_are_400_and_the_place_is_named(client, new_pod):
    cases = [
        (new_pod("a", annotations={"a": 3}), "$.metadata.annotations"),
        (new_pod("a", labels=[]), "$.metadata.labels"),
        (new_pod("a", spec={"tolerations": "all"}), "$.spec.tolerations"),
        (new_pod("a", spec={"containers": [{"name": 3}]}), "$.spec.containers[0].name"),
        (new_pod("a", spec={"nodeName": 3}), "$.spec.nodeName"),
    ]
    for body, place in cases:
        status, answer = await client.call("POST", PODS, body)
        assert (status, answer["reason"]) == (400, "BadRequest")
        assert place in answer["message"]


async def test_amounts_must_be_quantities(client, new_pod):
    for value in ("lots", "NaN", "1e", [], True):
        pod = new_pod("a")
        pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": value}}
        status, answer = await client.call("POST", PODS, pod)
        assert status == 400, value
        assert "$.spec.containers[0].resources.requests" in answer["message"]
    for value in ("-1", "9" * 100):
        pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": value}}
        status, answer = await client.call("POST", PODS, pod)
        assert status == 422, value
        assert "spec.containers[0].resources.requests[cpu]" in causes(answer)


async def test_extended_resources_need_equal_limits(client, new_pod):
    pod = new_pod("a")
    pod["spec"]["containers"][0]["resources"] = {"requests": {"koordinator.sh/gpu-core": "50"}}
    status, answer = await client.call("POST", PODS, pod)
    assert status == 422
    assert "non overcommitable" in answer["message"]


async def test_scheduling_gates_show_as_a_condition(client):
    pod = await client.pod("a", spec={"schedulingGates": [{"name": "g"}]})
    (condition,) = pod["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "SchedulingGated")


async def test_priority_comes_from_the_class(client, new_pod):
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    await client.ok("POST", classes, {"metadata": {"name": "koord-prod"}, "value": 9000})
    pod = await client.pod("a", spec={"priorityClassName": "koord-prod"})
    assert (pod["spec"]["priority"], pod["spec"]["preemptionPolicy"]) == (9000, "PreemptLowerPriority")
    pod = await client.pod("b", spec={"priorityClassName": "system-node-critical"})
    assert pod["spec"]["priority"] == 2_000_001_000
    status, answer = await client.call("POST", PODS, new_pod("c", spec={"priorityClassName": "none"}))
    assert (status, answer["reason"]) == (403, "Forbidden")
    status, answer = await client.call("POST", PODS, new_pod("c", spec={"priority": 5}))
    assert status == 403
    await client.ok("POST", classes, {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True})
    assert (await client.pod("d"))["spec"]["priority"] == 7


async def test_priority_class_values_are_bounded_and_fixed(client):
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    for value, expected in ((2_000_000_000, 422), (1 << 40, 400), ("high", 400), (True, 400)):
        status, answer = await client.call("POST", classes, {"metadata": {"name": "x"}, "value": value})
        assert status == expected
        assert "value" in answer["message"]
    await client.ok("POST", classes, {"metadata": {"name": "x"}, "value": 1})
    status, _ = await client.patch(f"{classes}/x", {"value": 2})
    assert status == 422


async def test_nodes_keep_the_status_they_are_created_with(client):
    node = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4"}}}
    assert (await client.ok("POST", "/api/v1/nodes", node))["status"] == node["status"]
    node = {"metadata": {"name": "m"}, "status": {"allocatable": {"cpu": "four"}}}
    status, answer = await client.call("POST", "/api/v1/nodes", node)
    assert status == 400
    assert "$.status.allocatable" in answer["message"]


async def test_dry_run_changes_nothing(client, new_pod):
    before = client.sim.store.version
    status, made = await client.call("POST", f"{PODS}?dryRun=All", new_pod("a"))
    assert (status, made["metadata"]["name"]) == (201, "a")
    assert client.sim.store.version == before
    assert (await client.call("GET", f"{PODS}/a"))[0] == 404


async def test_both_faces_of_events(client):
    event = {
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "name": "p"},
        "note": "hello",
        "reason": "Scheduled",
        "reportingController": "berth",
    }
    new = await client.ok("POST", "/apis/events.k8s.io/v1/namespaces/default/events", event)
    assert (new["apiVersion"], new["note"]) == ("events.k8s.io/v1", "hello")
    core = await client.ok("GET", "/api/v1/namespaces/default/events/e")
    assert (core["apiVersion"], core["message"], core["involvedObject"]["name"]) == ("v1", "hello", "p")
    found = await client.ok("GET", "/api/v1/events?fieldSelector=involvedObject.name=p,reason=Scheduled")
    assert len(found["items"]) == 1
    assert len((await client.ok("GET", "/apis/events.k8s.io/v1/events"))["items"]) == 1


async def test_unknown_resources_and_methods(client):
    for path in ("/api/v1/widgets", "/apis/x.y/v1/zs", "/api/v2/pods", "/nothing", f"{PODS}/a/foo", "/api/v1/pods/a"):
        status, answer = await client.call("GET", path)
        assert (status, answer["reason"]) == (404, "NotFound"), path
    assert (await client.call("POST", "/api/v1/pods", {}))[0] == 405
    assert (await client.call("POST", f"{PODS}/a", {}))[0] == 405
    assert (await client.call("OPTIONS", PODS))[0] == 405


async def test_what_a_node_has_is_allocatable_unless_it_says_less(client):
    def node(name, **status):
        return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}

    made = await client.ok("POST", "/api/v1/nodes", node("a", capacity={"cpu": "4"}))
    assert made["status"]["allocatable"] == {"cpu": "4"}
    made = await client.ok("POST", "/api/v1/nodes", node("b", capacity={"cpu": "4"}, allocatable={"cpu": "3"}))
    assert made["status"]["allocatable"] == {"cpu": "3"}


async def test_an_event_lives_beside_what_it_is_about(client):
    events = "/api/v1/namespaces/default/events"
    about = {"kind": "Pod", "name": "p"}
    for namespace, expected in (("default", 201), ("", 201), ("other", 422)):
        body = {"metadata": {"generateName": "e"}, "involvedObject": {**about, "namespace": namespace}}
        assert (await client.call("POST", events, body))[0] == expected, namespace


async def test_a_lease_makes_sense(client):
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}}
    for spec, expected in (
        ({"leaseDurationSeconds": 0}, 422),
        ({"leaseTransitions": -1}, 422),
        ({"renewTime": "yesterday"}, 400),
        ({"renewTime": "2026-01-02T03:04:05.678901Z", "leaseDurationSeconds": 6}, 201),
    ):
        assert (await client.call("POST", leases, {**lease, "spec": spec}))[0] == expected, spec
    status, answer = await client.patch(f"{leases}/l", {"spec": {"renewTime": "yesterday"}})
    assert (status, answer["reason"]) == (422, "Invalid")
