"""`resource-status`: the CPUs that a pod has to itself, and what it was given of each NUMA node.

A pod without a record was given neither, and shares. A record of more CPUs than the pod asks for counts for the first
of them; of NUMA nodes it counts for no more than the request. A pod that does not ask for CPUs of its own may have been
given them all the same, by a node that gives them to every pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.grants import COUNT, CPU, ZONE, one
from berth.contracts.ledger import Grant
from berth.contracts.state import Device, PodTemplate
from berth.resources.amounts import add_into
from berth.rules.cpus.bind_policy import CpuBinding, cpu_binding
from berth.rules.cpus.qos import LSE, LSR
from berth.rules.cpus.resource_status import ZoneShare, format_resource_status, read_resource_status
from berth.rules.records.seam import Bound

KINDS: Final = frozenset({CPU, ZONE})
SHARES: Final = CpuBinding()
"""Of a pod that asks for no CPUs of its own."""


class ResourceStatus:
    """See `GrantRecord`."""

    name = "cores"
    annotations: tuple[str, ...] = (names.ANNOTATION_RESOURCE_STATUS,)
    nothing = "{}"
    kinds = KINDS
    resources: frozenset[str] = frozenset()

    def asks(self, template: PodTemplate) -> bool:
        """Whether such a pod has a record that has to be read."""
        if template.annotations.get(names.ANNOTATION_RESOURCE_STATUS, "") in ("", self.nothing):
            return False
        return may_own_cpus(template) or names.ANNOTATION_NUMA_SPEC in template.annotations

    def unknown(self, amounts: Mapping[str, int]) -> str:
        """See `GrantRecord`."""
        return self.name

    def blocks(self, unknown: str) -> frozenset[str]:
        """See `GrantRecord`."""
        return self.kinds if unknown == self.name else frozenset()

    def write(self, bound: Bound) -> dict[str, str]:
        """The text that Koordinator writes for the same CPUs and NUMA nodes, and by which policy they were chosen."""
        cpus = cpus_of(bound.grants)
        zones = zones_of(bound.grants)
        if not cpus and not zones:
            return {}
        shares = [ZoneShare(zone, dict(sorted(amounts.items()))) for zone, amounts in sorted(zones.items())]
        spec = {names.ANNOTATION_RESOURCE_SPEC: bound.resource_spec} if bound.resource_spec else {}
        return {names.ANNOTATION_RESOURCE_STATUS: format_resource_status(cpus, shares), **spec}

    def read(self, annotations: Mapping[str, str]) -> tuple[Grant, ...] | None:
        """See `GrantRecord`."""
        if not annotations.get(names.ANNOTATION_RESOURCE_STATUS):
            return ()
        status = read_resource_status(annotations)
        if isinstance(status, Problem):
            return None
        zones: dict[int, dict[str, int]] = {}
        for share in status.zones:
            add_into(zones.setdefault(share.zone, {}), share.amounts)
        return (
            *(one(CPU, str(cpu)) for cpu in sorted(status.cpus)),
            *(zone_grant(zone, amounts) for zone, amounts in sorted(zones.items())),
        )

    def completed(self, grants: tuple[Grant, ...], template: PodTemplate) -> tuple[Grant, ...]:
        """See `GrantRecord`; whose CPUs they must not be near, no record says."""
        binding = binding_of(template)
        if not (binding.bound and binding.exclusive):
            return grants
        return tuple(one(CPU, grant.id, binding.exclusive) if grant.kind == CPU else grant for grant in grants)

    def within(self, grants: tuple[Grant, ...], template: PodTemplate) -> tuple[Grant, ...]:
        """See `GrantRecord`."""
        if not any(grant.kind in KINDS for grant in grants):
            return ()
        binding = binding_of(template)
        count = binding.number if binding.bound else own_milli(template) // 1000
        extension = binding.exclusive if binding.bound else ""
        cpus = (one(CPU, str(cpu), extension) for cpu in sorted(cpus_of(grants))[:count])
        return (*cpus, *_zones_within(grants, template.requests))

    def held(self, grants: tuple[Grant, ...], template: PodTemplate) -> tuple[Grant, ...]:
        """See `GrantRecord`."""
        found = self.within(grants, template)
        binding = binding_of(template) if grants else SHARES
        missing = binding.bound and sum(1 for grant in found if grant.kind == CPU) < binding.number
        return () if missing else found

    def whole(self, kind: str, resource: str) -> int | None:
        """See `GrantRecord`."""
        return 1 if kind == CPU and resource == COUNT else None

    def called(self, grant: Grant) -> str:
        """See `GrantRecord`."""
        return f"CPU {grant.id}" if grant.kind == CPU else f"NUMA node {grant.id}"

    def broken(self, grant: Grant, device: Device | None) -> str:
        """See `GrantRecord`; a Device says nothing of them."""
        return ""


def may_own_cpus(template: PodTemplate) -> bool:
    """Whether a pod is of a class that has CPUs of its own, whatever else it says."""
    return template.labels.get(names.LABEL_QOS, "") in (LSE, LSR)


def binding_of(template: PodTemplate) -> CpuBinding:
    """Which CPUs of its own a pod asks for, by the default policies; one that cannot be read asks for none."""
    if not may_own_cpus(template):
        return SHARES
    requests = pinned_requests(template)
    found = cpu_binding(template.labels, template.annotations, template.priority, requests)
    return found if isinstance(found, CpuBinding) else SHARES


def pinned_requests(template: PodTemplate) -> Mapping[str, int]:
    """What a pod asks for, with the cpu that its own CPUs are for: overhead is what runs beside its containers."""
    overhead = template.overhead.get(names.CPU, 0)
    return template.requests if not overhead else template.requests | {names.CPU: own_milli(template)}


def own_milli(template: PodTemplate) -> int:
    """The cpu of a pod without its overhead, in thousandths."""
    return max(0, template.requests.get(names.CPU, 0) - template.overhead.get(names.CPU, 0))


def cpus_of(grants: Iterable[Grant]) -> frozenset[int]:
    """The CPUs among grants."""
    return frozenset(int(grant.id) for grant in grants if grant.kind == CPU and grant.minor >= 0)


def zones_of(grants: Iterable[Grant]) -> dict[int, dict[str, int]]:
    """What grants give of each NUMA node."""
    return {int(grant.id): dict(grant.amounts) for grant in grants if grant.kind == ZONE and grant.minor >= 0}


def zone_grant(zone: int, amounts: Mapping[str, int]) -> Grant:
    """The grant of a share of a NUMA node."""
    return Grant(kind=ZONE, id=str(zone), amounts=dict(amounts))


def _zones_within(grants: Iterable[Grant], requests: Mapping[str, int]) -> Iterable[Grant]:
    left = dict(requests)
    for zone, amounts in sorted(zones_of(grants).items()):
        share = {}
        for name, amount in amounts.items():
            part = min(amount, left.get(name, 0))
            if part > 0:
                share[name] = part
                left[name] -= part
        if share:
            yield zone_grant(zone, share)
