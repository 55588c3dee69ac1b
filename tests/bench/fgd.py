"""Fragmentation Gradient Descent, as its authors ran it: the yardstick of the benchmarks of quality.

Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent", USENIX
ATC 2023. One pod at a time; a pod that fits nowhere is dropped. The fragmentation of a node is what a pod drawn from
the workload cannot use of its idle GPUs, and a pod goes where it makes that grow least: a score of
`floor(100 sigmoid(before - after))` in cards, ties to the first node. Of cards the best, the first of them on ties. The
floor matters: without it pods scatter over nodes whose difference is noise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from berth.simcluster.generate.build import PodRequest
from berth.simcluster.openb import TraceNode

CARDS = 8
COVERED = 0.95
"""Of the workload's pods, by frequency: the typical ones."""

Key = tuple[int, int, int, tuple[str, ...]]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class _Typical(NamedTuple):
    """What is drawn from the workload, one entry each."""

    cpu: Ints
    milli: Ints
    count: Ints
    frequency: Floats
    models: Sequence[tuple[str, ...]]


def _key(request: PodRequest) -> Key:
    return request.cpu_milli, request.gpu_milli if request.gpus else 0, request.gpus, tuple(request.models)


def typical_pods(workload: Sequence[PodRequest]) -> list[tuple[Key, int]]:
    """The kinds of pods that are typical of a workload (cores, thousandths of a card, cards, models), and how many."""
    counted = Counter(map(_key, workload))
    chosen: list[tuple[Key, int]] = []
    covered = 0
    for key, number in sorted(counted.items(), key=lambda each: (-each[1], each[0])):
        if covered >= COVERED * len(workload):
            break
        chosen.append((key, number))
        covered += number
    return chosen


def _typical(workload: Sequence[PodRequest]) -> _Typical:
    chosen = typical_pods(workload)
    covered = sum(number for _, number in chosen)
    keys = [key for key, _ in chosen]
    return _Typical(
        np.array([key[0] for key in keys]),
        np.array([key[1] for key in keys]),
        np.array([key[2] for key in keys]),
        np.array([number / covered for _, number in chosen]),
        [key[3] for key in keys],
    )


class _Kind:
    """Pods of one request: the score of each node, kept for nodes that nothing has touched since."""

    def __init__(self, nodes: int) -> None:
        self.score = np.full(nodes, -1.0)
        self.card = np.zeros(nodes, np.intp)
        self.seen = -1


class Fgd:
    """The nodes, in the order that decides ties, and what is on them."""

    def __init__(self, nodes: Sequence[TraceNode], workload: Sequence[PodRequest]) -> None:
        self._typical = _typical(workload)
        self._models = np.array([node.model for node in nodes])
        self.cpu = np.array([node.cpu_milli for node in nodes], np.int64)
        self.memory = np.array([node.memory_mib for node in nodes], np.int64)
        self.free = np.array([[1000] * node.gpus + [0] * (CARDS - node.gpus) for node in nodes], np.int64)
        self._suits = np.array(
            [[not of or node.model in of for of in self._typical.models] for node in nodes], np.bool_
        )
        self._frag = self._fragmentation(self.cpu, self.free, np.arange(len(nodes)))
        self._kinds: dict[PodRequest, _Kind] = {}
        self._log: list[int] = []

    def place(self, pod: PodRequest) -> tuple[int, tuple[int, ...]] | None:
        """The node and the cards that the pod takes, or None: it fits nowhere."""
        kind = self._kinds.get(pod)
        if kind is None:
            kind = self._kinds[pod] = _Kind(self.cpu.size)
        if kind.seen < 0:
            self._score(pod, kind, np.arange(self.cpu.size))
        elif kind.seen < len(self._log):
            self._score(pod, kind, np.unique(np.array(self._log[kind.seen :], np.intp)))
        kind.seen = len(self._log)
        node = int(np.argmax(kind.score))
        if kind.score[node] < 0:
            return None
        if not pod.gpus:
            cards: tuple[int, ...] = ()
        elif pod.gpus == 1 and pod.gpu_milli < 1000:
            cards = (int(kind.card[node]),)
        else:
            cards = tuple(np.flatnonzero(self.free[node] == 1000)[: pod.gpus].tolist())
        self._charge(pod, node, cards, 1)
        return node, cards

    def remove(self, pod: PodRequest, node: int, cards: tuple[int, ...]) -> None:
        """It leaves."""
        self._charge(pod, node, cards, -1)

    def _charge(self, pod: PodRequest, node: int, cards: tuple[int, ...], sign: int) -> None:
        self.cpu[node] -= sign * pod.cpu_milli
        self.memory[node] -= sign * pod.memory_mib
        for card in cards:
            self.free[node, card] -= sign * pod.gpu_milli
        row = np.array([node])
        self._frag[node] = self._fragmentation(self.cpu[row], self.free[row], row)[0]
        self._log.append(node)

    def _fragmentation(self, cpu: Ints, free: Ints, rows: npt.NDArray[np.intp]) -> Floats:
        """Idle thousandths of cards that a typical pod cannot use."""
        typical = self._typical
        enough = free[:, None, :] >= np.maximum(typical.milli, 1)[None, :, None]
        fits = (
            (enough.sum(2) >= typical.count) & (typical.count > 0) & (cpu[:, None] >= typical.cpu) & self._suits[rows]
        )
        idle = free.sum(1)[:, None]
        unusable = np.where(enough, 0, free[:, None, :]).sum(2)
        return np.where(fits, unusable, idle) @ typical.frequency

    def _score(self, pod: PodRequest, kind: _Kind, rows: npt.NDArray[np.intp]) -> None:
        kind.score[rows] = -1.0
        free = self.free[rows]
        fits = (self.cpu[rows] >= pod.cpu_milli) & (self.memory[rows] >= pod.memory_mib)
        if pod.models:
            fits &= np.isin(self._models[rows], pod.models)
        if pod.gpus:
            fits &= (free >= pod.gpu_milli).sum(1) >= pod.gpus
        rows, free = rows[fits], free[fits]
        if not rows.size:
            return
        cpu = self.cpu[rows] - pod.cpu_milli
        if pod.gpus == 1 and pod.gpu_milli < 1000:
            at, card = np.nonzero(free >= pod.gpu_milli)
            after = free[at]
            after[np.arange(at.size), card] -= pod.gpu_milli
            scores = self._points(rows[at], self._fragmentation(cpu[at], after, rows[at]))
            best = np.full(rows.size, -1.0)
            np.maximum.at(best, at, scores)
            first = np.full(rows.size, CARDS)
            good = scores == best[at]
            np.minimum.at(first, at[good], card[good])
            kind.score[rows], kind.card[rows] = best, first
            return
        after = free.copy()
        if pod.gpus:
            whole = np.cumsum(free == 1000, axis=1)
            after[(free == 1000) & (whole <= pod.gpus)] = 0
        kind.score[rows] = self._points(rows, self._fragmentation(cpu, after, rows))

    def _points(self, rows: npt.NDArray[np.intp], after: Floats) -> Floats:
        grown = (self._frag[rows] - after) / 1000.0
        return np.floor(100.0 / (1.0 + np.exp(-grown)))
