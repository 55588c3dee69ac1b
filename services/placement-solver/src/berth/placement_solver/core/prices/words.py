"""What the answer of the price maker means, for people: what one more of something that is short would let in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from berth.contracts import names
from berth.contracts.prices import Admission
from berth.placement_solver.core.prices.problem import SHORT, Duals, Layout, PriceProblem
from berth.placement_solver.core.prices.table import WHOLE
from berth.placement_solver.core.seams import Floats, Mask

if TYPE_CHECKING:
    from berth.placement_solver.core.classes import PodClass

SHOWN_MAX: Final = 24
LEAST: Final = 0.005
"""In cards: less than that is nothing to speak of."""
CORES: Final = 10
"""So many cores at once are spoken of: one lets little in."""
ARRIVING: Final = "pods as they arrive"


def admissions(problem: PriceProblem, layout: Layout, duals: Duals) -> tuple[Admission, ...]:
    """One for each thing that is short, those of most worth first."""
    found = sorted(_admissions(problem, layout, duals), key=lambda each: (-each.worth, each.kind, each.name))
    return tuple(found[:SHOWN_MAX])


def _admissions(problem: PriceProblem, layout: Layout, duals: Duals) -> Iterator[Admission]:
    reader = _Reader(problem, layout, duals)
    suits = np.array(problem.suits, np.bool_).reshape(len(problem.pods), -1)
    for at, kind in enumerate(layout.kinds):
        can = suits[:, at]
        card, core = duals.cards[at], duals.cores[at]
        if card > LEAST:
            yield reader.admission("card", kind.name, 1, card, can, f"one more card of {kind.name} nodes")
        if CORES * core > LEAST:
            text = f"{CORES} more cores beside the cards of {kind.name} nodes"
            yield reader.admission("core", kind.name, CORES, CORES * core, can, text)
        if (node := kind.cards * card + kind.cores * core) > LEAST:
            yield reader.admission("node", kind.name, 1, node, can, f"one more idle {kind.name} node")
    for at, charge in enumerate(layout.charges):
        if duals.quotas[at] > LEAST:
            charged = np.array(problem.charges[at]) > 0.0
            text = f"one card more for quota {charge.name}"
            yield reader.admission("quota", charge.name, 1, duals.quotas[at], charged, text)


class _Reader:
    """Says in pods what the answer says in cards of the workload."""

    def __init__(self, problem: PriceProblem, layout: Layout, duals: Duals) -> None:
        self._problem, self._layout = problem, layout
        self._gpus: Floats = np.array(problem.whole) + np.array(problem.share) / WHOLE
        self._short: Floats = np.array(duals.short) * self._gpus
        pods: Floats = np.array(problem.pods)
        self._per_card = float(pods.sum()) / max(float(pods @ self._gpus), 1e-9)

    def admission(self, kind: str, name: str, amount: int, worth: float, can: Mask, what: str) -> Admission:
        """Who falls short of the others gets it; where nobody does who can use it, all get their part of it."""
        short = np.where(can, self._short, 0.0)
        at = int(short.argmax())
        if short[at] > LEAST:
            pods, of = worth / (SHORT * self._gpus[at]), f"pods of {self._named(at)}"
        else:
            pods, of = worth * self._per_card, ARRIVING
        verb = "admit" if amount > 1 else "admits"
        text = f"{what} {verb} {pods:.2g} {of}"
        return Admission(
            kind=kind,
            name=name,
            amount=amount,
            worth=round(worth, 4),
            pods=round(float(pods), 4),
            of=of.removeprefix("pods of "),
            text=text,
        )

    def _named(self, at: int) -> str:
        cls = self._layout.classes[at]
        models = sorted(
            {
                kind.model or "GPU"
                for kind, suits in zip(self._layout.kinds, self._problem.suits[at], strict=True)
                if suits
            }
        )
        bound = f" on {' or '.join(models)}" if not all(self._problem.suits[at]) else ""
        payers = [
            charge.name
            for charge, charged in zip(self._layout.charges, self._problem.charges, strict=True)
            if charged[at] > 0.0
        ]
        return f"{class_named(cls)}{bound}{f' of quota {payers[0]}' if payers else ''}"


def class_named(cls: PodClass) -> str:
    """What a pod of the class asks for."""
    gpus = cls.price.gpus if cls.price is not None else 0.0
    cores = cls.requests.get(names.CPU, 0) / 1000.0
    return f"{gpus:g} GPU{'s' if gpus > 1 else ''}, {cores:g} core{'' if cores == 1 else 's'}"
