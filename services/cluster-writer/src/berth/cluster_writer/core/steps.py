"""What has to be done next for the steps before a bind: a function of what the view shows of claims, volumes and pods.

A step (R17) is a request, guarded by uid and resource version, and then a wait: the PersistentVolume controller binds a
claim to the volume that is kept for it, a provisioner makes one for a claim that names a node. Doing a step again
changes nothing: what is asked for already is only waited for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from berth.cluster_writer.core.progress import Outcome, Progress, Request, View
from berth.cluster_writer.core.take_over_steps import POD_ACTIONS, note_step
from berth.contracts import names
from berth.contracts.ledger import Decision, Step
from berth.contracts.state import Node, PersistentVolume, PersistentVolumeClaim
from berth.kube import resources
from berth.rules.volume_binding import is_bound, is_reached, unusable

BIND: Final = "bind-volume"
PROVISION: Final = "provision-volume"
TIMEOUT_S: Final = 600.0
"""How long kube-scheduler waits for volumes."""


def next_step(decision: Decision, view: View, node: Node, asked: Mapping[int, int]) -> Outcome:
    """The first step that is not done yet, and what it takes.

    `asked` has the resource version that each step's request, by its place, left its object with: by that it is known
    whether a provisioner has taken the node away again.
    """
    for place, step in enumerate(decision.before):
        outcome = _outcome(decision, place, step, view, node, asked.get(place, 0))
        if outcome.progress is not Progress.DONE:
            return outcome
    return Outcome(Progress.DONE)


def _outcome(decision: Decision, place: int, step: Step, view: View, node: Node, asked: int) -> Outcome:
    if step.action in POD_ACTIONS:
        return note_step(decision, place, step, view.pods, asked)
    outcome = _bound_elsewhere(decision, step, view)
    if outcome is not None:
        return outcome
    if step.action == BIND:
        return _bind(decision, place, step, view, node, asked)
    if step.action == PROVISION:
        return _provision(decision, place, step, view, node, asked)
    return Outcome(Progress.REFUSED, f"step {step.action} is not known")


def timed_out(reason: str, timeout_s: float) -> str:
    """The reason of a decision that is given up because its volumes have not come."""
    return f"binding volumes: not done after {timeout_s:g} s: {reason}"


def _claim(decision: Decision, step: Step, view: View) -> PersistentVolumeClaim | None:
    claim = view.storage.claim((decision.namespace, step.claim))
    return claim if claim is not None and claim.uid == step.claim_uid else None


def _bound_elsewhere(decision: Decision, step: Step, view: View) -> Outcome | None:
    """What holds of a claim in every step: it has to be there, and of use."""
    claim = _claim(decision, step, view)
    if claim is None:
        return _missing(f"persistentvolumeclaim {step.claim} is gone", view)
    problem = unusable(claim)
    return Outcome(Progress.REFUSED, problem) if problem else None


def _missing(reason: str, view: View) -> Outcome:
    return Outcome(Progress.REFUSED if view.is_known else Progress.WAIT, reason)


def _bind(decision: Decision, place: int, step: Step, view: View, node: Node, asked: int) -> Outcome:
    claim, volume = _claim(decision, step, view), view.storage.volume(step.volume)
    if claim is None:
        return _missing(f"persistentvolumeclaim {step.claim} is gone", view)
    if claim.volume and claim.volume != step.volume:
        text = f"persistentvolumeclaim {claim.name} is bound to volume {claim.volume}, not to {step.volume}"
        return Outcome(Progress.REFUSED, text)
    if volume is not None and not is_reached(volume, node.labels):
        return Outcome(Progress.REFUSED, f"persistentvolume {volume.name} is not reached from node {node.name}")
    if is_bound(claim):
        return Outcome(Progress.DONE)
    if volume is None or volume.uid != step.volume_uid:
        return _missing(f"persistentvolume {step.volume} is gone", view)
    if volume.version < asked:
        return Outcome(Progress.WAIT, f"persistentvolume {volume.name} is not seen as it was written yet")
    owner = f"{claim.namespace}/{claim.name}"
    if volume.claim not in ("", owner) or volume.claim_uid not in ("", claim.uid):
        return Outcome(Progress.REFUSED, f"persistentvolume {volume.name} is bound to claim {volume.claim}")
    if volume.deleting:
        return Outcome(Progress.REFUSED, f"persistentvolume {volume.name} is being deleted")
    if volume.claim_uid == claim.uid:
        return Outcome(Progress.WAIT, f"persistentvolumeclaim {claim.name} is not bound to {volume.name} yet")
    return Outcome(Progress.REQUEST, "", _keep(volume, claim, place))


def _keep(volume: PersistentVolume, claim: PersistentVolumeClaim, place: int) -> Request:
    metadata: dict[str, Any] = {"uid": volume.uid, "resourceVersion": str(volume.version)}
    if not volume.claim:
        # Tells the controller that it may undo the binding, as it may not where a user has written the claim.
        metadata["annotations"] = {names.ANNOTATION_BOUND_BY_CONTROLLER: "yes"}
    reference = {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "namespace": claim.namespace,
        "name": claim.name,
        "uid": claim.uid,
    }
    body = {"metadata": metadata, "spec": {"claimRef": reference}}
    return Request(resources.PERSISTENT_VOLUMES, "", volume.name, body, place)


def _provision(decision: Decision, place: int, step: Step, view: View, node: Node, asked: int) -> Outcome:
    claim = _claim(decision, step, view)
    if claim is None:
        return _missing(f"persistentvolumeclaim {step.claim} is gone", view)
    if claim.version < asked:
        return Outcome(Progress.WAIT, f"persistentvolumeclaim {claim.name} is not seen as it was written yet")
    if is_bound(claim):
        volume = view.storage.volume(claim.volume)
        if volume is None:
            return _missing(f"persistentvolume {claim.volume} is gone", view)
        if not is_reached(volume, node.labels):
            text = (
                f"persistentvolumeclaim {claim.name} is bound to volume {volume.name}, which {node.name} does not reach"
            )
            return Outcome(Progress.REFUSED, text)
        return Outcome(Progress.DONE)
    if claim.volume:
        return Outcome(Progress.WAIT, f"persistentvolumeclaim {claim.name} is not bound to {claim.volume} yet")
    if claim.selected_node == decision.node:
        return Outcome(Progress.WAIT, f"the volume of persistentvolumeclaim {claim.name} is not provisioned yet")
    if claim.selected_node:
        text = f"the volume of persistentvolumeclaim {claim.name} is provisioned for node {claim.selected_node}"
        return Outcome(Progress.REFUSED, text)
    if asked:
        text = f"the provisioner has given up the volume of persistentvolumeclaim {claim.name} on node {decision.node}"
        return Outcome(Progress.REFUSED, text)
    guard = {"uid": claim.uid, "resourceVersion": str(claim.version)}
    body = {"metadata": {**guard, "annotations": {names.ANNOTATION_SELECTED_NODE: decision.node}}}
    return Outcome(
        Progress.REQUEST, "", Request(resources.PERSISTENT_VOLUME_CLAIMS, claim.namespace, claim.name, body, place)
    )
