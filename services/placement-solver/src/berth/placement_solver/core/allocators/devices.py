"""Devices by minor. Of GPUs alone several lie close together; for one, how full it is says more."""

from __future__ import annotations

from berth.placement_solver.core.constraints.device_share import DeviceShare
from berth.placement_solver.core.devices import GPU, NoCapacity, allocate, allocate_gpus
from berth.placement_solver.core.devices.asked import Answer, DeviceQuery
from berth.placement_solver.core.devices.record import all_grants
from berth.placement_solver.core.seams import Choice, Rejection, Target


class DeviceAllocator:
    """See `Allocator`. The query is that of DeviceShare."""

    constraint = DeviceShare.name

    def __init__(self, device_share: DeviceShare) -> None:
        self._device_share = device_share

    def choose(self, query: DeviceQuery, target: Target) -> Choice | Rejection:
        """See `Allocator`."""
        if self._device_share.is_by_number(query, target.row):
            refusal = self._device_share.filter(query, target)
            return Choice() if refusal is None else refusal
        if not self._device_share.is_aligned:
            target = target._replace(zones=None)
        answer = self._answer(query, target)
        if isinstance(answer, NoCapacity):
            return Rejection((answer.reason,), not answer.unresolvable)
        return Choice(all_grants(answer, query.request.hints))

    def _answer(self, query: DeviceQuery, target: Target) -> Answer:
        want = self._device_share.plain_want(query, target)
        if want is None:
            return self._device_share.choose(query, target)
        preferred: set[int] = set()
        if target.reservation:
            left = (claim for claim in target.hypothesis.gone if claim.uid == target.reservation)
            preferred = {grant.minor for claim in left for grant in claim.grants if grant.kind == GPU.name}
        choose = allocate_gpus if want.instances > 1 else allocate
        found = choose(
            self._device_share.cards(target), want, scoring=self._device_share.scoring[GPU.name], preferred=preferred
        )
        return found if isinstance(found, NoCapacity) else {GPU.name: found}
