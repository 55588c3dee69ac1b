"""The custom resource definitions of the contract are well-formed and accept what users of the protocol write."""

import json
import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import jsonschema_rs
import pytest

from berth.testing.vectors import cases, load

FOLDER = files("berth.contracts") / "crds"
CRDS: dict[str, dict[str, Any]] = {
    entry.name.removesuffix(".json"): json.loads(entry.read_text())
    for entry in FOLDER.iterdir()
    if entry.name.endswith(".json")
}
NAMED = sorted(CRDS.items())

# kind -> (scope, status subresource, short names, columns)
EXPECTED = {
    "podgroups.scheduling.sigs.k8s.io": ("Namespaced", False, [], []),
    "elasticquotas.scheduling.sigs.k8s.io": ("Namespaced", False, [], []),
    "elasticquotaprofiles.quota.koordinator.sh": ("Namespaced", False, ["eqp"], []),
    "reservations.scheduling.koordinator.sh": ("Cluster", True, [], ["Phase", "Age", "Node", "TTL", "Expires"]),
    "devices.scheduling.koordinator.sh": ("Cluster", False, [], []),
    "podmigrationjobs.scheduling.koordinator.sh": (
        "Cluster",
        True,
        ["pmj"],
        ["Phase", "Status", "Age", "Node", "Reservation", "PodNamespace", "Pod", "NewPod", "TTL"],
    ),
    "clusternetworktopologies.scheduling.koordinator.sh": ("Cluster", True, [], []),
    "scheduleexplanations.scheduling.koordinator.sh": ("Namespaced", True, ["sched-exp"], []),
    "recommendations.analysis.koordinator.sh": (
        "Namespaced",
        True,
        ["recom"],
        ["Age", "Type", "Kind", "Name", "LastUpdateTime"],
    ),
    "clustercolocationprofiles.config.koordinator.sh": ("Cluster", True, [], []),
    "nodemetrics.slo.koordinator.sh": ("Cluster", True, [], []),
    "nodeslos.slo.koordinator.sh": ("Cluster", True, [], []),
    "noderesourcetopologies.topology.node.k8s.io": ("Cluster", False, ["node-res-topo"], []),
    "reservationschedules.scheduling.berth.sh": ("Cluster", True, [], ["Cron", "Zone", "Duration", "Next", "Age"]),
}
ALLOWED_WORDS = {
    *("type", "format", "description", "properties", "additionalProperties", "items", "required", "enum", "default"),
    *("nullable", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "minProperties", "anyOf"),
    *("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-map-type"),
}


def walk(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from walk(child, f"{path}.{name}")
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            yield from walk(schema[word], f"{path}.{word}")


def schemas(crd: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(v["name"], v["schema"]["openAPIV3Schema"]) for v in crd["spec"]["versions"]]


def test_every_kind_of_the_protocol_is_there() -> None:
    assert set(CRDS) == set(EXPECTED)


@pytest.mark.parametrize(("name", "crd"), NAMED, ids=[name for name, _ in NAMED])
def test_names_are_consistent(name: str, crd: dict[str, Any]) -> None:
    spec, names = crd["spec"], crd["spec"]["names"]
    assert crd["apiVersion"] == "apiextensions.k8s.io/v1"
    assert crd["kind"] == "CustomResourceDefinition"
    assert crd["metadata"]["name"] == name == f"{names['plural']}.{spec['group']}"
    assert names["singular"] == names["kind"].lower()
    assert names["listKind"] == names["kind"] + "List"
    assert [v["storage"] for v in spec["versions"]].count(True) == 1
    assert all(v["served"] for v in spec["versions"])
    if spec["group"].endswith(".k8s.io"):
        assert crd["metadata"]["annotations"]["api-approved.kubernetes.io"].startswith("https://")


@pytest.mark.parametrize(("name", "crd"), NAMED, ids=[name for name, _ in NAMED])
def test_scope_subresource_short_names_and_columns(name: str, crd: dict[str, Any]) -> None:
    scope, status, short, columns = EXPECTED[name]
    for version in crd["spec"]["versions"]:
        assert ("status" in version.get("subresources", {})) is status
        assert [c["name"] for c in version.get("additionalPrinterColumns", [])] == columns
    assert crd["spec"]["scope"] == scope
    assert crd["spec"]["names"].get("shortNames", []) == short


@pytest.mark.parametrize(("name", "crd"), NAMED, ids=[name for name, _ in NAMED])
def test_schemas_are_structural(name: str, crd: dict[str, Any]) -> None:
    for version, root in schemas(crd):
        assert root["type"] == "object"
        for path, node in walk(root):
            where = f"{name} {version} {path}"
            assert set(node) <= ALLOWED_WORDS, where
            int_or_string = node.get("x-kubernetes-int-or-string")
            assert ("type" in node) != bool(int_or_string), where
            if "anyOf" in node:
                assert int_or_string, where
                assert node["anyOf"] == [{"type": "integer"}, {"type": "string"}], where
            assert not ("properties" in node and "additionalProperties" in node), where
            assert set(node.get("required", [])) <= set(node.get("properties", {})), where
            assert ("items" in node) == (node.get("type") == "array"), where
            if "default" in node:
                jsonschema_rs.validator_for(node).validate(node["default"])
            if path.startswith(".metadata"):
                assert node == {"type": "object"}, where


@pytest.mark.parametrize(("name", "crd"), NAMED, ids=[name for name, _ in NAMED])
def test_columns_point_at_fields(name: str, crd: dict[str, Any]) -> None:
    for version in crd["spec"]["versions"]:
        for column in version.get("additionalPrinterColumns", []):
            node = version["schema"]["openAPIV3Schema"]
            steps = column["jsonPath"].removeprefix(".").split(".")
            if steps[0] == "metadata":
                continue
            for step in steps:
                node = node["properties"][step]
            assert node["type"] == "string", column
            if column["type"] == "date":
                assert node.get("format") == "date-time", column


def json_schema(node: dict[str, Any]) -> dict[str, Any]:
    """The same constraints in plain JSON Schema: `nullable` is OpenAPI's word."""
    plain = {k: v for k, v in node.items() if not k.startswith("x-") and k not in ("nullable", "default")}
    if plain.get("format") != "date-time":
        plain.pop("format", None)
    for word in ("items", "additionalProperties"):
        if word in plain:
            plain[word] = json_schema(plain[word])
    if "properties" in plain:
        plain["properties"] = {k: json_schema(v) for k, v in plain["properties"].items()}
    if node.get("nullable"):
        plain["type"] = [plain["type"], "null"]
    return plain


def pruned(node: dict[str, Any], value: Any, top: bool = False) -> Any:
    """What an API server would store: fields that no schema names are dropped."""
    if isinstance(value, list):
        return [pruned(node.get("items", {}), item) for item in value]
    if not isinstance(value, dict) or node.get("x-kubernetes-int-or-string"):
        return value
    if "additionalProperties" in node:
        return {k: pruned(node["additionalProperties"], v) for k, v in value.items()}
    keep_unknown = node.get("x-kubernetes-preserve-unknown-fields", False)
    kept = {}
    for key, child in value.items():
        if top and key in ("metadata", "apiVersion", "kind"):
            kept[key] = child
        elif key in node.get("properties", {}):
            kept[key] = pruned(node["properties"][key], child)
        elif keep_unknown:
            kept[key] = child
    return kept


def test_every_kind_has_an_object_that_is_accepted_and_one_that_is_refused() -> None:
    assert {each["crd"] for each in load("crds/accepted")} == set(EXPECTED)
    assert {each["crd"] for each in load("crds/refused")} == set(EXPECTED)


@pytest.mark.parametrize("case", cases("crds/accepted"))
def test_objects_of_users_are_accepted_and_stored_unchanged(case: dict[str, Any]) -> None:
    document = {"apiVersion": "g/v", "kind": "K", "metadata": {"name": "x", "labels": {"a": "b"}}, **case["object"]}
    for _, schema in schemas(CRDS[case["crd"]]):
        jsonschema_rs.validator_for(json_schema(schema)).validate(document)
        assert pruned(schema, document, top=True) == document


@pytest.mark.parametrize("case", cases("crds/refused"))
def test_absurd_objects_are_refused(case: dict[str, Any]) -> None:
    schema = json_schema(schemas(CRDS[case["crd"]])[0][1])
    with pytest.raises(jsonschema_rs.ValidationError) as refused:
        jsonschema_rs.validator_for(schema, validate_formats=True).validate(case["object"])
    assert case["field"] in [*map(str, refused.value.instance_path), *re.findall(r'"(\w+)"', refused.value.message)]
