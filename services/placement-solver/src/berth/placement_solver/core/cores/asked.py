"""What a pod asks for of CPUs and NUMA nodes, and what that comes to on nodes of each make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from berth.contracts.names import CPU
from berth.placement_solver.core.cores.make import Make
from berth.placement_solver.core.seams import Rejection, ZoneHinter
from berth.rules.cpus.bind_policy import CpuBinding, bind_on_node
from berth.rules.cpus.cpuset import NO_CPUS
from berth.rules.cpus.resource_status import ZoneShare
from berth.rules.numa.amplified_cpu import INVALID
from berth.rules.numa.hints import NO_ZONES
from berth.rules.numa.policy import NumaSpec, pair_policy
from berth.rules.numa.zone_sets import ZoneSet


class Verdict(NamedTuple):
    """What a pod gets on a node of some make: a number of CPUs of its own by `bind`, which `required` says must hold,
    and the NUMA policy that it is placed by. `amplified`: its cpu is compared with cpu of which there is less than is
    shown. Nothing of that: it is not concerned. Or the `reason` why it never may go there.
    """

    own: int = 0
    bind: str = ""
    required: bool = False
    policy: str = ""
    reason: str = ""
    amplified: bool = False

    @property
    def concerns(self) -> bool:
        """Whether the node has to be looked at."""
        return self.amplified or self.places

    @property
    def places(self) -> bool:
        """Whether the node's CPUs and NUMA nodes have to be looked at."""
        return bool(self.own or self.policy or self.reason)


class Outline(NamedTuple):
    """What verdicts come to together, as of so many of a generation of makes.

    `alike` is the one verdict of all makes that give CPUs or NUMA nodes, where amplified cpu plays no part; None: there
    are several. `gives` and `aside` say by make which do, and which are not concerned.
    """

    as_of: tuple[int, int]
    concerns: bool
    alike: Verdict | None
    gives: npt.NDArray[np.bool_]
    aside: npt.NDArray[np.bool_]

    def giving(self, codes: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.bool_]:
        """Which of these makes give."""
        makes = np.flatnonzero(self.gives)
        found: npt.NDArray[np.bool_] = codes == makes[0] if makes.size == 1 else self.gives[codes]
        return found


class Placed(NamedTuple):
    """What a pod gets on one node: CPUs of its own, shares of NUMA nodes, and the NUMA nodes that everything of it
    stays on (None: any)."""

    cpus: frozenset[int] = NO_CPUS
    shares: tuple[ZoneShare, ...] = ()
    zones: ZoneSet | None = None


class Known(NamedTuple):
    """What was said of one node, as long as `key` and `zones`, the object, are what they were."""

    key: object
    zones: object
    found: Placed | Rejection


@dataclass(eq=False, slots=True)
class CoresAsked:
    """The query of NodeNUMAResource.

    Attributes:
        amounts: what the pod asks for.
        pinned_milli: its cpu without what its overhead is.
        binding: whether it asks for CPUs of its own.
        spec: the NUMA policy that it asks for.
        beside: what it asks for that lies on NUMA nodes as well, each with the constraint that says where it could.
        beside_kubelet: it may have CPUs of its own also where kubelet gives out CPUs itself.
        verdicts: on nodes of each make, as of `verdicts_at`; kept by `Cores`.
        known: what was said of single nodes, by row; kept by the constraint.
        outlined: the verdicts together.
    """

    amounts: Mapping[str, int]
    pinned_milli: int
    binding: CpuBinding
    spec: NumaSpec
    beside: tuple[tuple[ZoneHinter, Any], ...] = ()
    beside_kubelet: bool = False
    verdicts: list[Verdict] = field(default_factory=list)
    verdicts_at: int = -1
    known: dict[int, Known] = field(default_factory=dict)
    outlined: Outline | None = None

    def outline(self) -> Outline:
        """The verdicts together."""
        as_of = (self.verdicts_at, len(self.verdicts))
        found = self.outlined
        if found is None or found.as_of != as_of:
            gives = np.array([each.concerns and not each.reason for each in self.verdicts], np.bool_)
            aside = np.array([not each.concerns for each in self.verdicts], np.bool_)
            giving = {each for each in self.verdicts if each.concerns and not each.reason}
            alike = next(iter(giving)) if len(giving) == 1 else None
            if alike is not None and alike.amplified:
                alike = None
            found = self.outlined = Outline(as_of, not aside.all(), alike, gives, aside)
        return found

    def verdict(self, make: Make) -> Verdict:
        """What it gets on nodes of this make."""
        has_cpu = self.amounts.get(CPU, 0) > 0
        if make.is_ratio_broken and has_cpu:
            return Verdict(reason=INVALID)
        pair = pair_policy(self.spec.policy, make.policy)
        if pair.reason:
            return Verdict(reason=pair.reason)
        found = bind_on_node(
            self.binding,
            self.pinned_milli,
            labels=make.by_name,
            kubelet=make.manager,
            layout=make.layout,
            beside_kubelet=self.beside_kubelet,
        )
        if found.reason:
            return Verdict(reason=found.reason)
        if pair.policy and not make.has_zones:
            return Verdict(reason=NO_ZONES)
        return Verdict(
            found.number,
            found.policy if found.number else "",
            found.required,
            pair.policy,
            amplified=make.is_amplified and has_cpu,
        )
