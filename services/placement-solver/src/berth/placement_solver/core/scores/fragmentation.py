"""Fragmentation Gradient Descent as a score, as its authors ran it: the reference that benchmarks compare with.

Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent", USENIX ATC
2023. The fragmentation of a node is what a pod drawn from the workload cannot use of its idle GPUs, in thousandths of
cards; a node is rated by `floor(100 sigmoid(before - after))`, in cards. Among equals the first node is taken, so the
floor packs: without it pods scatter over nodes whose difference is noise. Of a share's cards the best one counts; which
one it gets is the allocator's choice, as for any score.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from berth.contracts import names
from berth.placement_solver.core.constraints.device_share import DeviceShare
from berth.placement_solver.core.devices.asked import DeviceQuery
from berth.placement_solver.core.nodes import CPU, Nodes
from berth.placement_solver.core.prices.models import model_of
from berth.placement_solver.core.seams import Depends, FirstOfEquals, Floats, Mask, RowArray, Spec
from berth.rules.devices.columns import CORE, RATIO
from berth.rules.scheduler_config import FragmentationArgs

MILLI: Final = 10
"""Thousandths of a card in a percent of it."""

Ints = npt.NDArray[np.int64]


class FragmentationQuery(NamedTuple):
    """What a pod asks for: thousandths of cores, and of each of so many cards."""

    cpu: int
    cards: int
    milli: int


class FragmentationScore(FirstOfEquals):
    """By the typical pods of the profile's arguments; without any all nodes are rated alike."""

    name = "FragmentationGradientDescent"
    depends = Depends.NODE | Depends.CAPACITY

    def __init__(self, nodes: Nodes, device_share: DeviceShare, args: FragmentationArgs | None = None) -> None:
        typical = (args or FragmentationArgs()).typical_pods
        self._nodes = nodes
        self._device_share = device_share
        count = sum(each.count for each in typical)
        self._cpu = np.array([each.cpu_milli for each in typical], np.int64)
        self._cards = np.array([each.gpus for each in typical], np.int64)
        self._milli = np.array([MILLI * each.gpu_percent if each.gpus else 0 for each in typical], np.int64)
        self._frequency = np.array([each.count / count for each in typical])
        self._models = [frozenset(each.models) for each in typical]

    def prescore(self, spec: Spec) -> FragmentationQuery | None:
        """Every pod is rated: one without GPUs may leave some without cores."""
        if not self._models:
            return None
        cpu = spec.template.requests.get(names.CPU, 0)
        asked = self._device_share.prefilter(spec)
        want = asked.cards if isinstance(asked, DeviceQuery) else None
        if want is None:
            return FragmentationQuery(cpu, 0, 0)
        return FragmentationQuery(cpu, want.instances, MILLI * max(want.amounts[CORE], want.amounts[RATIO]))

    def raw(self, query: FragmentationQuery, rows: RowArray) -> Floats:
        """The score of each row."""
        nodes = self._nodes
        free = np.minimum(nodes.fleet.percent[:, rows], 100).astype(np.int64).T * MILLI
        cpu, suits = nodes.free[CPU, rows], self._suits(rows)
        before = self._fragmentation(cpu, free, suits)
        left = cpu - query.cpu
        if query.cards == 1 and query.milli < 100 * MILLI:
            at, card = np.nonzero(free >= query.milli)
            after = free[at]
            after[np.arange(at.size), card] -= query.milli
            rated = _points(before[at], self._fragmentation(left[at], after, suits[at]))
            best = np.zeros(rows.size)
            np.maximum.at(best, at, rated)
            return best
        after = free.copy()
        if query.cards:
            serving = free >= query.milli
            taken = serving & (np.cumsum(serving, axis=1) <= query.cards)
            after[taken] -= query.milli
        return _points(before, self._fragmentation(left, after, suits))

    def normalise(self, query: FragmentationQuery, raw: Floats, rows: RowArray) -> Floats:
        """As they are."""
        return raw

    def _suits(self, rows: RowArray) -> Mask:
        """Whether typical pods may go to the nodes, by the models of their cards; rows x pods."""
        found = np.ones((rows.size, len(self._models)), np.bool_)
        if any(self._models):
            shown = [model_of(self._nodes.states[row]) for row in rows.tolist()]
            for at, models in enumerate(self._models):
                if models:
                    found[:, at] = [model in models for model in shown]
        return found

    def _fragmentation(self, cpu: Ints, free: Ints, suits: Mask) -> Floats:
        """Idle thousandths of cards that a typical pod cannot use, of nodes with so many cores and cards free."""
        enough = free[:, None, :] >= np.maximum(self._milli, 1)[None, :, None]
        fits = (enough.sum(2) >= self._cards) & (self._cards > 0) & (cpu[:, None] >= self._cpu) & suits
        unusable = np.where(enough, 0, free[:, None, :]).sum(2)
        found: Floats = np.where(fits, unusable, free.sum(1)[:, None]) @ self._frequency
        return found


def _points(before: Floats, after: Floats) -> Floats:
    found: Floats = np.floor(100.0 / (1.0 + np.exp(-(before - after) / 1000.0)))
    return found
