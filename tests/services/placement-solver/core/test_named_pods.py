"""Which pods are meant one by one, by what owners name."""

from __future__ import annotations

from berth.contracts.kube import ObjectReference, ReservationOwner
from berth.contracts.state import Pod
from berth.placement_solver.core.named_pods import NamedPods


def pod(name: str) -> Pod:
    return Pod(namespace="ns", name=name, uid=f"uid-{name}", version=1)


def owner(**named: str) -> ReservationOwner:
    return ReservationOwner(object=ObjectReference(**named))


def test_pods_are_meant_by_name_or_uid_until_what_names_them_is_gone() -> None:
    named = NamedPods()
    named.put("r", [owner(name="a", namespace="ns")])
    named.put("s", [owner(uid="uid-b"), owner(name="a")])
    assert [named.may_mean(pod(name)) for name in "abc"] == [True, True, False]
    named.remove("s")
    assert [named.may_mean(pod(name)) for name in "abc"] == [True, False, False]
    named.remove("r")
    named.remove("nobody")
    assert not named.may_mean(pod("a"))


def test_who_names_a_namespace_or_labels_means_all_who_are_alike() -> None:
    named = NamedPods()
    named.put("r", [owner(namespace="ns"), ReservationOwner()])
    assert not named.may_mean(pod("a"))
