"""What is to be done next for the steps before a bind, as a table of what the view shows."""

from __future__ import annotations

from typing import Any

import pytest

from berth.cluster_writer.core.progress import Outcome, Progress, View
from berth.cluster_writer.core.steps import next_step
from berth.contracts import names
from berth.contracts.kube import NodeSelector, NodeSelectorTerm, Requirement
from berth.contracts.ledger import Decision, Step
from berth.contracts.state import Node, PersistentVolume, PersistentVolumeClaim
from berth.rules.storage import StorageObjects

NODE = Node(name="n", uid="n", version=1, labels={"host": "n"})
BIND = Step(action="bind-volume", claim="c", claim_uid="uid-c", volume="v", volume_uid="uid-v")
PROVISION = Step(action="provision-volume", claim="c", claim_uid="uid-c")


def claim(**fields: Any) -> PersistentVolumeClaim:
    fields = {"uid": "uid-c", "version": 7} | fields
    return PersistentVolumeClaim(namespace="ns", name="c", **fields)


def volume(**fields: Any) -> PersistentVolume:
    fields = {"uid": "uid-v", "version": 8, "phase": "Available"} | fields
    return PersistentVolume(name="v", **fields)


def only(host: str) -> NodeSelector:
    expression = Requirement(key="host", operator="In", values=[host])
    return NodeSelector(node_selector_terms=[NodeSelectorTerm(match_expressions=[expression])])


def outcome(step: Step, *objects: Any, known: bool = True, asked: dict[int, int] | None = None) -> Outcome:
    storage = StorageObjects()
    for each in objects:
        if isinstance(each, PersistentVolume):
            storage.see_volume(each.name, each)
        else:
            storage.see_claim((each.namespace, each.name), each)
    decision = Decision(
        plan="p", namespace="ns", name="pod", uid="u", attempt=0, node="n", pod_version=1, basis=1, before=[step]
    )
    return next_step(decision, View(storage, known), NODE, asked or {})


def test_a_free_volume_is_kept_for_the_claim_guarded_by_uid_and_version() -> None:
    found = outcome(BIND, claim(), volume())
    assert found.progress is Progress.REQUEST
    assert found.request is not None
    assert (found.request.resource.plural, found.request.name) == ("persistentvolumes", "v")
    assert found.request.body == {
        "metadata": {
            "uid": "uid-v",
            "resourceVersion": "8",
            "annotations": {names.ANNOTATION_BOUND_BY_CONTROLLER: "yes"},
        },
        "spec": {
            "claimRef": {
                "kind": "PersistentVolumeClaim",
                "apiVersion": "v1",
                "namespace": "ns",
                "name": "c",
                "uid": "uid-c",
            }
        },
    }


def test_a_claim_is_asked_to_name_the_node() -> None:
    found = outcome(PROVISION, claim())
    assert found.request is not None
    assert (found.request.resource.plural, found.request.namespace) == ("persistentvolumeclaims", "ns")
    assert found.request.body == {
        "metadata": {
            "uid": "uid-c",
            "resourceVersion": "7",
            "annotations": {"volume.kubernetes.io/selected-node": "n"},
        }
    }


BOUND = {"volume": "v", "is_bound": True}
KEPT = {"claim": "ns/c", "claim_uid": "uid-c"}


@pytest.mark.parametrize(
    ("step", "objects", "progress", "reason"),
    [
        (BIND, [claim(**BOUND), volume(**KEPT)], Progress.DONE, ""),
        (BIND, [claim(), volume(**KEPT)], Progress.WAIT, "is not bound to v yet"),
        (BIND, [claim(volume="v"), volume(**KEPT)], Progress.WAIT, "is not bound to v yet"),
        (BIND, [claim(), volume(claim="ns/c")], Progress.REQUEST, ""),
        (BIND, [claim(), volume(claim="ns/d", claim_uid="uid-d")], Progress.REFUSED, "is bound to claim ns/d"),
        (BIND, [claim(), volume(claim="ns/c", claim_uid="former")], Progress.REFUSED, "is bound to claim ns/c"),
        (BIND, [claim(volume="w"), volume()], Progress.REFUSED, "is bound to volume w, not to v"),
        (BIND, [claim()], Progress.REFUSED, "persistentvolume v is gone"),
        (BIND, [claim(), volume(uid="anew")], Progress.REFUSED, "persistentvolume v is gone"),
        (BIND, [volume()], Progress.REFUSED, "persistentvolumeclaim c is gone"),
        (BIND, [claim(uid="anew"), volume()], Progress.REFUSED, "persistentvolumeclaim c is gone"),
        (BIND, [claim(deleting=True), volume()], Progress.REFUSED, "is being deleted"),
        (BIND, [claim(phase="Lost", volume="v"), volume()], Progress.REFUSED, "non-existent persistentvolume"),
        (PROVISION, [claim(selected_node="n")], Progress.WAIT, "is not provisioned yet"),
        (PROVISION, [claim(selected_node="n", volume="v"), volume()], Progress.WAIT, "is not bound to v yet"),
        (PROVISION, [claim(selected_node="m")], Progress.REFUSED, "is provisioned for node m"),
        (PROVISION, [claim(**BOUND), volume(node_affinity=only("n"))], Progress.DONE, ""),
        (PROVISION, [claim(**BOUND), volume(node_affinity=only("m"))], Progress.REFUSED, "which n does not reach"),
        (PROVISION, [], Progress.REFUSED, "persistentvolumeclaim c is gone"),
        (Step(action="pray", claim="c", claim_uid="uid-c"), [claim()], Progress.REFUSED, "step pray is not known"),
    ],
)
def test_progress(step: Step, objects: list[Any], progress: Progress, reason: str) -> None:
    found = outcome(step, *objects)
    assert found.progress is progress
    assert reason in found.reason


def test_what_is_missing_is_waited_for_while_not_everything_is_read() -> None:
    assert outcome(BIND, known=False).progress is Progress.WAIT
    assert outcome(BIND, claim(), known=False).progress is Progress.WAIT


def test_a_node_that_the_provisioner_took_away_again() -> None:
    assert outcome(PROVISION, claim(version=7), asked={0: 9}).progress is Progress.WAIT
    found = outcome(PROVISION, claim(version=12), asked={0: 9})
    assert found.progress is Progress.REFUSED
    assert "the provisioner has given up" in found.reason


def test_a_volume_that_was_written_is_not_written_again_before_it_is_seen() -> None:
    assert outcome(BIND, claim(), volume(), asked={0: 9}).progress is Progress.WAIT
