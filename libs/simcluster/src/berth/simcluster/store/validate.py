"""Rules on `metadata` that hold for every object: names, labels, annotations, finalizers."""

import re
from typing import Any

from berth.simcluster.store.objects import Json
from berth.simcluster.store.status import Cause, bad_value, required

ANNOTATIONS_LIMIT_BYTES = 256 * 1024

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_PATH_NAME = re.compile(r"(?!\.{1,2}$)[^/%]+")
_LABEL_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_QUANTITY = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?")

_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character"
)
_KEY_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character"
)


def is_subdomain(name: str) -> bool:
    """A DNS-1123 subdomain of at most 253 characters."""
    return len(name) <= 253 and _SUBDOMAIN.fullmatch(name) is not None


def is_quantity(value: Any) -> bool:
    """A Kubernetes quantity as JSON may carry it."""
    if isinstance(value, str):
        return len(value) <= 64 and _QUANTITY.fullmatch(value) is not None
    return isinstance(value, int | float) and not isinstance(value, bool)


def quantity_causes(amounts: Any, path: str) -> list[Cause]:
    """What is wrong with a map of resource amounts; absent is fine."""
    if amounts is None:
        return []
    if not isinstance(amounts, dict):
        return [bad_value(path, amounts, "must be a map of quantities")]
    causes: list[Cause] = []
    for name, value in amounts.items():
        if not is_quantity(value):
            why = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            causes.append(bad_value(f"{path}[{name}]", value, why))
        elif str(value).startswith("-"):
            causes.append(bad_value(f"{path}[{name}]", value, "must be greater than or equal to 0"))
    return causes


def metadata_causes(meta: Json, *, dns_name: bool = True, label_name: bool = False) -> list[Cause]:
    """What is wrong with `metadata` (whose types are known to fit).

    `dns_name`: the name must be a subdomain; `label_name`: a single DNS label.
    """
    causes: list[Cause] = []
    name = meta.get("name")
    if not name:
        causes.append(required("metadata.name", "name or generateName is required"))
    elif dns_name and (not is_subdomain(name) or (label_name and ("." in name or len(name) > 63))):
        causes.append(bad_value("metadata.name", name, _SUBDOMAIN_RULE))
    elif not dns_name and (len(name) > 253 or not _PATH_NAME.fullmatch(name)):
        causes.append(bad_value("metadata.name", name, "may not be '.' or '..', nor contain '/' or '%'"))
    labels = meta.get("labels")
    if labels:
        causes += _labels(labels)
    annotations = meta.get("annotations")
    if annotations:
        causes += _annotations(annotations)
    return causes


def _labels(labels: dict[str, str]) -> list[Cause]:
    causes: list[Cause] = []
    for key, value in labels.items():
        if not _is_key(key):
            causes.append(bad_value("metadata.labels", key, _KEY_RULE))
        if value and (len(value) > 63 or not _LABEL_NAME.fullmatch(value)):
            causes.append(bad_value("metadata.labels", value, _VALUE_RULE))
    return causes


def _annotations(annotations: dict[str, str]) -> list[Cause]:
    causes: list[Cause] = []
    size = 0
    for key, value in annotations.items():
        if not _is_key(key.lower()):
            causes.append(bad_value("metadata.annotations", key, _KEY_RULE))
        size += len(key) + len(value)
    if size > ANNOTATIONS_LIMIT_BYTES:
        text = f"Too long: may not be more than {ANNOTATIONS_LIMIT_BYTES} bytes"
        causes.append(Cause("FieldValueTooLong", text, "metadata.annotations"))
    return causes


def _is_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    if slash and not is_subdomain(prefix):
        return False
    return 0 < len(name) <= 63 and _LABEL_NAME.fullmatch(name) is not None
