"""Pods of STATE as these rules take them."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from berth.contracts.state import Pod, PodTemplate
from berth.rules.cpus.qos import PROD, priority_class_or_default
from berth.rules.load_aware.estimate import estimate_pod, estimated_until, factors_of
from berth.rules.load_aware.existing import Assigned
from berth.rules.load_aware.filter import Incoming
from berth.rules.scheduler_config.load_aware import LoadAwareArgs
from berth.rules.times import unix_of


def incoming_of(args: LoadAwareArgs, template: PodTemplate, owner_kinds: Iterable[str] = ()) -> Incoming:
    """A pod that waits. Factors of its own that cannot be read say nothing."""
    priority_class = priority_class_or_default(template.labels, template.priority, template.kube_qos)
    factors, _ = factors_of(args, template.annotations)
    estimate = estimate_pod(template.requests, template.limits, priority_class, factors)
    return Incoming(estimate, priority_class == PROD, tuple(owner_kinds))


def assigned_of(args: LoadAwareArgs, key: object, template: PodTemplate, pod: Pod | None = None) -> Assigned:
    """A pod that has its node; `pod` None: nobody has seen it there.

    Who is not seen bound has been measured by nobody, however old its decision is.
    """
    incoming = incoming_of(args, template)
    scheduled_s = scheduled_at(pod) if pod is not None else inf
    initialized_s = unix_of(pod.initialized) if pod is not None and pod.initialized else None
    until_s = estimated_until(args, template.annotations, scheduled_s=scheduled_s, initialized_s=initialized_s)
    return Assigned(key, incoming.estimate, scheduled_s, until_s, incoming.is_prod)


def scheduled_at(pod: Pod) -> float:
    """When it was bound, in unix seconds: its condition says so, else kubelet has taken it up later; infinite while
    neither is known."""
    text = pod.scheduled or pod.started
    found = unix_of(text) if pod.node and text else None
    return inf if found is None else found
