"""Looks at a story, as the shell would take them: lists at one moment, the ledger at the same or a later one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from tests.libs.invariants.story import Story

from berth.auditor.core.objects import Lists
from berth.auditor.core.steps import Steps
from berth.auditor.reconciler import Reconciler
from berth.contracts import kube, names
from berth.contracts.event import AuditReported
from berth.runtime import Event

T = TypeVar("T")


def lists_of(story: Story, metrics: list[dict[str, Any]] | None = None) -> Lists:
    def read(plural: str, kind: Any) -> list[Any]:
        return [msgspec.convert(each, kind) for each in story.objects.get(plural, {}).values()]

    return Lists(
        pods=[pod for pod in read("pods", kube.Pod) if pod.status.phase not in ("Succeeded", "Failed")],
        nodes=read("nodes", kube.Node),
        devices=read("devices", kube.Device),
        topologies=read("noderesourcetopologies", kube.NodeResourceTopology),
        quotas=read("elasticquotas", kube.ElasticQuota),
        pod_groups=read("podgroups", kube.PodGroup),
        reservations=read("reservations", kube.Reservation),
        metrics=[msgspec.convert(each, kube.NodeMetric) for each in metrics or []],
        unreadable=[],
    )


def ledger_of(story: Story) -> Mapping[str, tuple[int, bytes]]:
    live: dict[str, tuple[int, bytes]] = {}
    for key, value, deleted, sequence in story.stored:
        if deleted:
            live.pop(key, None)
        else:
            live[key] = (sequence, value)
    return live


def reconciler(settle_s: float = 60.0) -> Reconciler:
    return Reconciler(schedulers=frozenset({names.SCHEDULER_NAME}), settle_s=settle_s)


def look(at: Reconciler, story: Story, metrics: list[dict[str, Any]] | None = None) -> list[str]:
    """What a look at this very moment tells, as `verb promise`."""
    return told(result(at.looking(lists_of(story, metrics), ledger_of(story), story.now_s)))


def result(steps: Steps[T]) -> T:
    """What work in steps comes to."""
    while True:
        try:
            next(steps)
        except StopIteration as over:
            return over.value


def told(events: list[Event]) -> list[str]:
    found = [event_of(each) for each in events]
    return sorted(f"{'found' if each.lasts else 'gone'} {each.promise}" for each in found)


def event_of(event: Event) -> AuditReported:
    assert isinstance(event.message, AuditReported)
    return event.message
