"""PUT and all kinds of PATCH: guards, immutable fields, the status subresource, no-ops."""

import pytest

PODS = "/api/v1/namespaces/default/pods"
CONFIG = "/api/v1/namespaces/default/configmaps"
STRATEGIC = "application/strategic-merge-patch+json"
JSON = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


async def test_update_is_guarded_by_version(client):
    pod = await client.pod("a")
    pod["metadata"]["labels"] = {"x": "1"}
    changed = await client.ok("PUT", f"{PODS}/a", pod)
    assert int(changed["metadata"]["resourceVersion"]) > int(pod["metadata"]["resourceVersion"])
    status, answer = await client.call("PUT", f"{PODS}/a", pod)
    assert (status, answer["reason"]) == (409, "Conflict")
    assert "the object has been modified" in answer["message"]
    assert answer["details"] == {"name": "a", "kind": "pods"}


async def test_update_with_another_uid_is_409(client):
    pod = await client.pod("a")
    pod["metadata"]["uid"] = "other"
    status, answer = await client.call("PUT", f"{PODS}/a", pod)
    assert status == 409
    assert "Precondition failed: UID in precondition: other" in answer["message"]


async def test_update_without_version_overwrites_only_where_the_real_one_does(client, new_pod):
    config = {"metadata": {"name": "c"}, "data": {"a": "1"}}
    await client.ok("POST", CONFIG, config)
    config["data"] = {"a": "2"}
    assert (await client.ok("PUT", f"{CONFIG}/c", config))["data"] == {"a": "2"}
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    await client.ok("POST", leases, lease)
    status, answer = await client.call("PUT", f"{leases}/l", lease)
    assert status == 422
    assert "metadata.resourceVersion" in answer["message"]


async def test_put_creates_leases_and_nothing_else(client, new_pod):
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    assert (await client.call("PUT", f"{leases}/l", {"metadata": {"name": "l"}}))[0] == 201
    assert (await client.call("PUT", f"{PODS}/a", new_pod("a")))[0] == 404


async def test_name_and_namespace_must_fit_the_path(client, new_pod):
    await client.pod("a")
    assert (await client.call("PUT", f"{PODS}/a", new_pod("b")))[0] == 400
    assert (await client.call("PUT", f"{PODS}/a", new_pod("a", namespace="kube-system")))[0] == 400
    assert (await client.patch(f"{PODS}/a", {"metadata": {"name": "b"}}))[0] == 400


async def test_a_no_op_keeps_the_version(client):
    pod = await client.pod("a", labels={"x": "1"})
    for body, kind in (
        ({"metadata": {"labels": {"x": "1"}}}, "application/merge-patch+json"),
        ({}, STRATEGIC),
        ([{"op": "replace", "path": "/metadata/labels/x", "value": "1"}], JSON),
    ):
        status, after = await client.patch(f"{PODS}/a", body, kind)
        assert (status, after) == (200, pod)
    assert await client.ok("PUT", f"{PODS}/a", pod) == pod


async def test_patch_preconditions(client):
    pod = await client.pod("a")
    version, uid = pod["metadata"]["resourceVersion"], pod["metadata"]["uid"]
    guarded = {"metadata": {"uid": uid, "resourceVersion": version, "annotations": {"n": "1"}}}
    assert (await client.patch(f"{PODS}/a", guarded))[0] == 200
    status, answer = await client.patch(f"{PODS}/a", guarded)
    assert (status, answer["reason"]) == (409, "Conflict")
    status, answer = await client.patch(f"{PODS}/a", {"metadata": {"uid": "other", "annotations": {"n": "2"}}})
    assert (status, answer["reason"]) == (422, "Invalid")
    assert "metadata.uid" in answer["message"]
    assert (await client.ok("GET", f"{PODS}/a"))["metadata"]["annotations"] == {"n": "1"}


async def test_server_owned_metadata_stays(client):
    pod = await client.pod("a")
    body = {"metadata": {"creationTimestamp": "2000-01-01T00:00:00Z", "deletionTimestamp": "2000-01-01T00:00:00Z"}}
    _, after = await client.patch(f"{PODS}/a", body)
    assert after == pod


async def test_merge_patch_removes_with_null(client):
    await client.pod("a", labels={"x": "1", "y": "2"})
    _, after = await client.patch(f"{PODS}/a", {"metadata": {"labels": {"x": None, "z": "3"}}})
    assert after["metadata"]["labels"] == {"y": "2", "z": "3"}


async def test_strategic_merge_uses_merge_keys(client):
    await client.pod("a")
    for kind, value in (("Ready", "False"), ("PodScheduled", "True"), ("Ready", "True")):
        body = {"status": {"conditions": [{"type": kind, "status": value}]}}
        status, _ = await client.patch(f"{PODS}/a/status", body, STRATEGIC)
        assert status == 200
    pod = await client.ok("GET", f"{PODS}/a")
    assert pod["status"]["conditions"] == [
        {"type": "Ready", "status": "True"},
        {"type": "PodScheduled", "status": "True"},
    ]
    body = {"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}}
    _, pod = await client.patch(f"{PODS}/a/status", body, STRATEGIC)
    assert [each["type"] for each in pod["status"]["conditions"]] == ["PodScheduled"]
    body = {"spec": {"containers": [{"name": "main", "image": "new"}]}}
    _, pod = await client.patch(f"{PODS}/a", body, STRATEGIC)
    assert pod["spec"]["containers"][0] == {
        "name": "main",
        "image": "new",
        "resources": {"requests": {"cpu": "1"}},
    }


async def test_taints_are_atomic_as_upstream(client):
    taint = {"key": "a", "effect": "NoSchedule"}
    await client.ok("POST", "/api/v1/nodes", {"metadata": {"name": "n"}, "spec": {"taints": [taint]}})
    other = {"key": "b", "effect": "NoExecute"}
    _, node = await client.patch("/api/v1/nodes/n", {"spec": {"taints": [other]}}, STRATEGIC)
    assert node["spec"]["taints"] == [other]
    status, answer = await client.patch("/api/v1/nodes/n", {"spec": {"taints": [{"key": "c", "effect": "x"}]}})
    assert status == 422
    assert "spec.taints[0].effect" in answer["message"]


async def test_json_patch(client):
    await client.ok("POST", CONFIG, {"metadata": {"name": "c"}, "data": {"a": "1", "b/c": "2"}})
    operations = [
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "add", "path": "/data/d", "value": "4"},
        {"op": "move", "from": "/data/b~1c", "path": "/data/e"},
        {"op": "copy", "from": "/data/a", "path": "/data/f"},
        {"op": "remove", "path": "/data/a"},
        {"op": "replace", "path": "/data/d", "value": "5"},
    ]
    _, after = await client.patch(f"{CONFIG}/c", operations, JSON)
    assert after["data"] == {"d": "5", "e": "2", "f": "1"}


@pytest.mark.parametrize(
    ("operations", "status"),
    [
        ([{"op": "test", "path": "/data/a", "value": "2"}], 422),
        ([{"op": "remove", "path": "/data/none"}], 422),
        ([{"op": "add", "path": "/none/a", "value": 1}], 422),
        ([{"op": "add", "path": "data"}], 400),
        ([{"op": "spin", "path": "/data"}], 400),
        ([{"op": "add", "path": "/data/x"}], 400),
        ([3], 400),
        ({}, 400),
        ([{"op": "remove", "path": ""}], 400),
        ([{"op": "replace", "path": "/metadata", "value": 3}], 400),
        ([{"op": "test", "path": "/data/a", "value": "1"}] * 10_001, 413),
    ],
)
async def test_json_patches_that_fail(client, operations, status):
    made = await client.ok("POST", CONFIG, {"metadata": {"name": "c"}, "data": {"a": "1"}})
    got, _ = await client.patch(f"{CONFIG}/c", operations, JSON)
    assert got == status
    assert await client.ok("GET", f"{CONFIG}/c") == made


async def test_apply_needs_a_manager_creates_merges_and_removes(client):
    body = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"}}
    status, answer = await client.patch(f"{CONFIG}/c", body, APPLY)
    assert (status, answer["reason"]) == (422, "Invalid")
    assert (await client.patch(f"{CONFIG}/c?fieldManager=me", body, APPLY))[0] == 201
    await client.patch(f"{CONFIG}/c", {"data": {"theirs": "3"}})
    body["data"] = {"b": "2"}
    status, after = await client.patch(f"{CONFIG}/c?fieldManager=me", body, APPLY)
    assert (status, after["data"]) == (200, {"b": "2", "theirs": "3"})
    body["data"] = {"c": "3"}
    status, after = await client.patch(f"{CONFIG}/c?fieldManager=another", body, APPLY)
    assert after["data"] == {"b": "2", "c": "3", "theirs": "3"}
    again, unchanged = await client.patch(f"{CONFIG}/c?fieldManager=another", body, APPLY)
    assert (again, unchanged) == (200, after)


async def test_unknown_patch_types_are_415(client):
    await client.pod("a")
    assert (await client.patch(f"{PODS}/a", {}, "application/json"))[0] == 415
    groups = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/podgroups"
    await client.ok("POST", groups, {"metadata": {"name": "g"}, "spec": {"minMember": 1}})
    assert (await client.patch(f"{groups}/g", {}, STRATEGIC))[0] == 415


async def test_status_and_spec_are_written_apart(client):
    await client.pod("a")
    _, pod = await client.patch(f"{PODS}/a", {"status": {"phase": "Running"}})
    assert pod["status"]["phase"] == "Pending"
    body = {"status": {"phase": "Running"}, "spec": {"nodeName": "n"}, "metadata": {"annotations": {"a": "b"}}}
    _, pod = await client.patch(f"{PODS}/a/status", body)
    assert pod["status"]["phase"] == "Running"
    assert "nodeName" not in pod["spec"]
    assert pod["metadata"]["annotations"] == {"a": "b"}
    assert (await client.ok("GET", f"{PODS}/a/status")) == pod
    assert (await client.call("GET", f"{CONFIG}/c/status"))[0] == 404


async def test_malformed_statuses_are_refused(client):
    await client.pod("a")
    for status_value in ("x", 3, {"conditions": "x"}, {"conditions": ["x"]}):
        got, _ = await client.patch(f"{PODS}/a/status", {"status": status_value})
        assert got == 422, status_value  # malformed in a body, but invalid where a patch has made it


async def test_pod_specs_are_immutable_but_for_a_few_fields(client):
    await client.pod("a", spec={"tolerations": [{"key": "k", "operator": "Exists"}]})
    for spec in ({"nodeName": "n"}, {"schedulerName": "x"}, {"priority": 9}, {"containers": []}, {"tolerations": []}):
        status, answer = await client.patch(f"{PODS}/a", {"spec": spec})
        assert (status, answer["reason"]) == (422, "Invalid"), spec
    assert (await client.patch(f"{PODS}/a", {"spec": None}))[0] == 422
    more = [{"key": "k", "operator": "Exists"}, {"key": "l", "operator": "Exists"}]
    assert (await client.patch(f"{PODS}/a", {"spec": {"tolerations": more}}))[0] == 200


async def test_gates_can_only_be_removed(client):
    await client.pod("a", spec={"schedulingGates": [{"name": "g"}, {"name": "h"}]})
    await client.pod("b")
    assert (await client.patch(f"{PODS}/b", {"spec": {"schedulingGates": [{"name": "g"}]}}))[0] == 422
    _, pod = await client.patch(f"{PODS}/a", {"spec": {"schedulingGates": [{"name": "h"}], "nodeSelector": {"x": "y"}}})
    assert pod["spec"]["schedulingGates"] == [{"name": "h"}]
    assert (await client.patch(f"{PODS}/a", {"spec": {"schedulingGates": []}}))[0] == 200
    assert (await client.patch(f"{PODS}/a", {"spec": {"nodeSelector": {"x": "z"}}}))[0] == 422


async def test_nobody_looks_at_the_uid_beside_the_status_of_a_custom_resource(client):
    """As the API server does: only a version guards such a write."""
    path = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"
    spec = {"template": {"spec": {"containers": []}}, "owners": [{"labelSelector": {"matchLabels": {"a": "b"}}}]}
    kind = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation"}
    await client.ok("POST", path, {**kind, "metadata": {"name": "r"}, "spec": spec})
    body = {"metadata": {"uid": "another"}, "status": {"phase": "Failed"}}
    assert (await client.patch(f"{path}/r/status", body))[0] == 200
    assert (await client.patch(f"{path}/r", {"metadata": {"uid": "another"}}))[0] == 422
    body = {"metadata": {"resourceVersion": "1"}, "status": {"phase": "Failed"}}
    assert (await client.patch(f"{path}/r/status", body))[0] == 409
