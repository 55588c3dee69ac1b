"""Looks at a story, as the shell would take them: lists at one moment, the ledger at the same or a later one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from tests.libs.invariants.story import Story

from berth.auditor.handlers import Announcement, Desk
from berth.auditor.lists import Lists
from berth.contracts import kube, names
from berth.contracts.codec import decode
from berth.contracts.event import AuditReported


def lists_of(story: Story, metrics: list[dict[str, Any]] | None = None) -> Lists:
    def read(plural: str, kind: Any) -> list[Any]:
        return [msgspec.convert(each, kind) for each in story.objects.get(plural, {}).values()]

    return Lists(
        pods=[pod for pod in read("pods", kube.Pod) if pod.status.phase not in ("Succeeded", "Failed")],
        nodes=read("nodes", kube.Node),
        devices=read("devices", kube.Device),
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


def desk(settle_s: float = 60.0) -> Desk:
    return Desk(schedulers=frozenset({names.SCHEDULER_NAME}), settle_s=settle_s)


def look(at: Desk, story: Story, metrics: list[dict[str, Any]] | None = None) -> list[str]:
    """What a look at this very moment tells, as `verb promise`."""
    return told(at.look(lists_of(story, metrics), ledger_of(story), story.now_s))


def told(announcements: list[Announcement]) -> list[str]:
    return sorted(f"{each.verb} {each.difference.promise}" for each in announcements)


def event_of(announcement: Announcement) -> AuditReported:
    return decode(announcement.payload, AuditReported)
