"""The question about a batch: what waits, and what nodes and quotas had for it when the round began, as columns.

All of it is a relaxation: what is left out here (where pods lie to each other, NUMA nodes, volumes, other devices than
GPUs, which cards) could only make a plan place less, so that the bound stays one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from berth.contracts import names
from berth.placement_solver.core.nodes import AMOUNT_MAX, PODS
from berth.placement_solver.core.quota_left import limits_of
from berth.placement_solver.core.registry import share_a_node
from berth.rules.devices.columns import CORE, GPU, RATIO
from berth.rules.reservation_borrowers import ignores_reservations

if TYPE_CHECKING:
    from berth.placement_solver.core.devices import Want
    from berth.placement_solver.core.nodes import Nodes
    from berth.placement_solver.core.plan import Candidate, Unit
    from berth.placement_solver.core.solve import Solver
    from berth.transaction.claims import Claim

Ints: TypeAlias = npt.NDArray[np.int64]
Percents: TypeAlias = npt.NDArray[np.int16]

ITEMS_MAX: Final = 160
"""Kinds of pods in a batch that is asked about."""
KEPT_MAX: Final = 500
"""Reservations and nominations that are looked at for what they keep."""
TIME_LIMIT_S: Final = 1.0
WHOLE: Final = 100
"""Percent of a card."""


class BoundProblem(msgspec.Struct, frozen=True, kw_only=True, tag="bound"):
    """Items (pods that are alike to the model) x nodes; levels are priorities, the highest first.

    Of item i there are `counts[i]`, of level `level[i]`; each takes `needs[i][r]` of resource r and `share[i]` percent
    of each of `cards[i]` cards, at most one goes to a node where it is `alone[i]`, and `suits[i]` is the mask of the
    nodes that suit it. `placed[l]` pods of each level are in the plan. `free[r]` is what each node has, `percent` what
    is free of each card, cards x nodes. `kept` and `kept_percent` are the same with what Reservations and nominations
    keep, which those that are `spared[i]` may use; empty: nothing is kept for any of them. Of the cards of nodes in
    `uncounted` nothing is known. `gang[i]` is the index of the item's gang, -1 without; of `minimum[g]` members none or
    all are placed, together with those of the other gangs of `group[g]`. `charges[q][i]` is what a pod takes of a limit
    of which `limits[q]` is left.
    """

    counts: list[int]
    level: list[int]
    placed: list[int]
    needs: list[list[int]]
    cards: list[int]
    share: list[int]
    alone: list[bool]
    spared: list[bool]
    suits: list[int]
    masks: list[bytes]
    nodes: int
    free: list[bytes]
    kept: list[bytes]
    percent: bytes
    kept_percent: bytes
    uncounted: list[int]
    gang: list[int]
    minimum: list[int]
    group: list[int]
    limits: list[int]
    charges: list[list[int]]
    time_limit_s: float = TIME_LIMIT_S


class Bound(msgspec.Struct, frozen=True):
    """`counts[l]`: of each priority, from the highest on, the most pods that any plan places which places as many as
    the plan at hand of those before; up to the first at which that is more than the plan has. `method` is that of the
    last: `linear` or `integer`."""

    counts: list[int]
    method: str


class Draft(NamedTuple):
    """The question, the priority of each level, and how many pods of each the batch has."""

    problem: BoundProblem
    priorities: tuple[int, ...]
    pods: tuple[int, ...]


class _Item(NamedTuple):
    """Candidates that are alike. `is_moot`: where it goes, others make room for it, so that it needs nothing."""

    candidates: list[Candidate]
    gang: str
    unit: str
    spared: bool
    is_moot: bool

    @property
    def first(self) -> Candidate:
        return self.candidates[0]


def levels_of(units: Iterable[Unit]) -> dict[int, int]:
    """How many pods and Reservations of each priority a batch has, the highest first."""
    found: dict[int, int] = {}
    for unit in units:
        for candidate in unit.candidates:
            priority = candidate.object.template.priority
            found[priority] = found.get(priority, 0) + 1
    return dict(sorted(found.items(), reverse=True))


def bound_problem(units: Sequence[Unit], solver: Solver, claims: Sequence[Claim]) -> Draft | None:
    """The question about a batch, of whose plan the claims are charged; None where it is too large."""
    pods = levels_of(units)
    capacity, nodes = solver.capacity, solver.nodes
    items = _items(units, solver)
    if len(items) > ITEMS_MAX or len(capacity.reserved) + len(capacity.nominated) > KEPT_MAX:
        return None
    there = {claim.name for claim in claims}
    placed = [sum(candidate.name in there for candidate in item.candidates) for item in items]
    priorities = list(pods)
    level = [priorities.index(item.first.object.template.priority) for item in items]
    resources = sorted({PODS, *(column for item in items for column, _ in item.first.cls.demand.wants)})
    wants = [_card_wants(None if item.is_moot else item.first.cls.want) for item in items]
    has_cards = any(share for _, share in wants)
    columns = _Columns(nodes, resources, has_cards=has_cards)
    columns.give_back(claims)
    free, percent = columns.bytes()
    kept, kept_percent = list[bytes](), b""
    if any(item.spared for item in items):
        columns.give_back(holder.remainder for holder in capacity.reserved.values())
        columns.give_back(nomination.claim for nomination in capacity.nominated)
        kept, kept_percent = columns.bytes()
    suits, masks = _suits(items, solver)
    gangs = {item.gang: item.unit for item in items if item.gang}
    order = list(gangs)
    groups = list(dict.fromkeys(gangs.values()))
    needed = {gang: minimum for unit in units for gang, minimum in unit.needed.items()}
    limits = limits_of([item.first for item in items], capacity.quotas)
    problem = BoundProblem(
        counts=[len(item.candidates) for item in items],
        level=level,
        placed=[sum(at for at, of in zip(placed, level, strict=True) if of == each) for each in range(len(priorities))],
        needs=[_needs(item, resources) for item in items],
        cards=[cards for cards, _ in wants],
        share=[share for _, share in wants],
        alone=[not item.is_moot and not share_a_node(item.first.cls.by_capacity) for item in items],
        spared=[item.spared for item in items],
        suits=suits,
        masks=masks,
        nodes=len(nodes),
        free=free,
        kept=kept,
        percent=percent,
        kept_percent=kept_percent,
        uncounted=_uncounted(nodes) if has_cards else [],
        gang=[order.index(item.gang) if item.gang else -1 for item in items],
        minimum=[needed.get(gang, 0) for gang in order],
        group=[groups.index(gangs[gang]) for gang in order],
        # What the plan is charged is given back.
        limits=[
            each.left + sum(amount * at for amount, at in zip(each.charged, placed, strict=True)) for each in limits
        ],
        charges=[list(each.charged) for each in limits],
    )
    return Draft(problem, tuple(priorities), tuple(pods.values()))


def _items(units: Sequence[Unit], solver: Solver) -> list[_Item]:
    """Those that some plan may place, by what the model knows of them."""
    found: dict[tuple[object, ...], _Item] = {}
    is_nominated = bool(solver.capacity.nominated)
    for unit in units:
        for candidate in unit.candidates:
            cls = candidate.cls
            if cls.refusals or candidate.refusals:
                continue
            gang = unit.gang_of.get(candidate.name, "") if unit.needed else ""
            wish, labels = candidate.wish, candidate.object.template.labels
            is_owner = wish is not None and solver.reservations.may_match(wish)
            spared = is_nominated or is_owner or ignores_reservations(labels)
            is_moot = candidate.is_reservation and solver.may_draw(candidate)
            priority = candidate.object.template.priority
            payer = (candidate.quota, candidate.charge_id, candidate.non_preemptible)
            key = (cls.index, gang, payer, priority, spared, is_moot, candidate.is_reservation)
            item = found.setdefault(key, _Item([], gang, unit.id, spared, is_moot))
            item.candidates.append(candidate)
    return list(found.values())


def _needs(item: _Item, resources: Sequence[int]) -> list[int]:
    cls = item.first.cls
    is_asked = any(each.name == cls.rules.fit.name for each, _ in cls.asked)  # a profile may leave it out
    if item.is_moot or not is_asked:
        return [0] * len(resources)
    asked = dict(cls.demand.wants)
    asked[PODS] = 0 if item.first.is_reservation else 1
    return [min(asked.get(column, 0), AMOUNT_MAX) for column in resources]


def _card_wants(want: Want | None) -> tuple[int, int]:
    """From how many cards, and how many percent of each that takes at least, in cores and memory alike."""
    share = min(want.amounts[CORE], want.amounts[RATIO], WHOLE) if want is not None and want.family is GPU else 0
    return (want.instances, share) if want is not None and share > 0 else (0, 0)


def _suits(items: Sequence[_Item], solver: Solver) -> tuple[list[int], list[bytes]]:
    """Which nodes suit each item, whatever is free there: the place of its mask, and the masks, eight nodes a byte."""
    masks: dict[bytes, int] = {}
    suits = []
    for item in items:
        mask = solver.nodes.alive[: len(solver.nodes)] if item.is_moot else solver.costs.suitable(item.first.cls)
        suits.append(masks.setdefault(np.packbits(mask).tobytes(), len(masks)))
    return suits, list(masks)


def _uncounted(nodes: Nodes) -> list[int]:
    """Rows whose cards are given out otherwise than by minor and percent."""
    fleet = nodes.fleet
    beyond = fleet.percent_sum != fleet.percent.sum(axis=0, dtype=np.int64)
    rows = set(np.flatnonzero(beyond[: len(nodes)]).tolist())
    return sorted(rows | nodes.counts.rows_of(()) if nodes.counts.is_anywhere else rows)


class _Columns:
    """What is free on the nodes, copied, with what some claims take given back."""

    def __init__(self, nodes: Nodes, resources: Sequence[int], *, has_cards: bool) -> None:
        self._nodes = nodes
        self._free: Ints = nodes.free[resources, : len(nodes)].copy()
        self._percent: Percents | None = nodes.fleet.percent[:, : len(nodes)].copy() if has_cards else None
        self._place = {column: place for place, column in enumerate(resources)}
        self._gone: dict[int, list[Claim]] = {}

    def give_back(self, claims: Iterable[Claim]) -> None:
        """As if these held nothing of their nodes."""
        nodes, free = self._nodes, self._free
        touched: set[int] = set()
        for claim in claims:
            row = nodes.rows.get(claim.node)
            if row is None:
                continue
            for name, amount in claim.amounts.items():
                place = self._place.get(nodes.columns.get(name, -1))
                if place is not None and amount > 0 and name != names.PODS:
                    free[place, row] += min(amount, AMOUNT_MAX)
            free[self._place[PODS], row] += 0 if claim.is_reservation else 1
            if claim.grants:
                self._gone.setdefault(row, []).append(claim)
                touched.add(row)
        if self._percent is not None:
            for row in touched:
                self._renew(self._percent, row)

    def bytes(self) -> tuple[list[bytes], bytes]:
        """As it is now: by resource, and cards x nodes."""
        percent = b"" if self._percent is None else self._percent.tobytes()
        return [column.tobytes() for column in self._free.clip(0)], percent

    def _renew(self, percent: Percents, row: int) -> None:
        grants = [grant for claim in self._gone[row] for grant in claim.grants]
        slots = self._nodes.devices.under(row, (GPU.name,), grants, ())[GPU.name]
        for place, slot in enumerate(slots):
            free = slot.free
            percent[place, row] = min(free[CORE], free[RATIO], WHOLE)
