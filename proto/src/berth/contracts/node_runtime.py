"""METRICS, key `runtime.<node>`: how a node's agent stands with the container runtime, written by that agent alone."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from berth.contracts.base import Message, Part

FINDINGS_MAX: Final = 256
MESSAGE_MAX: Final = 1_024
NAME_MAX: Final = 4_096
_Name = Annotated[str, Meta(max_length=NAME_MAX)]


class PodFinding(Part, frozen=True, kw_only=True):
    """Something wrong with a pod of the node, or with one of its containers (`container` empty: with the pod).

    `kind` is `lacking` (the container began without the agent, and without what was granted), `corrected` (it began
    with other CPUs than its own, and has its own now), `devices` (it cannot have them), `cpus` (it cannot have all of
    its own, or shares them), `update` (the runtime has refused new limits), `score` (it cannot begin with its OOM
    score) or `files` (a limit of its pod could not be lifted). `message` names the field of the record, or what is
    missing.
    """

    namespace: _Name
    pod: _Name
    uid: _Name
    container: _Name = ""
    kind: _Name
    message: Annotated[str, Meta(max_length=MESSAGE_MAX)]


class NodeRuntime(Message, frozen=True, kw_only=True, tag="noderuntime.set.v1"):
    """The agent as a plugin of the container runtime, and what it finds wrong with pods.

    Written when something of it changes, and once a minute: one that is older than three minutes is of an agent that
    does not run. `at` is unix seconds of the node's clock, for people. `isolation` is what isolates shared GPUs in
    containers that begin now (`HAMi-core`), empty where nothing does; `reason` says why. A finding is there while it
    lasts, one of kind `corrected` for ten minutes; a message with more than `FINDINGS_MAX` of them is not read. A
    deletion marker says that the agent is no plugin any more.
    """

    node: str
    at: float
    isolation: str = ""
    reason: str = ""
    findings: Annotated[list[PodFinding], Meta(max_length=FINDINGS_MAX)] = []
