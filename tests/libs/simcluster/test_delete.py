"""Delete: grace, finalizers, preconditions, collections, namespaces; evictions under budgets."""

import pytest

PODS = "/api/v1/namespaces/default/pods"
PDBS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


async def test_unbound_and_ended_pods_go_at_once(client):
    await client.pod("a")
    answer = await client.ok("DELETE", f"{PODS}/a")
    assert answer["kind"] == "Pod"
    assert (await client.call("GET", f"{PODS}/a"))[0] == 404
    await client.pod("b")
    await client.bind("b")
    await client.patch(f"{PODS}/b/status", {"status": {"phase": "Succeeded"}})
    await client.ok("DELETE", f"{PODS}/b")
    assert (await client.call("GET", f"{PODS}/b"))[0] == 404


async def test_bound_pods_end_gracefully(client):
    await client.pod("a")
    await client.bind("a")
    pod = await client.ok("DELETE", f"{PODS}/a")
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
    assert pod["metadata"]["deletionTimestamp"]
    again = await client.ok("DELETE", f"{PODS}/a?gracePeriodSeconds=60")
    assert again == pod
    shorter = await client.ok("DELETE", f"{PODS}/a?gracePeriodSeconds=5")
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 5
    await client.ok("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0})
    assert (await client.call("GET", f"{PODS}/a"))[0] == 404


async def test_preconditions(client):
    pod = await client.pod("a")
    status, answer = await client.call("DELETE", f"{PODS}/a", {"preconditions": {"uid": "other"}})
    assert (status, answer["reason"]) == (409, "Conflict")
    status, _ = await client.call("DELETE", f"{PODS}/a", {"preconditions": {"resourceVersion": "1"}})
    assert status == 409
    exact = {"uid": pod["metadata"]["uid"], "resourceVersion": pod["metadata"]["resourceVersion"]}
    assert (await client.call("DELETE", f"{PODS}/a", {"preconditions": exact}))[0] == 200


@pytest.mark.parametrize(("grace", "status"), [(10**12, 422), ("x", 400), (True, 400)])
async def test_absurd_grace_is_refused(client, grace, status):
    await client.pod("a")
    assert (await client.call("DELETE", f"{PODS}/a", {"gracePeriodSeconds": grace}))[0] == status
    assert (await client.call("DELETE", f"{PODS}/a?gracePeriodSeconds=x"))[0] == 422


async def test_a_negative_grace_is_the_shortest(client):
    await client.pod("a")
    await client.bind("a")
    marked = await client.ok("DELETE", f"{PODS}/a", {"gracePeriodSeconds": -1})
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 1


async def test_finalizers_hold_an_object(client):
    nodes = "/api/v1/nodes"
    await client.ok("POST", nodes, {"metadata": {"name": "n", "finalizers": ["a.b/c", "d.e/f"]}})
    answer = await client.ok("DELETE", f"{nodes}/n")
    assert answer["metadata"]["deletionTimestamp"]
    await client.patch(f"{nodes}/n", {"metadata": {"finalizers": ["d.e/f"]}})
    assert (await client.call("GET", f"{nodes}/n"))[0] == 200
    await client.patch(f"{nodes}/n", {"metadata": {"finalizers": None}})
    assert (await client.call("GET", f"{nodes}/n"))[0] == 404


async def test_other_kinds_answer_with_a_status(client):
    made = await client.ok("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})
    answer = await client.ok("DELETE", "/api/v1/nodes/n")
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    assert answer["details"] == {"name": "n", "kind": "nodes", "uid": made["metadata"]["uid"]}
    assert (await client.call("DELETE", "/api/v1/nodes/n"))[0] == 404


async def test_delete_collection(client):
    for name, app in (("a", "x"), ("b", "x"), ("c", "y")):
        await client.pod(name, labels={"app": app})
    answer = await client.ok("DELETE", f"{PODS}?labelSelector=app%3Dx")
    assert [pod["metadata"]["name"] for pod in answer["items"]] == ["a", "b"]
    left = await client.ok("GET", PODS)
    assert [pod["metadata"]["name"] for pod in left["items"]] == ["c"]
    assert (await client.call("DELETE", "/api/v1/pods"))[0] == 405


async def test_a_namespace_takes_its_objects_along(client, new_pod):
    await client.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
    await client.ok("POST", "/api/v1/namespaces/team/pods", new_pod("a"))
    await client.ok("DELETE", "/api/v1/namespaces/team")
    assert (await client.call("GET", "/api/v1/namespaces/team/pods/a"))[0] == 404
    assert (await client.call("GET", "/api/v1/namespaces/team"))[0] == 404
    assert (await client.call("DELETE", "/api/v1/namespaces/default"))[0] == 403


async def running(client, *names, ready="True"):
    for name in names:
        await client.pod(name, labels={"app": "x"})
        await client.bind(name)
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}
        await client.patch(f"{PODS}/{name}/status", {"status": status})


async def evict(client, name, **options):
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    if options:
        body["deleteOptions"] = options
    return await client.call("POST", f"{PODS}/{name}/eviction", body)


async def pdb(client, name="p", **spec):
    body = {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": "x"}}, **spec}}
    return await client.ok("POST", PDBS, body)


async def test_evict_without_budget(client):
    await running(client, "a")
    status, answer = await evict(client, "a")
    assert (status, answer["status"]) == (201, "Success")
    assert (await client.ok("GET", f"{PODS}/a"))["metadata"]["deletionTimestamp"]
    assert (await evict(client, "none"))[0] == 404


async def test_evict_uid_precondition(client):
    await running(client, "a")
    await running(client, "b")
    await pdb(client, minAvailable=0)
    status, answer = await evict(client, "a", preconditions={"uid": "other"})
    assert (status, answer["reason"]) == (409, "Conflict")
    uid = (await client.ok("GET", f"{PODS}/a"))["metadata"]["uid"]
    assert (await evict(client, "a", gracePeriodSeconds=0, preconditions={"uid": uid}))[0] == 201
    assert (await client.call("GET", f"{PODS}/a"))[0] == 404


@pytest.mark.parametrize(
    ("spec", "pods", "allowed"),
    [
        ({"minAvailable": 2}, 4, 2),
        ({"minAvailable": "50%"}, 3, 1),
        ({"minAvailable": "100%"}, 3, 0),
        ({"maxUnavailable": 1}, 3, 1),
        ({"maxUnavailable": "30%"}, 4, 2),
        ({"maxUnavailable": 0}, 2, 0),
        ({"maxUnavailable": 10}, 2, 2),
    ],
)
async def test_budgets_allow_exactly_so_many(client, spec, pods, allowed):
    names = [f"p{number}" for number in range(pods)]
    await running(client, *names)
    await pdb(client, **spec)
    answers = [await evict(client, name) for name in names]
    assert [status for status, _ in answers] == [201] * allowed + [429] * (pods - allowed)
    if allowed < pods:
        refused = answers[-1][1]
        assert refused["reason"] == "TooManyRequests"
        assert refused["details"]["causes"][0]["reason"] == "DisruptionBudget"


async def test_unready_pods(client):
    await running(client, "a", "b")
    await running(client, "c", ready="False")
    await pdb(client, minAvailable=2)
    assert (await evict(client, "a"))[0] == 429
    assert (await evict(client, "c"))[0] == 201  # it is not one of the healthy pods that are needed


async def test_pending_pods_need_no_budget(client):
    await client.pod("a", labels={"app": "x"})
    await pdb(client, maxUnavailable=0)
    assert (await evict(client, "a"))[0] == 201
    assert (await client.call("GET", f"{PODS}/a"))[0] == 404


async def test_two_budgets_are_an_error(client):
    await running(client, "a")
    await pdb(client, "p", minAvailable=0)
    await pdb(client, "q", minAvailable=0)
    status, answer = await evict(client, "a")
    assert (status, answer["reason"]) == (500, "InternalError")


async def test_budget_status_shows_the_numbers(client):
    await running(client, "a", "b")
    await pdb(client, minAvailable=1)
    await evict(client, "a")
    status = (await client.ok("GET", f"{PDBS}/p"))["status"]
    assert (status["expectedPods"], status["desiredHealthy"], status["disruptionsAllowed"]) == (2, 1, 0)


async def test_malformed_budgets_and_evictions(client):
    for spec in ({"minAvailable": "x"}, {"minAvailable": -1}, {"minAvailable": 1, "maxUnavailable": 1}):
        status, _ = await client.call("POST", PDBS, {"metadata": {"name": "p"}, "spec": spec})
        assert status == 422, spec
    await client.pod("a")
    assert (await client.call("POST", f"{PODS}/a/eviction", {"deleteOptions": 3}))[0] == 400
    assert (await client.call("POST", f"{PODS}/a/eviction", {"metadata": {"name": "b"}}))[0] == 400
