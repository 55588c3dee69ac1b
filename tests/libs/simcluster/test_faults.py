"""Faults, tokens, and the `/sim/` endpoint."""

import aiohttp
import pytest

from berth.simcluster import Fault, Faults, SimCluster, SimSettings

PODS = "/api/v1/namespaces/default/pods"


async def test_errors_for_matching_requests_only(start, new_pod):
    fault = Fault(kind="error", status=429, retry_after_s=3, verbs=("create",), resources=("pods",), name_prefix="")
    client = await start(faults=(fault,))
    async with client.session.post(PODS, json=new_pod("a")) as response:
        assert response.status == 429
        assert response.headers["Retry-After"] == "3"
        assert (await response.json())["reason"] == "TooManyRequests"
    assert (await client.call("GET", PODS))[0] == 200
    assert (await client.call("POST", "/api/v1/nodes", {"metadata": {"name": "n"}}))[0] == 201


async def test_a_fault_may_strike_one_kind_of_client(start):
    client = await start(faults=(Fault(kind="error", status=500, agent_prefix="berth-"),))
    assert (await client.call("GET", PODS))[0] == 200
    async with client.session.get(PODS, headers={"User-Agent": "berth-cluster-writer"}) as response:
        assert response.status == 500


async def test_an_error_may_speak_like_an_admission_policy(start, new_pod):
    text = "ValidatingAdmissionPolicy 'keep' with binding 'keep' denied request: the pod stays"
    client = await start(faults=(Fault(kind="error", status=422, message=text, verbs=("delete",), name_prefix="kept"),))
    for name in ("kept", "other"):
        await client.ok("POST", PODS, new_pod(name))
    for path in ("kept", "kept?dryRun=All"):
        status, answer = await client.call("DELETE", f"{PODS}/{path}")
        assert (status, answer["reason"], answer["message"]) == (422, "Invalid", text)
    assert (await client.call("DELETE", f"{PODS}/other"))[0] == 200


async def test_a_limited_fault_ends(start, new_pod):
    client = await start(faults=(Fault(kind="error", status=500, limit=2),))
    answers = [(await client.call("GET", PODS))[0] for _ in range(4)]
    assert answers == [500, 500, 200, 200]


async def test_dropped_before_has_no_effect(start):
    client = await start(faults=(Fault(kind="drop-before", verbs=("bind",), limit=1),))
    await client.pod("a")
    with pytest.raises(aiohttp.ClientError):
        await client.bind("a")
    assert (await client.bind("a"))[0] == 201


async def test_dropped_after_has_its_effect(start):
    client = await start(faults=(Fault(kind="drop-after", verbs=("bind",), limit=1),))
    await client.pod("a")
    with pytest.raises(aiohttp.ClientError):
        await client.bind("a", "n1")
    status, answer = await client.bind("a", "n1")
    assert status == 409
    assert "already assigned" in answer["message"]


async def test_a_delay_outlasts_an_impatient_client_but_not_the_effect(start, new_pod, eventually):
    client = await start(faults=(Fault(kind="delay", delay_s=0.2, verbs=("get",)),))
    await client.pod("a")
    with pytest.raises(TimeoutError):
        async with client.session.get(f"{PODS}/a", timeout=aiohttp.ClientTimeout(total=0.05)):
            pass
    assert (await client.call("GET", f"{PODS}/a"))[0] == 200


def test_the_same_seed_decides_alike():
    rules = (Fault(kind="error", share=0.3),)

    def decisions(seed):
        faults = Faults(rules, seed=seed)
        return [faults.choose("get", "pods", "a").fault is not None for _ in range(1000)]

    assert decisions(1) == decisions(1) != decisions(2)
    assert 200 < sum(decisions(1)) < 400


@pytest.mark.parametrize(
    ("fault", "field"),
    [
        (Fault(kind="error", share=2), "share"),
        (Fault(kind="error", share=float("nan")), "share"),
        (Fault(kind="error", status=200), "status"),
        (Fault(kind="delay", delay_s=-1), "delay_s"),
        (Fault(kind="delay", limit=-1), "limit"),
    ],
)
def test_senseless_faults_are_refused(fault, field):
    with pytest.raises(ValueError, match=field):
        SimCluster(SimSettings(faults=(fault,)))


async def test_admin_sets_faults_and_sums_up(start):
    client = await start(admin=True)
    await client.pod("a")
    state = await client.ok("GET", "/sim/state")
    assert state["pods"] == {"bound": 0, "phases": {"Pending": 1}}
    assert state["objects"]["pods"] == 1
    await client.ok("PUT", "/sim/faults", {"faults": [{"kind": "error", "status": 503, "verbs": ["list"]}], "seed": 4})
    assert (await client.call("GET", PODS))[0] == 503
    assert (await client.ok("GET", "/sim/faults"))["fired"] == [1]
    for bad in ({"faults": [{"kind": "flood"}]}, {"faults": [{"kind": "error", "share": 7}]}, {"wrong": 1}, 3):
        assert (await client.call("PUT", "/sim/faults", bad))[0] == 400
    await client.ok("PUT", "/sim/faults", {})
    assert (await client.call("GET", PODS))[0] == 200
    assert (await client.call("GET", "/sim/none"))[0] == 404


async def test_admin_closes_watches_and_forgets_history(start):
    client = await start(admin=True)
    await client.pod("a")
    version = client.sim.store.version - 1
    async with client.watch(f"{PODS}?watch=1&resourceVersion={version}") as watch:
        assert await watch.change() == ("ADDED", "a")
        await client.ok("POST", "/sim/history/compact?resource=pods")
        assert (await client.ok("POST", "/sim/watches/close?resource=pods"))["closed"] == 1
        assert await watch.next() is None
    async with client.watch(f"{PODS}?watch=1&resourceVersion={version}") as watch:
        assert (await watch.next())["object"]["code"] == 410
    assert (await client.call("POST", "/sim/history/compact?keep=x"))[0] == 400


async def test_admin_is_off_unless_asked_for(client):
    assert (await client.call("GET", "/sim/state"))[0] == 404


async def test_tokens(start, tmp_path):
    file = tmp_path / "tokens.csv"
    file.write_text('# who\nsecret,solver,1,"a,b"\nother,writer\n')
    client = await start(token_file=file, admin=True)
    for header in ("", "Bearer wrong", "Basic secret", "secret"):
        status, answer = await client.call("GET", PODS, Authorization=header)
        assert (status, answer["reason"]) == (401, "Unauthorized"), header
    assert (await client.call("GET", "/sim/state"))[0] == 401
    for token in ("secret", "other"):
        assert (await client.call("GET", PODS, Authorization=f"Bearer {token}"))[0] == 200


@pytest.mark.parametrize("text", ["", "secret\n", ",user\n", "secret,\n"])
def test_malformed_token_files(tmp_path, text):
    file = tmp_path / "tokens.csv"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"tokens\.csv"):
        SimCluster(SimSettings(token_file=file))
