"""Label and field selectors of list and watch, compiled into one predicate over an object."""

import re
from collections.abc import Callable
from typing import Any

from berth.simcluster.store.objects import Json, section
from berth.simcluster.store.resource import ResourceType
from berth.simcluster.store.status import bad_request

Match = Callable[[Json], bool]

_FIELDS: dict[tuple[str, str], frozenset[str]] = {
    ("", "pods"): frozenset(
        {
            "spec.nodeName",
            "spec.schedulerName",
            "spec.restartPolicy",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        }
    ),
    ("", "nodes"): frozenset({"spec.unschedulable"}),
    ("", "namespaces"): frozenset({"status.phase"}),
    ("", "events"): frozenset(
        {
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        }
    ),
}
_SET = re.compile(r"^(?P<key>\S+)\s+(?P<op>in|notin)\s*\((?P<values>[^()]*)\)$")
_COMPARE = re.compile(r"^(?P<key>[^=!<>\s]+)\s*(?P<op>==|=|!=)\s*(?P<value>[^=!<>\s]*)$")
_KEY = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9_./-]*[A-Za-z0-9])?$")


def compile_selectors(resource: ResourceType, labels: str, fields: str) -> Match | None:
    """One predicate for both selectors; None if both are empty. Raises 400 for what the API server would refuse."""
    tests = [*_labels(labels), *_fields(resource, fields)]
    if not tests:
        return None
    if len(tests) == 1:
        return tests[0]
    return lambda data: all(test(data) for test in tests)


def _split(text: str) -> list[str]:
    parts: list[str] = []
    depth, start = 0, 0
    for index, char in enumerate(text):
        if char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    parts.append(text[start:])
    return [part.strip() for part in parts]


def _labels(text: str) -> list[Match]:
    if not text.strip():
        return []
    return [_label_test(part) for part in _split(text)]


def _label_test(part: str) -> Match:
    found = _SET.match(part)
    if found:
        key, values = found["key"], frozenset(value.strip() for value in found["values"].split(","))
        if found["op"] == "in":
            return lambda data: section(data["metadata"], "labels").get(key) in values
        return lambda data: section(data["metadata"], "labels").get(key) not in values
    found = _COMPARE.match(part)
    if found:
        key, value = found["key"], found["value"]
        if found["op"] == "!=":
            return lambda data: section(data["metadata"], "labels").get(key) != value
        return lambda data: section(data["metadata"], "labels").get(key) == value
    if part.startswith("!") and _KEY.match(part[1:].strip()):
        absent = part[1:].strip()
        return lambda data: absent not in section(data["metadata"], "labels")
    if _KEY.match(part):
        return lambda data: part in section(data["metadata"], "labels")
    raise bad_request(f"unable to parse requirement: labelSelector {part!r} is not valid")


def _fields(resource: ResourceType, text: str) -> list[Match]:
    if not text.strip():
        return []
    known = _FIELDS.get(resource.id, frozenset())
    tests: list[Match] = []
    for part in text.split(","):
        found = _COMPARE.match(part.strip())
        if not found:
            raise bad_request(f"invalid selector: {part!r}; can't understand fieldSelector")
        field, wanted = found["key"], found["value"]
        if (
            field != "metadata.name"
            and field not in known
            and not (field == "metadata.namespace" and resource.namespaced)
        ):
            raise bad_request(f'field label not supported: {field} (resource "{resource.plural}")')
        tests.append(_field_test(tuple(field.split(".")), wanted, equal=found["op"] != "!="))
    return tests


def _field_test(path: tuple[str, ...], wanted: str, *, equal: bool) -> Match:
    def test(data: Json) -> bool:
        value: Any = data
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, bool):
            value = "true" if value else "false"
        elif value is None:
            value = "false" if path[-1] in ("unschedulable", "hostNetwork") else ""
        return bool(value == wanted) is equal

    return test


def matches_label_selector(selector: Any, labels: Json) -> bool:
    """A `LabelSelector` object against labels. Null selects nothing, an empty one everything (policy/v1)."""
    if not isinstance(selector, dict):
        return False
    for key, value in section(selector, "matchLabels").items():
        if labels.get(key) != value:
            return False
    return all(_expression(expression, labels) for expression in selector.get("matchExpressions") or ())


def _expression(expression: Json, labels: Json) -> bool:
    key, values = expression.get("key", ""), expression.get("values") or ()
    match expression.get("operator"):
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:
            return False
