"""The question to the price maker: what arrives, and the nodes that it could go to, as columns.

It is made where the columns are, and answered in a child process that knows nothing of nodes and classes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from berth.contracts import names
from berth.contracts.state import Node
from berth.placement_solver.core.nodes import CPU
from berth.placement_solver.core.prices.table import WHOLE
from berth.placement_solver.core.prices.workload import Workload
from berth.placement_solver.core.seams import Mask, RowArray

if TYPE_CHECKING:
    from berth.placement_solver.core.classes import PodClass
    from berth.placement_solver.core.nodes import Nodes
    from berth.placement_solver.core.price import Price

CLASSES: Final = 128
"""The most frequent ones, by the GPUs that they ask for."""
KINDS: Final = 32
"""Of nodes, by the GPUs that they have. Those beyond count as nodes of the last kind."""
DEMAND: Final = 1.3
"""The workload is taken as if it asked for so many times the GPUs that there are: what is short shows then."""
TIME_LIMIT_S: Final = 5.0


class PriceProblem(msgspec.Struct, frozen=True, tag=True):
    """Columns over classes: `pods` that come, `cores` of each, `share` of one card in percent or `whole` cards; over
    kinds of nodes: their `cards` and `cores_of_nodes`. `suits[class][kind]` says whether it may go there."""

    pods: list[float]
    cores: list[float]
    share: list[int]
    whole: list[float]
    cards: list[float]
    cores_of_nodes: list[float]
    suits: list[list[bool]]
    time_limit_s: float = TIME_LIMIT_S


def price_problem(workload: Workload, nodes: Nodes, suitable: Callable[[PodClass], Mask]) -> PriceProblem | None:
    """The question as things are; None where nothing is to be priced."""
    size = len(nodes)
    counts = nodes.gpu_count[:size] * nodes.alive[:size]
    rows = np.flatnonzero(counts)
    listed = sorted(
        ((part * cls.price.gpus, part, cls) for cls, part in workload.classes() if cls.price is not None),
        key=lambda each: (-each[0], each[2].index),
    )[:CLASSES]
    asked = sum(gpus for gpus, _, _ in listed)
    if not rows.size or asked <= 0.0:
        return None
    kind_of, cards, cores = _kinds(nodes, rows)
    scale = DEMAND * float(counts.sum()) / asked
    chosen = [cls for _, _, cls in listed]
    prices = [cls.price for cls in chosen if cls.price is not None]
    return PriceProblem(
        pods=[part * scale for _, part, _ in listed],
        cores=[cls.requests.get(names.CPU, 0) / 1000.0 for cls in chosen],
        share=[_share(price) for price in prices],
        whole=[0.0 if _share(price) else price.gpus for price in prices],
        cards=cards,
        cores_of_nodes=cores,
        suits=[_suits(suitable(cls)[rows], kind_of, len(cards)) for cls in chosen],
    )


def _share(price: Price) -> int:
    """Percent of one card; a whole card is no share, whatever it is called."""
    return price.share if price.share < WHOLE else 0


def _kinds(nodes: Nodes, rows: RowArray) -> tuple[RowArray, list[float], list[float]]:
    """Which kind the node of each row is of, and the cards and cores of each kind."""
    counts, cpu = nodes.gpu_count[rows].tolist(), nodes.allocatable[CPU, rows].tolist()
    shapes = [(_model(nodes.states[row]), *shape) for row, *shape in zip(rows.tolist(), counts, cpu, strict=True)]
    by_shape: Counter[tuple[str, int, int]] = Counter()
    for shape in shapes:
        by_shape[shape] += shape[1]
    ordered = sorted(by_shape, key=lambda shape: (-by_shape[shape], shape))
    place = {shape: min(at, KINDS - 1) for at, shape in enumerate(ordered)}
    kind_of = np.array([place[shape] for shape in shapes], np.intp)
    number = int(kind_of.max()) + 1
    cards = np.bincount(kind_of, counts, number)
    cores = np.bincount(kind_of, cpu, number) / 1000.0
    return kind_of, cards.tolist(), cores.tolist()


def _model(node: Node | None) -> str:
    return "" if node is None else node.labels.get(names.LABEL_GPU_MODEL, "")


def _suits(suitable: Mask, kind_of: RowArray, number: int) -> list[bool]:
    """Whether half of the nodes of each kind suit."""
    suits = np.bincount(kind_of, suitable, number)
    found: list[bool] = (2 * suits >= np.bincount(kind_of, minlength=number)).tolist()
    return found
