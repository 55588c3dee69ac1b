"""Small worlds for one look: objects as the API lists them, a ledger, and which invariants a check finds broken."""

from __future__ import annotations

from typing import Any

import msgspec

from berth.contracts import names, subjects
from berth.contracts.codec import encode
from berth.contracts.ledger import Decision, Epoch, Plan, PlanStatus
from berth.invariants import Report, World, check


def meta(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "uid": f"uid-{name}", **fields}


def pod(
    name: str,
    node: str = "",
    requests: dict[str, str] | None = None,
    *,
    labels: dict[str, str] | None = None,
    notes: dict[str, str] | None = None,
    phase: str = "Running",
    scheduler: str = names.SCHEDULER_NAME,
    plan: str = "plan-1",
) -> dict[str, Any]:
    annotations = {**(notes or {}), **({names.ANNOTATION_PLAN: plan} if node and plan else {})}
    return {
        "metadata": meta(name, namespace="default", labels=labels or {}, annotations=annotations),
        "spec": {
            "nodeName": node,
            "schedulerName": scheduler,
            "containers": [{"name": "main", "resources": {"requests": requests or {}}}],
        },
        "status": {"phase": phase if node else "Pending"},
    }


def on_gpu(name: str, minor: int, percent: int, node: str = "n1", **fields: Any) -> dict[str, Any]:
    resources = {names.GPU_CORE: str(percent), names.GPU_MEMORY_RATIO: str(percent)}
    note = msgspec.json.encode({"gpu": [{"minor": minor, "resources": resources}]}).decode()
    return pod(name, node, resources, notes={names.ANNOTATION_DEVICE_ALLOCATED: note}, **fields)


def node(name: str = "n1", cpu: str = "8", pods: str = "110", **more: str) -> dict[str, Any]:
    return {"metadata": meta(name), "status": {"allocatable": {"cpu": cpu, "memory": "32Gi", "pods": pods, **more}}}


def quota(name: str, most: dict[str, str], least: dict[str, str] | None = None, parent: str = "") -> dict[str, Any]:
    labels = {names.LABEL_QUOTA_PARENT: parent} if parent else {}
    spec = {"max": most, "min": least or {}}
    return {"metadata": meta(name, namespace="quotas", labels=labels), "spec": spec}


def reservation(name: str = "r1", amounts: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": meta(name, annotations=spec.pop("notes", {})),
        "spec": {"owners": [{"labelSelector": {"matchLabels": {"app": "db"}}}], **spec},
        "status": {"phase": "Available", "nodeName": "n1", "allocatable": amounts or {"cpu": "4"}},
    }


def decision(name: str, node: str = "n1", **fields: Any) -> Decision:
    return Decision(
        **{
            "plan": "plan-1",
            "namespace": "default",
            "name": name,
            "uid": f"uid-{name}",
            "attempt": 0,
            "node": node,
            "pod_version": 1,
            "basis": 1,
            **fields,
        }
    )


def ledger(*decisions: Decision, status: PlanStatus | None = PlanStatus.COMMITTED) -> dict[str, tuple[int, bytes]]:
    messages: dict[str, bytes] = {
        subjects.decision_key(1, each.namespace, each.name): encode(each) for each in decisions
    }
    if status is not None:
        messages[subjects.plan_key(1, "plan-1")] = encode(Plan(id="plan-1", status=status))
    messages[subjects.EPOCH_KEY] = encode(Epoch(epoch=1))
    return {key: (sequence, value) for sequence, (key, value) in enumerate(messages.items(), 1)}


def broken(report: Report) -> list[str]:
    return [result.name for result in report.results if not result.ok]


def check_of(**world: Any) -> list[str]:
    return broken(check(World.of(**world)))


def user(name: str, app: str = "db", node: str = "n1", cpu: str = "4") -> dict[str, Any]:
    note = {names.ANNOTATION_RESERVATION_ALLOCATED: '{"name":"r1","uid":"uid-r1"}'}
    return pod(name, node, {"cpu": cpu}, labels={"app": app}, notes=note)
