"""NodeNUMAResource: CPUs of its own for a pod, and the NUMA nodes that its CPUs, memory, hugepages and devices lie on
together.

Pods of the classes LSE and LSR ask for CPUs, an annotation of the pod or the node asks for NUMA nodes. Which policy
holds follows from both and from kubelet (`berth.rules.cpus.bind_policy`, `berth.rules.numa.policy`); what fits one node
is `berth.rules.numa.align`. The mask lets through what may fit by numbers: so many CPUs, so much of a NUMA node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.state import PodTemplate
from berth.placement_solver.core.cores import CoresAsked, Verdict
from berth.placement_solver.core.cores.judging import (
    SINGLE,
    kind_of,
    policy_of,
)
from berth.placement_solver.core.cores.lacking import LackingCores
from berth.placement_solver.core.cores.placing import UNCOUNTED, UNKNOWN
from berth.placement_solver.core.seams import (
    Depends,
    Mask,
    Rejected,
    Rejection,
    RowArray,
    Spec,
    Target,
    Unusable,
)
from berth.rules.cpus.bind_policy import (
    CpuBinding,
    cpu_binding,
    format_resource_spec,
    read_resource_spec,
    unsupported_policy,
    with_resolved_policy,
)
from berth.rules.cpus.qos import LSE, LSR, priority_class_or_default, qos_class
from berth.rules.cpus.take import INSUFFICIENT, NOT_ENOUGH
from berth.rules.numa.policy import NO_SPEC, read_numa_spec
from berth.rules.records.resource_status import own_milli, pinned_requests

WAIT: Final = "none is needed; if this lasts, see whether device-inventory and cluster-watcher work"
"""For who may fit once the CPUs are known."""
PODS_MAX: Final = 1 << 20
"""More than this no node takes."""


class NodeNUMAResource(LackingCores):
    """See the module. The query is what the pod asks for; where it asks for nothing a node may still give it some."""

    name = "NodeNUMAResource"
    depends = Depends.NODE | Depends.CAPACITY
    exact = False

    def notes_of(self, template: PodTemplate) -> dict[str, str]:
        """What of a pod the query depends on beside its request and its QoS class; nothing for most pods."""
        annotations, labels = template.annotations, template.labels
        notes = {}
        if names.ANNOTATION_NUMA_SPEC in annotations:
            notes[names.ANNOTATION_NUMA_SPEC] = annotations[names.ANNOTATION_NUMA_SPEC]
        if labels.get(names.LABEL_QOS) in (LSE, LSR):
            notes[names.ANNOTATION_RESOURCE_SPEC] = annotations.get(names.ANNOTATION_RESOURCE_SPEC, "")
            notes[names.LABEL_PRIORITY_CLASS] = priority_class_or_default(labels, template.priority, "")
        is_imposed = self._cores.imposes
        if (notes or is_imposed) and template.overhead:
            notes["overhead"] = str(template.overhead.get(names.CPU, 0))
        if is_imposed:
            notes["imposed"] = ""
        return notes

    def prefilter(self, spec: Spec) -> CoresAsked | Unusable | None:
        """See `Constraint`."""
        template = spec.template
        if not any(amount > 0 for amount in template.requests.values()):
            return None
        milli = own_milli(template)
        binding: CpuBinding | Problem | None = CpuBinding(milli // 1000)
        if qos_class(template.labels) in (LSE, LSR):
            requests = pinned_requests(template)
            binding = cpu_binding(
                template.labels, template.annotations, template.priority, requests, default=self._default_bind
            )
            if isinstance(binding, CpuBinding) and (problem := _unsupported(template)) is not None:
                return Unusable((problem,))
        wish = read_numa_spec(template.annotations) if names.ANNOTATION_NUMA_SPEC in template.annotations else NO_SPEC
        problems = tuple(each for each in (binding, wish) if isinstance(each, Problem))
        if problems:
            return Unusable(problems)
        if not isinstance(binding, CpuBinding) or isinstance(wish, Problem):
            return None
        if not (binding.bound or wish.policy or self._cores.imposes):
            return None
        # What they cannot use they say themselves.
        asked = ((each, each.prefilter(spec)) for each in self._beside)
        beside = tuple(each for each in asked if not isinstance(each[1], Unusable | Rejection | None))
        return CoresAsked(template.requests, milli, binding, wish, beside, self._beside_kubelet)

    def filter(self, query: CoresAsked, target: Target) -> Rejection | None:
        """See `Constraint`."""
        found = self.place(query, target)
        return found if isinstance(found, Rejection) else None

    def rejections(self, query: CoresAsked, rows: RowArray) -> list[Rejected]:
        """See `Constraint`. Numbers of CPUs are compared for all rows at once; NUMA nodes are looked at one by one."""
        cores = self._cores
        cores.follow()
        verdicts = cores.verdicts(query)
        found: dict[tuple[str, bool], Mask] = {}

        def tell(reason: str, place: int, *, resolvable: bool) -> None:
            key = (reason, resolvable)
            if key not in found:
                found[key] = np.zeros(rows.shape, np.bool_)
            found[key][place] = True

        for place, (row, code) in enumerate(zip(rows.tolist(), cores.make[rows].tolist(), strict=True)):
            verdict = verdicts[code]
            if not verdict.concerns:
                continue
            reason = self._short(verdict, row)
            if reason:
                resolvable = not verdict.reason and verdict.own <= cores.ground(row).own_cpus
                tell(reason, place, resolvable=reason in (UNCOUNTED, UNKNOWN) or resolvable)
            elif verdict.policy or verdict.required or verdict.amplified:
                found_here = self.place(query, Target(row))
                for text in found_here.reasons if isinstance(found_here, Rejection) else ():
                    tell(text, place, resolvable=isinstance(found_here, Rejection) and found_here.resolvable)
        return [
            Rejected(reason, mask, resolvable, repair=WAIT if reason == UNCOUNTED else "")
            for (reason, resolvable), mask in found.items()
        ]

    def resource_spec(self, query: CoresAsked, row: int, annotations: Mapping[str, str]) -> str:
        """What a pod's annotation says once the bind policy that holds on a node is written out; empty where it says so
        already, or gets no CPUs of its own there."""
        verdict, spec = self._verdict(query, row), read_resource_spec(annotations)
        if not verdict.own or isinstance(spec, Problem):
            return ""
        resolved = with_resolved_policy(spec, verdict.bind, required=verdict.required)
        return format_resource_spec(resolved) if resolved != spec else ""

    def pods_at_most(self, query: CoresAsked, rows: RowArray) -> RowArray:
        """See `Summed`. Of a single NUMA node each as many as it has free of what they need."""
        cores = self._cores
        cores.follow()
        verdicts, codes = cores.verdicts(query), cores.make[rows]
        own = np.array([each.own for each in verdicts], np.int64)[codes]
        kind = np.array([kind_of(each) for each in verdicts], np.intp)[codes]
        is_single = np.array([policy_of(each) == SINGLE for each in verdicts], np.bool_)[codes]
        most = np.where(own > 0, cores.free[kind, rows] // np.maximum(own, 1), PODS_MAX)
        if is_single.any():
            zones = cores.zone_columns
            there = zones.there[:, rows]
            here = np.where(there, PODS_MAX, 0)
            here = np.where(
                own > 0, np.minimum(here, zones.cpus[:, :, rows][kind, :, range(rows.size)].T // own.clip(1)), here
            )
            for name, place in zones.resources.items():
                amount = query.amounts.get(name, 0)
                if amount > 0 and name != names.CPU:
                    fitting = zones.free[place][:, rows] // amount
                    here = np.where(zones.reported[place, rows], np.minimum(here, fitting), here)
            most = np.where(is_single, np.minimum(most, here.sum(axis=0)), most)
        found: RowArray = most
        return found

    def units(self, query: CoresAsked) -> int:
        """See `Summed`: CPUs of its own."""
        return query.binding.number if query.binding.bound else 0

    def units_left(self, rows: RowArray) -> RowArray:
        """See `Summed`."""
        self._cores.follow()
        left: RowArray = self._cores.free[0, rows]
        return left

    def _short(self, verdict: Verdict, row: int) -> str:
        """The reason that numbers alone give against a node; empty: none."""
        cores = self._cores
        if not verdict.places:
            return ""
        if cores.uncounted[row]:
            return UNCOUNTED
        if verdict.reason:
            return verdict.reason
        if cores.blocked[row]:
            return UNKNOWN
        if verdict.policy or verdict.amplified:
            return ""
        if cores.free[0, row] < verdict.own:
            return NOT_ENOUGH
        return INSUFFICIENT.format(verdict.bind) if cores.free[kind_of(verdict), row] < verdict.own else ""


def _unsupported(template: PodTemplate) -> Problem | None:
    spec = read_resource_spec(template.annotations)
    return spec if isinstance(spec, Problem) else unsupported_policy(spec)
