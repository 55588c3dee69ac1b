"""Which webhooks a request is for, as the configurations of the store say."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any, NamedTuple

from berth.simcluster.admission.conditions import ConditionError, holds
from berth.simcluster.store import Path, Store
from berth.simcluster.store.objects import EMPTY, Json, section
from berth.simcluster.store.resource import NAMESPACES
from berth.simcluster.store.selectors import matches_label_selector

MUTATING, VALIDATING = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"
_GROUP = "admissionregistration.k8s.io"
_TIMEOUT_S = 10.0
_OPERATIONS = {"create": "CREATE", "update": "UPDATE", "patch": "UPDATE", "delete": "DELETE"}


class Request(NamedTuple):
    """A write: its operation, what it is about, and the object as it would be and as it is."""

    operation: str
    path: Path
    kind: Json
    object: Json | None
    old: Json | None

    @property
    def variables(self) -> dict[str, Any]:
        """What conditions may look at."""
        return {"object": self.object, "oldObject": self.old, "request": {"operation": self.operation}}


class Hook(NamedTuple):
    """One entry of a configuration."""

    entry: Json

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.entry.get("name", ""))

    @property
    def may_fail(self) -> bool:
        """Whether a request goes on when the webhook cannot be asked."""
        return self.entry.get("failurePolicy") == "Ignore"

    @property
    def comes_again(self) -> bool:
        """Whether it is asked once more when another one has changed the object since."""
        return self.entry.get("reinvocationPolicy") == "IfNeeded"

    @property
    def timeout_s(self) -> float:
        """How long an answer may take."""
        return float(self.entry.get("timeoutSeconds") or _TIMEOUT_S)

    @property
    def url(self) -> str:
        """Where it is; empty for a Service, since there is no network of pods here."""
        return str(section(self.entry, "clientConfig").get("url") or "")

    @property
    def ca(self) -> str:
        """What its certificate is checked by (PEM)."""
        try:
            return base64.b64decode(str(section(self.entry, "clientConfig").get("caBundle", ""))).decode("ascii")
        except (binascii.Error, ValueError):
            return ""

    def takes(self, verb: str, path: Path) -> bool:
        """Whether its rules name such requests."""
        return any(_names(rule, _OPERATIONS.get(verb, ""), path) for rule in self.entry.get("rules") or ())

    def is_for(self, request: Request, namespace_labels: Json) -> bool:
        """Whether its selectors and conditions hold. Raises ConditionError."""
        if request.path.namespace and not _selects(self.entry.get("namespaceSelector"), namespace_labels):
            return False
        selector = self.entry.get("objectSelector")
        if not any(_selects(selector, _labels(each)) for each in (request.object, request.old) if each is not None):
            return False
        conditions = self.entry.get("matchConditions") or ()
        return all(holds(str(each.get("expression", "")), request.variables) for each in conditions)


def hooks_of(store: Store, plural: str) -> Iterator[Hook]:
    """The entries of all configurations of a kind, in the order in which they are called."""
    collection = store.collection(Path(_GROUP, "v1", plural))
    for key in sorted(collection.items):
        yield from (Hook(entry) for entry in collection.items[key].data.get("webhooks") or ())


def namespace_labels(store: Store, namespace: str) -> Json:
    """The labels of a namespace."""
    found = store.state.of(NAMESPACES).items.get(namespace)
    return _labels(found.data) if found is not None else EMPTY


def wanted(hooks: list[Hook], request: Request, labels: Json) -> Iterator[tuple[Hook, str]]:
    """Those of the webhooks that a request is for; with what is wrong with the condition, if it cannot be answered."""
    for hook in hooks:
        try:
            if hook.is_for(request, labels):
                yield hook, ""
        except ConditionError as error:
            yield hook, str(error)


def _selects(selector: Any, labels: Json) -> bool:
    return selector is None or matches_label_selector(selector, labels)


def _labels(data: Json) -> Json:
    return section(section(data, "metadata"), "labels")


def _names(rule: Json, operation: str, path: Path) -> bool:
    resource = f"{path.plural}/{path.subresource}" if path.subresource else path.plural
    scope = rule.get("scope") or "*"
    return (
        bool({operation, "*"} & set(rule.get("operations") or ()))
        and bool({path.group, "*"} & set(rule.get("apiGroups") or ()))
        and bool({path.version, "*"} & set(rule.get("apiVersions") or ()))
        and resource in (rule.get("resources") or ())
        and scope in ("*", "Namespaced" if path.namespace else "Cluster")
    )
