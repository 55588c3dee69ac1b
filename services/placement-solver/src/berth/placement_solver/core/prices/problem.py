"""The question to the price maker: what arrives, and the nodes and quotas that it could use, as columns.

It is made where the columns are, and answered in a child process that knows nothing of nodes and classes. A `Layout`
says what the columns were, for whoever reads the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import numpy as np

from berth.contracts import names
from berth.placement_solver.core.nodes import CPU
from berth.placement_solver.core.prices.models import Models
from berth.placement_solver.core.prices.paying import Charge, charges_of
from berth.placement_solver.core.prices.table import WHOLE
from berth.placement_solver.core.prices.workload import Group, Workload
from berth.placement_solver.core.seams import Mask, RowArray

if TYPE_CHECKING:
    from berth.placement_solver.core.classes import PodClass
    from berth.placement_solver.core.price import Price
    from berth.placement_solver.core.quotas import Quotas

CLASSES: Final = 128
"""The most frequent ones, by the GPUs that they ask for."""
KINDS: Final = 32
"""Of nodes, by the GPUs that they have. Those beyond count as nodes of the last kind."""
QUOTAS: Final = 16
"""Limits of quota groups, those first that the most is asked of."""
DEMAND: Final = 1.3
"""The workload is taken as if it asked for so many times the GPUs that there are: what is short shows then."""
TIME_LIMIT_S: Final = 5.0
SHORT: Final = 3.0
"""What a card is worth to a class that falls short of the others, who each have the same part of what they ask for."""


class PriceProblem(msgspec.Struct, frozen=True, tag=True):
    """Columns over classes: `pods` that come, `cores` of each, `share` of one card in percent or `whole` cards; over
    kinds of nodes: their `cards` and `cores_of_nodes`. `suits[class][kind]` says whether it may go there. `quotas` are
    limits in cards, and `charges[quota][class]` the cards that a pod is charged there."""

    pods: list[float]
    cores: list[float]
    share: list[int]
    whole: list[float]
    cards: list[float]
    cores_of_nodes: list[float]
    suits: list[list[bool]]
    quotas: list[float] = []
    charges: list[list[float]] = []
    time_limit_s: float = TIME_LIMIT_S


class Duals(msgspec.Struct, frozen=True):
    """The answer. `shares[s]` is what a share of s percent, 0 to 99, is worth as a part of a card that is cut at its
    best. What one more would let in, in cards of the workload: `cards` and `cores` of each kind of nodes, `quotas` of
    each limit. `short` are pods of each class that found no place where those of others did."""

    shares: list[float]
    cards: list[float] = []
    cores: list[float] = []
    quotas: list[float] = []
    short: list[float] = []


class Kind(NamedTuple):
    """Nodes that are alike: so many of them, and what each has."""

    model: str
    nodes: int
    cards: float
    cores: float

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.model or 'GPU'} x{self.cards:g}"


class Layout(NamedTuple):
    """What the columns stand for. `arriving` says which shares arrive, by size."""

    classes: tuple[PodClass, ...]
    kinds: tuple[Kind, ...]
    charges: tuple[Charge, ...]
    arriving: dict[int, float]


def price_problem(
    workload: Workload,
    models: Models,
    suitable: Callable[[PodClass], Mask],
    quotas: Quotas,
    arriving: dict[int, float] | None = None,
) -> tuple[PriceProblem, Layout] | None:
    """The question as things are; None where nothing is to be priced."""
    nodes = models.nodes
    size = len(nodes)
    counts = nodes.gpu_count[:size] * nodes.alive[:size]
    rows = np.flatnonzero(counts)
    charges = charges_of(workload, quotas)
    listed = sorted(
        ((part * cls.price.gpus, part, cls, payer) for cls, payer, part in _split(workload, charges) if cls.price),
        key=lambda each: (-each[0], each[2].index, each[3] or ("", "")),
    )[:CLASSES]
    asked = sum(gpus for gpus, *_ in listed)
    if not rows.size or asked <= 0.0:
        return None
    kind_of, kinds = _kinds(models, rows)
    scale = DEMAND * float(counts.sum()) / asked
    chosen = [cls for _, _, cls, _ in listed]
    prices = [cls.price for cls in chosen if cls.price is not None]
    suits: dict[int, list[bool]] = {}
    by_mask: dict[bytes, list[bool]] = {}  # many classes can go to the same nodes
    for cls in chosen:
        if cls.index not in suits:
            mask = suitable(cls)[rows]
            key = mask.tobytes()
            if key not in by_mask:
                by_mask[key] = _suits(mask, kind_of, len(kinds))
            suits[cls.index] = by_mask[key]
    limits = sorted(charges, key=lambda each: (each.limit / max(each.asked * scale, 1e-9), each.name))[:QUOTAS]
    problem = PriceProblem(
        pods=[part * scale for _, part, _, _ in listed],
        cores=[cls.requests.get(names.CPU, 0) / 1000.0 for cls in chosen],
        share=[_share(price) for price in prices],
        whole=[0.0 if _share(price) else price.gpus for price in prices],
        cards=[kind.nodes * kind.cards for kind in kinds],
        cores_of_nodes=[kind.nodes * kind.cores for kind in kinds],
        suits=[suits[cls.index] for cls in chosen],
        quotas=[charge.limit for charge in limits],
        charges=[
            [charge.of(cls) if payer in charge.payers else 0.0 for _, _, cls, payer in listed] for charge in limits
        ],
    )
    return problem, Layout(
        tuple(chosen),
        tuple(kinds),
        tuple(limits),
        {size: part for size, part in (arriving or {}).items() if size < WHOLE},
    )


def _split(workload: Workload, charges: Sequence[Charge]) -> list[tuple[PodClass, Group | None, float]]:
    """The classes with their part of all arrivals; by who pays, where that limits anything."""
    limited = {payer for charge in charges for payer in charge.payers}
    paid: dict[PodClass, list[tuple[Group, float]]] = {}
    for cls, payer, part in workload.paid():
        if payer in limited:
            paid.setdefault(cls, []).append((payer, part))
    found: list[tuple[PodClass, Group | None, float]] = []
    for cls, part in workload.classes():
        by_payer = paid.get(cls, [])
        found += [(cls, payer, of_payer) for payer, of_payer in by_payer]
        if (rest := part - sum(of_payer for _, of_payer in by_payer)) > 1e-9:
            found.append((cls, None, rest))
    return found


def _share(price: Price) -> int:
    """Percent of one card; a whole card is no share, whatever it is called."""
    return price.share if price.share < WHOLE else 0


def _kinds(models: Models, rows: RowArray) -> tuple[RowArray, list[Kind]]:
    """Which kind the node of each row is of, and the kinds. Of those that count as the last one, what each has is their
    mean."""
    nodes = models.nodes
    counts, cpu = nodes.gpu_count[rows], nodes.allocatable[CPU, rows]
    sizes, size_of = np.unique(cpu, return_inverse=True)
    span = int(counts.max()) + 1
    shapes, shape_of = np.unique((models.of(rows) * span + counts) * sizes.size + size_of, return_inverse=True)
    cards_of = np.bincount(shape_of, counts).tolist()
    named = [
        (models.names[shape // (span * sizes.size)], shape // sizes.size % span, sizes[shape % sizes.size].item())
        for shape in shapes.tolist()
    ]
    ordered = sorted(range(len(named)), key=lambda at: (-cards_of[at], named[at]))
    place = np.zeros(len(named), np.intp)
    place[ordered] = np.minimum(np.arange(len(named)), KINDS - 1)
    kind_of = place[shape_of]
    number = int(kind_of.max()) + 1
    of_kind = np.bincount(kind_of, minlength=number)
    cards = np.bincount(kind_of, counts, number) / of_kind
    cores = np.bincount(kind_of, cpu, number) / of_kind / 1000.0
    shown = [
        named[shape][0] if at < KINDS - 1 or len(ordered) <= KINDS else "" for at, shape in enumerate(ordered[:KINDS])
    ]
    return kind_of, [Kind(*each) for each in zip(shown, of_kind.tolist(), cards.tolist(), cores.tolist(), strict=True)]


def _suits(suitable: Mask, kind_of: RowArray, number: int) -> list[bool]:
    """Whether half of the nodes of each kind suit."""
    suits = np.bincount(kind_of, suitable, number)
    found: list[bool] = (2 * suits >= np.bincount(kind_of, minlength=number)).tolist()
    return found
