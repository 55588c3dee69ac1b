"""Random small batches on small clusters, and by an exact integer program how many of each priority fit.

A world is plain data. The program is written from the rules and apart from the solver: a 0/1 variable for each pod and
node, and for each pod with GPUs and card.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import highspy
import numpy as np

from berth.contracts import names
from berth.testing.builders import GI, PodBuilder, gpu_grant, gpu_slots, pod

PRIORITIES: Final = (0, 5, 9)
SHARES: Final = (20, 30, 50, 60, 80)


@dataclass(frozen=True)
class NodeOf:
    """A node: cores, pod slots, what is free of each card in percent, and its zone."""

    name: str
    cpu: int
    pods: int
    cards: tuple[int, ...] = ()
    zone: str = "a"


@dataclass(frozen=True)
class PodOf:
    """A pod that waits: cores; whole `gpus` or `share` percent of one; the zone, gang and group that it names."""

    name: str
    cpu: int
    priority: int = 0
    gpus: int = 0
    share: int = 0
    zone: str = ""
    gang: str = ""
    quota: str = ""


@dataclass(frozen=True)
class Batch:
    """`minimum` is by gang. `limits` are cores by quota group: those of the group `parent` bind `left` and `right`
    together."""

    nodes: tuple[NodeOf, ...]
    pods: tuple[PodOf, ...]
    minimum: dict[str, int] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)

    def build(self, run: Any) -> None:
        """Feed it to a solver."""
        for node in self.nodes:
            run.node(node.name, cpu=1000 * node.cpu, pods=node.pods, labels={"zone": node.zone})
            run.devices(node.name, gpu_slots(len(node.cards)))
        for name, cores in self.limits.items():
            most = {names.CPU: 1000 * cores}
            above = ["parent"] if name != "parent" else []
            runtime = most if above else {}
            run.quota(name, max=most, runtime=runtime, limits=[names.CPU], ancestors=above, parent="".join(above))
        for node in self.nodes:
            for card, free in enumerate(node.cards):
                if free < 100:
                    held = pod(f"held-{node.name}-{card}").requests(cpu=0).share(100 - free)
                    run.pod(held.on(node.name, [gpu_grant(card, 100 - free)]))
        run.pods(map(self._builder, self.pods))

    def _builder(self, each: PodOf) -> PodBuilder:
        builder = pod(each.name).requests(cpu=1000 * each.cpu, memory=GI).template(priority=each.priority)
        if each.gpus:
            builder.gpus(each.gpus)
        if each.share:
            builder.share(each.share)
        if each.zone:
            builder.only_on("zone", each.zone)
        if each.gang:
            builder.gang(each.gang, self.minimum[each.gang])
        if each.quota:
            builder.quota(each.quota)
        return builder

    # --- exactly -----------------------------------------------------------------------------------------------------

    def most(self, priority: int, at_least: dict[int, int]) -> int:
        """How many pods of a priority fit, in a plan with so many of the others at least."""
        program = _Program(self)
        for other, count in at_least.items():
            program.rows.append((dict.fromkeys(program.of_priority(other), 1.0), float(count), np.inf))
        return program.most(program.of_priority(priority))


class _Program:
    """Variables: whether a pod is on a node, whether it has a card, whether a gang begins."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self.rows: list[tuple[dict[int, float], float, float]] = []
        self.size = 0
        self.on: dict[tuple[int, int], int] = {}
        has: dict[tuple[int, int, int], int] = {}
        for at, each in enumerate(batch.pods):
            for place, node in enumerate(batch.nodes):
                if each.zone not in ("", node.zone):
                    continue
                self.on[at, place] = self._new()
                if each.gpus or each.share:
                    for card in range(len(node.cards)):
                        has[at, place, card] = self._new()
                    mine = {has[at, place, card]: 1.0 for card in range(len(node.cards))}
                    self.rows.append(({**mine, self.on[at, place]: -float(each.gpus or 1)}, 0.0, 0.0))
            self._at_most({self.on[at, p]: 1.0 for p in range(len(batch.nodes)) if (at, p) in self.on}, 1)
        for place, node in enumerate(batch.nodes):
            here = {at: column for (at, of), column in self.on.items() if of == place}
            held = sum(free < 100 for free in node.cards)
            self._at_most(dict.fromkeys(here.values(), 1.0), node.pods - held)
            self._at_most({column: float(batch.pods[at].cpu) for at, column in here.items()}, node.cpu)
            for card, free in enumerate(node.cards):
                taken = {
                    c: float(batch.pods[at].share or 100) for (at, p, k), c in has.items() if (p, k) == (place, card)
                }
                self._at_most(taken, free)
        for gang, minimum in batch.minimum.items():
            begins = self._new()
            members = [at for at, each in enumerate(batch.pods) if each.gang == gang]
            columns = [column for (at, _), column in self.on.items() if at in members]
            self._at_most({**dict.fromkeys(columns, 1.0), begins: -float(len(members))}, 0)
            self.rows.append(({**dict.fromkeys(columns, 1.0), begins: -float(minimum)}, 0.0, np.inf))
        for group, cores in batch.limits.items():
            payers = {group} if group != "parent" else {"parent", "left", "right"}
            self._at_most(
                {c: float(batch.pods[at].cpu) for (at, _), c in self.on.items() if batch.pods[at].quota in payers},
                cores,
            )

    def of_priority(self, priority: int) -> list[int]:
        """The columns that say that such a pod is placed."""
        return [column for (at, _), column in self.on.items() if self._batch.pods[at].priority == priority]

    def most(self, columns: Sequence[int]) -> int:
        """The most of these that can be 1."""
        if not columns:
            return 0
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = self.size, len(self.rows)
        model.col_cost_ = -np.isin(np.arange(self.size), columns).astype(float)
        model.col_lower_, model.col_upper_ = np.zeros(self.size), np.ones(self.size)
        model.row_lower_ = np.array([low for _, low, _ in self.rows])
        model.row_upper_ = np.array([up for *_, up in self.rows])
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.cumsum([0, *(len(values) for values, *_ in self.rows)])
        model.a_matrix_.index_ = np.array([column for values, *_ in self.rows for column in values])
        model.a_matrix_.value_ = np.array([value for values, *_ in self.rows for value in values.values()])
        model.integrality_ = [highspy.HighsVarType.kInteger] * self.size
        solver = highspy.Highs()
        for option, value in (("output_flag", False), ("threads", 1), ("mip_rel_gap", 0.0)):
            solver.setOptionValue(option, value)
        solver.passModel(model)
        solver.run()
        assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
        return round(-float(solver.getInfo().objective_function_value))

    def _new(self) -> int:
        self.size += 1
        return self.size - 1

    def _at_most(self, values: dict[int, float], upper: float) -> None:
        self.rows.append((values, -np.inf, float(upper)))


def drawn(rng: random.Random, *, gangs: bool | None = None) -> Batch:
    """A batch that asks for about as much as there is, or more. `gangs`: with some; None: by chance."""
    kinds = [(rng.randint(2, 12), rng.choice((3, 6, 110)), rng.choice((0, 0, 1, 2, 4))) for _ in range(2)]
    nodes = []
    for at in range(rng.randint(2, 5)):
        cpu, slots, cards = rng.choice(kinds)
        free = tuple(rng.choice((100, 100, 100, 70, 40)) for _ in range(cards))
        held = sum(each < 100 for each in free)
        nodes.append(NodeOf(f"n{at}", cpu, slots + held, free, rng.choice("aab")))
    limits = {}
    if rng.random() < 0.5:
        cores = sum(node.cpu for node in nodes)
        limits = {
            "parent": rng.randint(cores // 3, cores),
            "left": rng.randint(1, cores // 2),
            "right": rng.randint(1, cores // 2),
        }
    shapes = [_shape(rng, has_cards=any(node.cards for node in nodes)) for _ in range(rng.randint(1, 4))]
    pods: list[PodOf] = []
    minimum: dict[str, int] = {}
    with_gangs = rng.random() < 0.5 if gangs is None else gangs
    for unit in range(rng.randint(2, 8)):
        shape = rng.choice(shapes)
        priority = rng.choice(PRIORITIES[: rng.randint(1, 3)])
        quota = rng.choice(("left", "right", "")) if limits else ""
        members = rng.randint(2, 4) if with_gangs and rng.random() < 0.5 else 1
        gang = f"g{unit}" if members > 1 else ""
        if gang:
            minimum[gang] = rng.randint(max(1, members - 1), members)
        pods += [PodOf(f"p{unit}-{at}", **shape, priority=priority, quota=quota, gang=gang) for at in range(members)]
    return Batch(tuple(nodes), tuple(pods), minimum, limits)


def _shape(rng: random.Random, *, has_cards: bool) -> dict[str, Any]:
    shape: dict[str, Any] = {"cpu": rng.randint(1, 6), "zone": rng.choice(("", "", "", "b"))}
    if has_cards and rng.random() < 0.7:
        shape |= {"share": rng.choice(SHARES)} if rng.random() < 0.6 else {"gpus": rng.choice((1, 1, 2))}
    return shape


def packed(rng: random.Random, *, with_quotas: bool = False) -> Batch:
    """A batch that fits whole, and fills the nodes, if it is arranged well: nodes are cut into pods, and those that are
    alike are gangs or single. With quotas a few pods more than the groups have room for."""
    nodes: list[NodeOf] = []
    pieces: dict[tuple[int, int, int], int] = {}
    for at in range(rng.randint(4, 9)):
        cpu, cards = rng.choice((8, 12, 16)), rng.choice((0, 0, 2, 4))
        nodes.append(NodeOf(f"n{at}", cpu, 110, (100,) * cards))
        for _ in range(cards):
            for share in rng.choice(((100,), (50, 50), (60, 40), (80, 20), (30, 30, 40))):
                size = (1, int(share == 100), share % 100)
                pieces[size] = pieces.get(size, 0) + 1
                cpu -= 1
        while cpu > 0:
            size = (min(cpu, rng.choice((1, 2, 3, 4, 5, 6))), 0, 0)
            pieces[size] = pieces.get(size, 0) + 1
            cpu -= size[0]
    shapes = [size for size, count in sorted(pieces.items()) for _ in range(count)]
    units: list[tuple[tuple[int, int, int], int]] = []
    for size in sorted(pieces):
        left = pieces[size]
        while left:
            members = min(left, rng.choice((1, 1, 2, 3, 4, 6)))
            units.append((size, members))
            left -= members
    rng.shuffle(units)
    cores = sum(size[0] for size in shapes)
    limits = {}
    if with_quotas:
        limits = {"parent": cores * 3 // 4, "left": cores // 2, "right": cores // 2}
    pods: list[PodOf] = []
    minimum: dict[str, int] = {}
    for unit, ((cpu, gpus, share), members) in enumerate(units):
        gang = f"g{unit}" if members > 1 else ""
        if gang:
            minimum[gang] = members
        quota = rng.choice(("left", "right")) if limits else ""
        pods += [
            PodOf(f"p{unit:02}-{at}", cpu, gpus=gpus, share=share, gang=gang, quota=quota) for at in range(members)
        ]
    return Batch(tuple(nodes), tuple(pods), minimum, limits)
