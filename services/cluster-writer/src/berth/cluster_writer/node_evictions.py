"""Evictions for a node's sake, one command after the other: note, look, evict (docs/evictions.md, "Node pressure").

The pod carries its note before it is asked to leave, and the eviction names the version that carries it, so what was
looked at is what is evicted. Every command comes to an answer on the pod: it leaves, or its note says why it stays.
Nothing is kept in between; a command that comes again goes on where the pod stands.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from berth.bus.errors import RetryLater
from berth.cluster_writer.core.eviction_answers import Heed, after_request
from berth.cluster_writer.eviction_publisher import EvictionPublisher
from berth.contracts import kube
from berth.contracts.command import EvictionNote, EvictPod
from berth.contracts.errors import InvalidMessage
from berth.contracts.names import ANNOTATION_MIRROR
from berth.contracts.state import Pod, PodTemplate
from berth.kube import resources
from berth.kube.answer import Answer
from berth.kube.api import KubeApi
from berth.rules.node_evictions.notes import MESSAGE_MAX, NodeEviction, eviction_note, noted_eviction
from berth.rules.pod_reading import PodItem, whole_pod
from berth.rules.preemption import why_protected
from berth.runtime.clock import Clock

LATE: Final = "nobody needs it any more"
ELSEWHERE: Final = "it is not on the node"
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_POD: Final = msgspec.json.Decoder(PodItem)


class NodeEvictions:
    """Carries out `EvictPod`."""

    def __init__(self, api: KubeApi, clock: Clock, publisher: EvictionPublisher) -> None:
        self._api = api
        self._clock = clock
        self._publisher = publisher

    async def evict(self, command: EvictPod) -> str:
        """What came of it, as a word. Raises InvalidMessage for what can never work, RetryLater for another try."""
        said = command.note
        if said is None or not command.node or command.revision <= 0:
            raise InvalidMessage("note", "is missing: who is evicted for a node's sake says why")
        answer = await self._api.get(resources.PODS, command.namespace, command.name)
        if answer.missing:
            return self._judge(answer)
        if not answer.ok:
            raise RetryLater(f"{answer.status} {answer.message}")
        pod = whole_pod(_POD.decode(answer.body))
        meta = pod.metadata
        if meta.uid != command.uid or meta.deletion_timestamp:
            return "overtaken"
        before = noted_eviction(meta.annotations or {})
        if before is not None and (before.revision > command.revision or _is_answered(before, command)):
            return "overtaken"
        note = _note_of(command, said)
        why = self._why_it_stays(pod, command)
        if why:
            return await self._refuse(command, note, meta.resource_version, why)
        version = meta.resource_version
        if before != note:
            marked = await self._write(command, note, version)
            version = _POD.decode(marked.body).metadata.resource_version
        return await self._evict(command, note, version)

    async def _evict(self, command: EvictPod, note: NodeEviction, version: str) -> str:
        answer = await self._api.evict(command.namespace, command.name, uid=command.uid, version=version)
        match after_request(answer):
            case Heed.DONE:
                self._publisher.left_for_node(command)
                return "done"
            case Heed.HELD | Heed.REFUSED:
                return await self._refuse(command, note, version, answer.message or f"{answer.status}")
            case Heed.REPEAT:
                raise RetryLater(f"{answer.status} {answer.message}")
            case _ if answer.missing:
                return self._judge(answer)
            case _:
                raise RetryLater("the pod has changed meanwhile")

    async def _refuse(self, command: EvictPod, note: NodeEviction, version: str, why: str) -> str:
        """The note says that it stays. Whoever is gone meanwhile needs none."""
        await self._write(command, msgspec.structs.replace(note, refused=why[:MESSAGE_MAX]), version)
        self._publisher.stays_on_node(command, why)
        return "refused"

    async def _write(self, command: EvictPod, note: NodeEviction, version: str) -> Answer:
        body: dict[str, Any] = {
            "metadata": {"uid": command.uid, "resourceVersion": version, "annotations": eviction_note(note)}
        }
        answer = await self._api.patch(resources.PODS, command.namespace, command.name, body)
        if not answer.ok:
            # Whatever it is, the next try reads the pod anew: gone, changed, or out of reach for now.
            raise RetryLater(f"{answer.status} {answer.message}")
        return answer

    def _why_it_stays(self, pod: kube.Pod, command: EvictPod) -> str:
        if command.until and self._clock.now() > command.until:
            return LATE
        if pod.spec.node_name != command.node:
            return ELSEWHERE
        if (pod.status.phase or "") in _ENDED:
            return "it has ended"
        meta = pod.metadata
        why = why_protected(
            Pod(
                namespace=command.namespace,
                name=command.name,
                uid=command.uid,
                version=0,
                template=PodTemplate(labels=meta.labels or {}),
                mirror=ANNOTATION_MIRROR in (meta.annotations or {}),
            )
        )
        return f"it is protected: {why}" if why else ""

    def _judge(self, answer: Answer) -> str:
        """A pod that is not there has left; a page of a proxy says nothing of it."""
        if after_request(answer) is Heed.LOOK:
            return "overtaken"
        raise RetryLater(f"{answer.status} {answer.message}")


def _is_answered(before: NodeEviction, command: EvictPod) -> bool:
    return before.revision == command.revision and bool(before.refused)


def _note_of(command: EvictPod, note: EvictionNote) -> NodeEviction:
    return NodeEviction(
        node=command.node,
        revision=command.revision,
        need=note.need,
        feature=note.feature,
        accumulator=note.accumulator,
        release=note.release,
        counts=note.counts,
        message=note.message[:MESSAGE_MAX],
    )
