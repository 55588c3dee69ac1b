"""The bound: more of the GPUs than this nobody can have given out who takes pods as they come.

A linear program over kinds of nodes, whose cores, memory and cards are pooled, and kinds of pods. Cards are cut by
flows through the percents that are free. What had arrived before a run refused a pod for the first time has to be
placed; of the rest it may choose. It sees no node by itself, so it may be above what can be reached; columns of whole
nodes come to the same on the default trace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import cvxpy as cp
import numpy as np
from scipy import sparse

from berth.simcluster.generate.build import PodRequest
from berth.simcluster.openb import TraceNode

WHOLE: Final = 100


def bound(nodes: Sequence[TraceNode], pods: Sequence[PodRequest], needed: int) -> float | None:
    """Percent of all GPUs, where the first `needed` of these pods have to be placed; None: they cannot all be."""
    kinds = Counter((node.model, node.gpus, node.cpu_milli, node.memory_mib) for node in nodes)
    every, first = Counter(pods), Counter(pods[:needed])
    classes, shapes = list(every), list(kinds)
    counts = np.array([kinds[shape] for shape in shapes], float)
    cards = np.array([shape[1] for shape in shapes]) * counts
    most = np.array([every[cls] for cls in classes], float)
    least = np.array([first[cls] for cls in classes], float)
    shares = np.array([cls.gpu_milli // 10 if cls.gpus == 1 and cls.gpu_milli < 1000 else 0 for cls in classes])
    whole = np.array([0.0 if share else float(cls.gpus) for cls, share in zip(classes, shares, strict=True)])
    gpus = whole + shares / WHOLE
    placed = cp.Variable((len(classes), len(shapes)), nonneg=True)
    sizes = sorted(set(shares.tolist()) - {0})
    arcs = [(free, size) for free in range(1, WHOLE + 1) for size in (*sizes, 1) if size <= free]
    flow, cut = cp.Variable(len(arcs), nonneg=True), cp.Variable(len(shapes), nonneg=True)
    out = _incidence([free for free, _ in arcs])
    into = _incidence([free - size for free, size in arcs])
    source = np.zeros(WHOLE + 1)
    source[WHOLE] = 1.0
    inner = slice(1, WHOLE + 1)
    constraints = [
        cp.sum(placed, axis=1) <= most,
        cp.sum(placed, axis=1) >= least,
        np.array([cls.cpu_milli for cls in classes]) @ placed <= counts * [shape[2] for shape in shapes],
        np.array([cls.memory_mib for cls in classes]) @ placed <= counts * [shape[3] for shape in shapes],
        whole @ placed + cut <= cards,
        (shares / WHOLE) @ placed <= cut,
        (out @ flow)[inner] == (into @ flow)[inner] + source[inner] * cp.sum(cut),
    ]
    for size in sizes:
        of_size = np.array([float(each == size) for _, each in arcs])
        demand = np.array(shares == size, float) @ cp.sum(placed, axis=1)
        # An arc of one percent is also what is wasted.
        constraints.append(demand <= of_size @ flow)
    barred = np.array([[not _suits(cls, shape) for shape in shapes] for cls in classes])
    if barred.any():
        constraints.append(cp.multiply(barred.astype(float), placed) == 0)
    problem = cp.Problem(cp.Maximize(gpus @ cp.sum(placed, axis=1)), constraints)
    problem.solve(solver=cp.HIGHS)
    if problem.status != cp.OPTIMAL:
        return None
    return 100.0 * float(problem.value) / float(cards.sum())


def _suits(cls: PodRequest, shape: tuple[str, int, int, int]) -> bool:
    model, gpus, cpu, memory = shape
    fits = cls.gpus <= gpus and cls.cpu_milli <= cpu and cls.memory_mib <= memory
    return fits and (not cls.models or model in cls.models)


def _incidence(rows: list[int]) -> sparse.csr_matrix:
    return sparse.csr_matrix((np.ones(len(rows)), (rows, range(len(rows)))), shape=(WHOLE + 1, len(rows)))
