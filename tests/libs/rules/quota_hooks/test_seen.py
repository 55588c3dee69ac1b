"""Which pods are one class for hooks."""

from __future__ import annotations

import pytest

from berth.contracts import names
from berth.contracts.state import PodTemplate
from berth.rules.quota_hooks.seen import NUMBERING_LABELS, class_id, hooked_pod

TEMPLATE = PodTemplate(requests={names.CPU: 1000}, labels={"app": "solver", "team": "a"}, images=["solver:7"])


def class_of(namespace: str = "ns", **fields: object) -> str:
    template = {name: getattr(TEMPLATE, name) for name in TEMPLATE.__struct_fields__} | fields
    return class_id(hooked_pod(namespace, PodTemplate(**template)))


def test_a_class_has_one_name_in_every_process() -> None:
    assert class_of() == "47f99e02ec6ef5141514108fb28bd261"


@pytest.mark.parametrize("label", sorted(NUMBERING_LABELS))
def test_pods_that_differ_in_their_number_are_one_class(label: str) -> None:
    assert class_of(labels={**TEMPLATE.labels, label: "7"}) == class_of()


@pytest.mark.parametrize(
    "fields",
    [
        {"namespace": "other"},
        {"labels": {"app": "solver"}},
        {"requests": {names.CPU: 2000}},
        {"limits": {names.CPU: 2000}},
        {"priority": 1},
        {"priority_class": "high"},
        {"scheduler": "other"},
        {"node_selector": {"pool": "a"}},
        {"images": []},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_what_hooks_see_makes_another_class(fields: dict[str, object]) -> None:
    assert class_of(**fields) != class_of()


def test_what_they_do_not_see_makes_none() -> None:
    assert class_of(annotations={"a": "b"}, gates=["g"], labels=dict(reversed(TEMPLATE.labels.items()))) == class_of()
