"""One consistent list a kind, or none."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from berth.auditor.core.objects import Lists
from berth.auditor.lists import IncompleteError, Lister
from berth.contracts.names import SCHEDULER_NAME
from berth.kube import Answer, resources


class Api:
    """Pages as a test says, by plural; everything else is empty."""

    def __init__(self, **answers: list[Answer]) -> None:
        self.answers = answers
        self.served: list[str] = ["devices", "reservations"]
        self.asked: list[tuple[str, int, str]] = []

    async def page(self, selection: Any, *, limit: int, token: str = "") -> Answer:
        plural = selection.resource.plural
        self.asked.append((plural, limit, token))
        script = self.answers.get(plural)
        return script.pop(0) if script else listed()

    async def discover(self, path: str) -> Answer:
        listed = {"resources": [{"name": plural} for plural in self.served]} if path.count("/") == 3 else {"groups": []}
        return Answer(200, msgspec.json.encode(listed))


def listed(*items: Any, token: str = "") -> Answer:
    body = {"metadata": {"resourceVersion": "5", "continue": token}, "items": list(items)}
    return Answer(200, msgspec.json.encode(body))


def pod(name: str, *, scheduler: str = SCHEDULER_NAME, node: str = "", phase: str = "Pending") -> dict[str, Any]:
    spec = {"schedulerName": scheduler, "nodeName": node, "containers": [{"name": "c"}], "volumes": [{"name": "v"}]}
    return {"metadata": {"name": name, "namespace": "d", "uid": name}, "spec": spec, "status": {"phase": phase}}


def lister(api: Api, *, objects_max: int = 100) -> Lister:
    async def rest() -> None:
        await asyncio.sleep(0)

    schedulers = frozenset({SCHEDULER_NAME})
    return Lister(api, schedulers=schedulers, page=2, objects_max=objects_max, rest=rest)  # type: ignore[arg-type]


async def lists(**answers: list[Answer]) -> Lists:
    return await lister(Api(**answers)).all()


async def test_only_what_is_judged_is_kept() -> None:
    kept = [pod("ours"), pod("bound", scheduler="other", node="n")]
    left = [pod("theirs", scheduler="other"), pod("ended", node="n", phase="Succeeded")]
    found = await lists(pods=[listed(*kept[:1], left[0], token="more"), listed(kept[1], left[1])])
    assert [each.metadata.name for each in found.pods] == ["ours", "bound"]
    assert all(each.spec.volumes is None for each in found.pods)


async def test_a_malformed_object_is_named_and_the_rest_is_read() -> None:
    broken = {"metadata": {"name": "x", "namespace": "d", "labels": 5}}
    found = await lists(pods=[listed(broken, pod("ours"))])
    assert [each.metadata.name for each in found.pods] == ["ours"]
    assert [text.startswith("pods d/x: metadata") for text in found.unreadable] == [True]


async def test_a_pod_is_read_as_cluster_watcher_reads_it() -> None:
    bound = pod("bound", node="n")
    bound["spec"]["containers"] = [{"name": "c", "ports": [{"hostPort": "80"}]}]
    found = await lists(pods=[listed(bound)])
    assert [(each.metadata.name, each.spec.node_name) for each in found.pods] == [("bound", "n")]
    assert found.unreadable == []


async def test_a_kind_that_is_not_installed_has_no_objects() -> None:
    api = Api(devices=[Answer(404, b"404 page not found", "Not Found")])
    api.served.remove("devices")
    assert (await lister(api).all()).devices == []


async def test_a_moment_that_is_forgotten_is_listed_again() -> None:
    found = await lists(pods=[listed(pod("old"), token="t"), Answer(410, b"", "Expired"), listed(pod("new"))])
    assert [each.metadata.name for each in found.pods] == ["new"]


@pytest.mark.parametrize("answer", [Answer(0, b"", "Timeout"), Answer(500, b"", "Oops"), Answer(403, b"", "Forbidden")])
async def test_a_list_that_fails_fails_by_name(answer: Answer) -> None:
    with pytest.raises(IncompleteError, match=f"^nodes: {answer.status} {answer.reason}$"):
        await lists(nodes=[answer])


async def test_too_many_objects_are_too_many() -> None:
    api = Api(pods=[listed(*(pod(f"p{number}") for number in range(4)))])
    with pytest.raises(IncompleteError, match="BERTH_AUDIT_OBJECTS_MAX=3"):
        await lister(api, objects_max=3).all()


async def test_every_kind_is_asked_for_once_in_small_pages() -> None:
    api = Api()
    await lister(api).all()
    assert len(api.asked) == 9
    assert {limit for _, limit, _ in api.asked} == {2}
    assert resources.PODS.plural in {plural for plural, _, _ in api.asked}


async def test_profiles_are_asked_for_where_the_webhook_is_called_for_any() -> None:
    configuration = {"metadata": {"name": "berth-admission"}, "webhooks": [{"name": "etl.profiles.admission.berth.sh"}]}
    found = await lists(
        mutatingwebhookconfigurations=[listed(configuration)],
        clustercolocationprofiles=[listed({"metadata": {"name": "etl"}, "spec": {"qosClass": "BE"}})],
        namespaces=[listed({"metadata": {"name": "team"}})],
    )
    assert [len(each) for each in (found.webhooks, found.profiles, found.namespaces)] == [1, 1, 1]


@pytest.mark.parametrize("plural", ["pods", "devices"])
async def test_a_404_that_discovery_does_not_confirm_is_no_empty_list(plural: str) -> None:
    with pytest.raises(IncompleteError, match=plural):
        await lists(**{plural: [Answer(404, b"404 page not found", "Not Found")]})
