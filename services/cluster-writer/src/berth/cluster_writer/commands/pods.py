"""What is told of pods: that they cannot be placed, and what happened to them."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from berth.cluster_writer.cluster_view import ClusterView
from berth.cluster_writer.commands.outcomes import FIELD_MANAGER, RetryLaterError, outcome_of
from berth.cluster_writer.core.refusing import lets_go, says
from berth.cluster_writer.outbox import Note, Outbox
from berth.contracts.command import RefusePod, ReportPod
from berth.contracts.errors import InvalidMessage
from berth.kube import resources
from berth.kube.api import KubeApi
from berth.kube.bodies import ObjectRef, Patch, timestamp
from berth.rules.pod_reading import PodItem, whole_pod
from berth.runtime.clock import Clock

_REPORT_ID: Final = re.compile(r"[0-9a-f]{8,64}")
_REASON: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,127}")
_POD: Final = msgspec.json.Decoder(PodItem)


class PodCommands:
    """Carries out commands about pods. What came of each, as a word."""

    def __init__(self, cluster: ClusterView, api: KubeApi, outbox: Outbox, clock: Clock) -> None:
        self._cluster = cluster
        self._api = api
        self._outbox = outbox
        self._clock = clock

    async def refuse(self, command: RefusePod) -> str:
        """Tell a pod's owner that it cannot be placed: a condition and an Event, only if that is news; and take back a
        nomination that it could not have.

        The view may be late, and a condition that says False must not land on a pod that was bound meanwhile: the pod
        is read, and the patch guarded by its version.
        """
        seen = self._cluster.book.pods.get((command.namespace, command.name))
        if seen is not None and seen.uid == command.uid and seen.node:
            return "overtaken"
        answer = await self._api.get(resources.PODS, command.namespace, command.name)
        outcome = outcome_of(answer)
        if outcome != "done":
            return outcome
        pod = whole_pod(_POD.decode(answer.body))
        decision = self._cluster.book.open_decision((command.namespace, command.name))
        is_news, is_let_go = not says(pod, command), lets_go(pod, command, decision)
        if pod.metadata.uid != command.uid or pod.spec.node_name or not (is_news or is_let_go):
            return "overtaken"
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": command.reason,
            "message": command.message,
            "lastTransitionTime": timestamp(self._clock.now()),
        }
        guard = {"uid": command.uid, "resourceVersion": pod.metadata.resource_version}
        status: dict[str, Any] = {"conditions": [condition]} if is_news else {}
        if is_let_go:
            status["nominatedNodeName"] = None
        body = {"metadata": guard, "status": status}
        answer = await self._api.patch(
            resources.PODS,
            command.namespace,
            command.name,
            body,
            content_type=Patch.STRATEGIC,
            subresource="status",
            field_manager=FIELD_MANAGER,
        )
        if answer.conflict:
            raise RetryLaterError("the pod has changed meanwhile")
        outcome = outcome_of(answer)
        if outcome == "done" and is_news:
            about = ObjectRef("v1", "Pod", command.namespace, command.name, command.uid)
            self._outbox.put(Note(about, "FailedScheduling", command.message, warning=True, action="Scheduling"))
        return outcome

    async def report(self, command: ReportPod) -> str:
        """Write an Event for a pod, once; none for a pod that is not there."""
        if _REPORT_ID.fullmatch(command.id) is None:
            raise InvalidMessage("id", f"{command.id[:80]!r} is not 8 to 64 hexadecimal digits")
        if _REASON.fullmatch(command.reason) is None:
            raise InvalidMessage("reason", f"{command.reason[:80]!r} is not one word")
        seen = self._cluster.book.pods.get((command.namespace, command.name))
        if seen is None and not self._cluster.book.complete["pods"].is_known:
            raise RetryLaterError("pods were not read yet")
        if seen is None or seen.uid != command.uid:
            return "overtaken"
        about = ObjectRef("v1", "Pod", command.namespace, command.name, command.uid)
        note = Note(about, command.reason, command.message, warning=command.warning, token=command.id)
        self._outbox.put(note)
        return "done"
