"""Custom resources: served for every CRD, pruned, defaulted, checked; and those of the protocol."""

import json

import pytest

from berth.simcluster import SimCluster, SimSettings
from berth.simcluster.store.crds import find_crds

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.org/v1/namespaces/default/widgets"

SPEC = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 10, "format": "int32"},
        "mode": {"type": "string", "enum": ["Strict", "Loose"], "default": "Strict"},
        "name": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]+$"},
        "amount": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "limits": {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 2},
        "parts": {
            "type": "array",
            "maxItems": 2,
            "items": {"type": "object", "required": ["kind"], "properties": {"kind": {"type": "string"}}},
        },
        "when": {"type": "string", "format": "date-time", "nullable": True},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "ratio": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
    },
}


def crd(**more):
    schema = {
        "type": "object",
        "properties": {"spec": SPEC, "status": {"type": "object", "properties": {"n": {"type": "integer"}}}},
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.org"},
        "spec": {
            "group": "example.org",
            "names": {"kind": "Widget", "plural": "widgets"},
            "scope": "Namespaced",
            "versions": [{**version, **more}, {**version, "name": "v2", "storage": False}],
        },
    }


@pytest.fixture
async def widgets(client):
    await client.ok("POST", CRDS, crd(subresources={"status": {}}))
    return client


def widget(called="w", **spec):
    return {"metadata": {"name": called}, "spec": {"size": 1, **spec}}


async def test_served_once_installed_and_gone_when_deleted(client):
    assert (await client.call("GET", WIDGETS))[0] == 404
    made = await client.ok("POST", CRDS, crd())
    assert {c["type"]: c["status"] for c in made["status"]["conditions"]}["Established"] == "True"
    made = await client.ok("POST", WIDGETS, widget())
    assert (made["apiVersion"], made["kind"], made["metadata"]["generation"]) == ("example.org/v1", "Widget", 1)
    assert (await client.ok("GET", WIDGETS))["kind"] == "WidgetList"
    await client.ok("DELETE", f"{CRDS}/widgets.example.org")
    assert (await client.call("GET", WIDGETS))[0] == 404


async def test_unknown_fields_are_pruned_and_defaults_filled(widgets):
    body = widget(color="red", parts=[{"kind": "a", "x": 1}], free={"any": [1]}, limits={"cpu": 1})
    body["extra"] = 1
    made = await widgets.ok("POST", WIDGETS, body)
    assert "extra" not in made
    assert made["spec"] == {
        "size": 1,
        "parts": [{"kind": "a"}],
        "free": {"any": [1]},
        "limits": {"cpu": 1},
        "mode": "Strict",
    }


@pytest.mark.parametrize(
    ("spec", "field", "text"),
    [
        ({"size": 0}, "spec.size", "greater than or equal to 1"),
        ({"size": 11}, "spec.size", "less than or equal to 10"),
        ({"size": "3"}, "spec.size", "must be of type integer"),
        ({"size": True}, "spec.size", "must be of type integer"),
        ({"size": 1.5}, "spec.size", "must be of type integer"),
        ({"size": None}, "spec.size", "Required value"),
        ({"mode": "Other"}, "spec.mode", 'supported values: "Strict", "Loose"'),
        ({"name": "a"}, "spec.name", "at least 2"),
        ({"name": "abcde"}, "spec.name", "at most 4"),
        ({"name": "AB"}, "spec.name", "should match"),
        ({"amount": 1.5}, "spec.amount", "integer or string"),
        ({"amount": []}, "spec.amount", "integer or string"),
        ({"limits": {"cpu": "1"}}, "spec.limits.cpu", "must be of type integer"),
        ({"limits": {"a": 1, "b": 1, "c": 1}}, "spec.limits", "at most 2"),
        ({"parts": [{"kind": "a"}, {}]}, "spec.parts[1].kind", "Required value"),
        ({"parts": [{"kind": "a"}] * 3}, "spec.parts", "at most 2"),
        ({"parts": {}}, "spec.parts", "must be of type array"),
        ({"when": "yesterday"}, "spec.when", "date-time"),
        ({"ratio": 0}, "spec.ratio", "greater than 0"),
        ({"size": 1 << 40}, "spec.size", "int32"),
    ],
)
async def test_broken_rules_are_422_and_named(widgets, spec, field, text):
    status, answer = await widgets.call("POST", WIDGETS, widget(**spec))
    assert (status, answer["reason"]) == (422, "Invalid")
    assert answer["message"].startswith('Widget.example.org "w" is invalid:')
    causes = {cause["field"]: cause["message"] for cause in answer["details"]["causes"]}
    assert field in causes
    assert text in answer["message"]


async def test_nullable_and_int_or_string(widgets):
    made = await widgets.ok("POST", WIDGETS, widget(when=None, amount="10%"))
    assert made["spec"]["when"] is None
    assert made["spec"]["amount"] == "10%"


async def test_status_is_apart_and_generations_count_specs(widgets):
    made = await widgets.ok("POST", WIDGETS, {**widget(), "status": {"n": 9}})
    assert "status" not in made
    body = {"status": {"n": 3}, "spec": {"size": 5}, "metadata": {"labels": {"a": "b"}}}
    _, made = await widgets.patch(f"{WIDGETS}/w/status", body)
    assert (made["status"], made["spec"]["size"], made["metadata"]["generation"]) == ({"n": 3}, 1, 1)
    assert "labels" not in made["metadata"]
    _, made = await widgets.patch(f"{WIDGETS}/w", body)
    assert (made["status"], made["spec"]["size"], made["metadata"]["generation"]) == ({"n": 3}, 5, 2)
    assert (await widgets.patch(f"{WIDGETS}/w/status", {"status": {"n": "x"}}))[0] == 422


async def test_without_the_subresource_status_is_a_plain_field(client):
    await client.ok("POST", CRDS, crd())
    made = await client.ok("POST", WIDGETS, {**widget(), "status": {"n": 9}})
    assert made["status"] == {"n": 9}
    assert (await client.patch(f"{WIDGETS}/w/status", {"status": {"n": 1}}))[0] == 404


async def test_update_needs_a_version(widgets):
    await widgets.ok("POST", WIDGETS, widget())
    assert (await widgets.call("PUT", f"{WIDGETS}/w", widget(size=2)))[0] == 422


async def test_other_served_versions(widgets):
    await widgets.ok("POST", WIDGETS, widget())
    other = WIDGETS.replace("/v1/", "/v2/")
    assert (await widgets.ok("GET", f"{other}/w"))["apiVersion"] == "example.org/v2"
    listed = await widgets.ok("GET", other)
    assert (listed["apiVersion"], listed["items"][0]["apiVersion"]) == ("example.org/v2", "example.org/v2")
    async with widgets.watch(f"{other}?watch=1") as watch:
        assert (await watch.next())["object"]["apiVersion"] == "example.org/v2"
        await widgets.ok("POST", other, {**widget("x"), "apiVersion": "example.org/v2"})
        assert (await watch.next())["object"]["apiVersion"] == "example.org/v2"
    assert (await widgets.ok("GET", f"{WIDGETS}/x"))["apiVersion"] == "example.org/v1"


@pytest.mark.parametrize(
    "change",
    [
        {"group": ""},
        {"names": {}},
        {"scope": "Galaxy"},
        {"versions": []},
        {"versions": [{"name": "v1"}]},
        {"group": "other.org"},
        {"versions": [{"name": "v1", "storage": True, "schema": {"openAPIV3Schema": {"pattern": "("}}}]},
    ],
)
async def test_unusable_crds_are_refused(client, change):
    body = crd()
    body["spec"] |= change
    status, answer = await client.call("POST", CRDS, body)
    assert (status, answer["reason"]) == (422, "Invalid")


async def test_a_crd_does_not_replace_a_built_in_resource(client):
    body = crd()
    body["metadata"]["name"] = "leases.coordination.k8s.io"
    body["spec"] |= {"group": "coordination.k8s.io", "names": {"kind": "Lease", "plural": "leases"}}
    assert (await client.call("POST", CRDS, body))[0] == 422


async def test_the_protocol_is_installed(client):
    group = {"metadata": {"name": "g"}, "spec": {"minMember": 3, "unknown": 1}}
    groups = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/podgroups"
    made = await client.ok("POST", groups, group)
    assert made["spec"] == {"minMember": 3}
    group["spec"] = {"minMember": "many"}
    group["metadata"] = {"name": "h"}
    status, answer = await client.call("POST", groups, group)
    assert status == 422
    assert "spec.minMember" in answer["message"]
    for plural in ("devices", "reservations", "podmigrationjobs", "clusternetworktopologies"):
        assert (await client.ok("GET", f"/apis/scheduling.koordinator.sh/v1alpha1/{plural}"))["items"] == []


def test_crds_from_a_folder(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(crd()))
    (tmp_path / "b.json").write_text(json.dumps({"kind": "List", "items": [{"kind": "ConfigMap"}]}))
    assert [each["metadata"]["name"] for each in find_crds(tmp_path)] == ["widgets.example.org"]
    (tmp_path / "c.json").write_text("{")
    with pytest.raises(ValueError, match=r"c\.json"):
        find_crds(tmp_path)
    with pytest.raises(FileNotFoundError):
        find_crds(tmp_path / "none")


def test_crds_from_yaml(tmp_path):
    pytest.importorskip("yaml")
    (tmp_path / "a.yaml").write_text("---\nkind: CustomResourceDefinition\nmetadata: {name: a}\n---\nkind: Other\n")
    assert [each["metadata"]["name"] for each in find_crds(tmp_path)] == ["a"]


def test_an_unusable_crd_stops_the_start(tmp_path):
    body = crd()
    body["spec"]["scope"] = "Galaxy"
    (tmp_path / "a.json").write_text(json.dumps(body))
    with pytest.raises(ValueError, match=r"spec\.scope"):
        SimCluster(SimSettings(crds=tmp_path))
