"""The custom resources on a real API server: what users write is stored unchanged, what is absurd is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.deploy.manifests import CRDS, ROOT, Json
from tests.deploy.real_api import as_object, call

from berth.testing.kube_server import KubeServer

pytestmark = pytest.mark.e2e

VECTORS = ROOT / "tests/vectors/crds"
ACCEPTED: dict[str, list[Json]] = json.loads((VECTORS / "accepted.json").read_text())
REFUSED: list[Json] = json.loads((VECTORS / "refused.json").read_text())


def paths_of(crd: Json) -> list[str]:
    """Where objects of each version are; those with a namespace in `default`."""
    space = "/namespaces/default" if crd["spec"]["scope"] == "Namespaced" else ""
    group, plural = crd["spec"]["group"], crd["spec"]["names"]["plural"]
    return [f"/apis/{group}/{version['name']}{space}/{plural}" for version in crd["spec"]["versions"]]


def contains(stored: Any, wanted: Any) -> bool:
    """Everything wanted is there as it was written; the server may add defaults, and leaves out what is null."""
    if isinstance(wanted, dict):
        return all(value is None or (key in stored and contains(stored[key], value)) for key, value in wanted.items())
    if isinstance(wanted, list):
        return len(stored) == len(wanted) and all(map(contains, stored, wanted))
    return bool(stored == wanted)


@pytest.mark.parametrize("name", sorted(CRDS))
def test_objects_of_users_are_stored_unchanged(api: KubeServer, name: str) -> None:
    crd = CRDS[name]
    for number, document in enumerate(ACCEPTED[name]):
        for path in paths_of(crd):
            called = f"sample-{number}-{path.split('/')[3]}"
            made = call(api, "POST", path, as_object(crd, path, document, called))
            assert made.status == 201, made
            if "status" in crd["spec"]["versions"][0].get("subresources", {}) and "status" in document:
                patch = {"status": document["status"]}
                made = call(api, "PATCH", f"{path}/{called}/status", patch)
                assert made.status == 200, made
            for field in (key for key in document if key != "metadata"):
                assert contains(made.body[field], document[field]), (field, made.body[field])


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: f"{case['crd'].partition('.')[0]}-{case['field']}")
def test_absurd_objects_are_refused_with_the_field(api: KubeServer, case: Json) -> None:
    crd = CRDS[case["crd"]]
    path = paths_of(crd)[-1]
    status, body = call(api, "POST", f"{path}?dryRun=All", as_object(crd, path, case["object"], "absurd"))
    assert status in (400, 422), body
    assert case["field"] in body["message"], body


@pytest.mark.parametrize("name", sorted(CRDS))
def test_lists_have_their_columns(api: KubeServer, name: str) -> None:
    crd = CRDS[name]
    for path, version in zip(paths_of(crd), crd["spec"]["versions"], strict=True):
        table = call(api, "GET", path, accept="application/json;as=Table;g=meta.k8s.io;v=v1")
        columns = [each["name"] for each in version.get("additionalPrinterColumns", [])]
        assert table.status == 200, table
        assert [each["name"] for each in table.body["columnDefinitions"]] == ["Name", *(columns or ["Age"])]


def test_kinds_have_their_short_names(api: KubeServer) -> None:
    for name, crd in CRDS.items():
        wanted = crd["spec"]["names"]
        version = crd["spec"]["versions"][-1]["name"]
        listed = call(api, "GET", f"/apis/{crd['spec']['group']}/{version}").body["resources"]
        (found,) = [each for each in listed if each["name"] == wanted["plural"]]
        assert found.get("shortNames", []) == wanted.get("shortNames", []), name
        assert found["namespaced"] is (crd["spec"]["scope"] == "Namespaced")
        status = any(each["name"] == f"{wanted['plural']}/status" for each in listed)
        assert status is ("status" in crd["spec"]["versions"][-1].get("subresources", {})), name
