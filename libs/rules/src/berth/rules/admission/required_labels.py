"""Labels that a cluster requires of pods: a ConfigMap lists them, with the namespaces that are spared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from berth.contracts.base import Problem
from berth.contracts.names import LABEL_SKIP_REQUIRED_LABELS
from berth.rules.bounded_json import label_field, read_json

if TYPE_CHECKING:
    from berth.rules.admission.seam import Case

NAMESPACE: Final = "koordinator-system"
NAME: Final = "pod-enhanced-validator-config"
"""The ConfigMap with `enable` and `rules`."""
RULES_MAX: Final = 1000


class _Rule(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    required_labels: list[str] = []
    namespace_whitelist: list[str] = []


class LabelRule(NamedTuple):
    """One rule."""

    name: str
    labels: tuple[str, ...]
    spared: frozenset[str]


class RequiredLabels(NamedTuple):
    """All rules; none while it is not enabled."""

    rules: tuple[LabelRule, ...] = ()

    def missing(self, labels: Mapping[str, str], namespace: str) -> Iterator[tuple[str, str]]:
        """The name of a rule and the label that it misses on a pod."""
        if not self.rules or labels.get(LABEL_SKIP_REQUIRED_LABELS) == "true":
            return
        for rule in self.rules:
            if namespace not in rule.spared:
                yield from ((rule.name, label) for label in rule.labels if label not in labels)


def read_required_labels(data: Mapping[str, str]) -> tuple[RequiredLabels, Problem | None]:
    """The rules of the ConfigMap; what cannot be read requires nothing, and is a problem."""
    if data.get("enable", "").strip().lower() != "true":
        return RequiredLabels(), None
    text = data.get("rules", "")
    found = read_json(text, list[_Rule], "data[rules]") if text.strip() else []
    if isinstance(found, Problem):
        return RequiredLabels(), found
    if len(found) > RULES_MAX:
        return RequiredLabels(), Problem(field="data[rules]", message=f"has more than {RULES_MAX} entries")
    rules = (LabelRule(each.name, tuple(each.required_labels), frozenset(each.namespace_whitelist)) for each in found)
    return RequiredLabels(tuple(rules)), None


def run(case: Case) -> None:
    """The rule."""
    for name, label in case.views.required_labels.missing(case.draft.labels, case.request.namespace):
        case.refuse("requiredLabel", label_field(label), f"is required by rule {name!r}")
