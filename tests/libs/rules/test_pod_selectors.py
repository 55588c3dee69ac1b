"""Who the fellows of a pod are: those that its services and its controller select, as kube-scheduler finds them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts.kube import LabelSelector, OwnerReference, Requirement
from berth.contracts.state import ReplicaSet, ReplicationController, Service, StatefulSet
from berth.rules.pod_selectors import Controller, SelectingObjects, default_selector
from berth.rules.selectors import compile_selector

WEB = {"app": "web"}
SHARD = Requirement(key="shard", operator="Exists")


def selector(labels: Mapping[str, str] | None = None, *expressions: Requirement) -> LabelSelector:
    return LabelSelector(match_labels=dict(labels) if labels else None, match_expressions=list(expressions) or None)


def owner(api_version: str, kind: str, name: str = "web", *, controller: bool = True) -> OwnerReference:
    return OwnerReference(api_version=api_version, kind=kind, name=name, uid="u", controller=controller)


def test_services_that_select_the_pod_together() -> None:
    services = [{"app": "web"}, {"tier": "front"}, {"app": "db"}, {}, None]
    assert default_selector({"app": "web", "tier": "front", "x": "1"}, services) == selector(
        {"app": "web", "tier": "front"}
    )
    assert default_selector({"app": "cache"}, services) == selector()


def test_a_replica_set_adds_its_selector_and_a_replication_controller_its_labels() -> None:
    assert default_selector(WEB, [WEB], selector({"hash": "1"}, SHARD)) == selector({"app": "web", "hash": "1"}, SHARD)
    assert default_selector(WEB, [WEB], {"hash": "1"}) == selector({"app": "web", "hash": "1"})


def test_a_controller_that_says_otherwise_than_a_service() -> None:
    """Of a ReplicationController the later label holds; a selector is one more condition, which nobody meets."""
    assert default_selector(WEB, [WEB], {"app": "db"}) == selector({"app": "db"})
    both = default_selector(WEB, [WEB], selector({"app": "db"}))
    assert both == selector(WEB, Requirement(key="app", operator="In", values=["db"]))
    assert not any(compile_selector(both).matches({"app": app}) for app in ("web", "db"))


def test_a_selector_that_cannot_be_read_counts_as_none() -> None:
    assert default_selector(WEB, [WEB], selector({"x": "1"}, Requirement(key="a", operator="Near"))) == selector(WEB)


@pytest.mark.parametrize(
    ("owners", "found"),
    [
        ([owner("apps/v1", "ReplicaSet")], selector({"kind": "set"})),
        ([owner("apps/v1", "StatefulSet")], selector({"kind": "stateful"})),
        ([owner("v1", "ReplicationController")], {"kind": "controller"}),
        ([owner("apps/v1", "ReplicaSet", "other")], None),
        ([owner("apps/v1", "DaemonSet")], None),
        ([owner("extensions/v1beta1", "ReplicaSet")], None),
        ([owner("apps/v1", "ReplicaSet", controller=False)], None),
        (
            [owner("apps/v1", "ReplicaSet", controller=False), owner("apps/v1", "StatefulSet")],
            selector({"kind": "stateful"}),
        ),
        ([], None),
    ],
)
def test_the_controller_among_the_owners(owners: list[OwnerReference], found: object) -> None:
    objects = SelectingObjects()
    shown: list[Controller] = [
        ReplicaSet(namespace="ns", name="web", version=1, selector=selector({"kind": "set"})),
        StatefulSet(namespace="ns", name="web", version=1, selector=selector({"kind": "stateful"})),
        ReplicationController(namespace="ns", name="web", version=1, selector={"kind": "controller"}),
    ]
    for each in shown:
        assert objects.see_controller(type(each), ("ns", "web"), each)
        assert not objects.see_controller(type(each), ("ns", "web"), each)
    assert objects.of_owner("ns", owners) == found
    assert objects.of_owner("elsewhere", owners) is None
    for each in shown:
        assert objects.see_controller(type(each), ("ns", "web"), None)
    assert objects.of_owner("ns", owners) is None


_labels = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy"), max_size=3)


@given(
    st.lists(st.tuples(st.sampled_from(["s1", "s2", "s3"]), st.one_of(st.none(), _labels)), max_size=8),
    _labels,
)
def test_the_index_finds_what_a_look_at_all_services_finds(
    changes: list[tuple[str, dict[str, str] | None]], labels: dict[str, str]
) -> None:
    objects, there = SelectingObjects(), dict[str, dict[str, str]]()
    for name, wanted in changes:
        before = there.pop(name, {})
        service = None if wanted is None else Service(namespace="ns", name=name, version=1, selector=wanted)
        if wanted:
            there[name] = wanted
        assert objects.see_service(("ns", name), service) == (before != (wanted or {}))
    assert sorted(map(str, objects.services("ns"))) == sorted(map(str, there.values()))
    assert list(objects.services("other")) == []
    expected = default_selector(labels, there.values())
    assert default_selector(labels, objects.services_for("ns", labels)) == expected
    assert default_selector(labels, objects.services_for("other", labels)) == selector()
