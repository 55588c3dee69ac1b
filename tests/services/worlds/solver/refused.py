"""Random worlds in which a pod or a gang goes nowhere, and what forbids it, by brute force and apart from the solver.

A world is plain data, so that it can be built again with one thing changed.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, Final

from berth.contracts import names
from berth.contracts.explanation import Repair
from berth.contracts.kube import Taint
from berth.testing.builders import GI, PodBuilder, gpu_grant, gpu_slots, pod

DISK: Final = "example.com/disk"
PLAIN: Final = (names.CPU, names.MEMORY, DISK)
Key = tuple[str, str]


@dataclass(frozen=True)
class NodeOf:
    """A node: what it has, whose pods it takes."""

    name: str
    amounts: dict[str, int]
    pods: int
    gpus: int = 0
    zone: str = "a"
    is_tainted: bool = False
    is_cordoned: bool = False


@dataclass(frozen=True)
class Held:
    """A pod on a node. `gpu` is the card that it has a share of, in percent."""

    name: str
    node: str
    amounts: dict[str, int]
    gpu: int = 0
    percent: int = 0
    quota: str = ""
    port: int = 0


@dataclass(frozen=True)
class Wanted:
    """What each of `members` asks for, of whom `minimum` have to start together; 0: a pod by itself."""

    amounts: dict[str, int]
    members: int = 1
    minimum: int = 0
    gpus: int = 0
    percent: int = 0
    zone: str = ""
    port: int = 0
    quota: str = ""
    tolerates: bool = False


@dataclass(frozen=True)
class World:
    """`quotas` are by name: max by resource; `child` is below `parent`."""

    nodes: tuple[NodeOf, ...]
    held: tuple[Held, ...]
    wanted: Wanted
    quotas: dict[str, dict[str, int]] = field(default_factory=dict)

    def build(self, run: Any) -> None:
        """Feed it to a solver."""
        for each in self.nodes:
            extended = {DISK: each.amounts[DISK]}
            taints = [Taint(key="own", effect="NoSchedule")] if each.is_tainted else []
            run.node(
                each.name,
                cpu=each.amounts[names.CPU],
                memory=each.amounts[names.MEMORY],
                pods=each.pods,
                extended=extended,
                labels={"zone": each.zone},
                taints=taints,
                unschedulable=each.is_cordoned,
            )
            run.devices(each.name, gpu_slots(each.gpus))
        for name, most in self.quotas.items():
            above = ["parent"] if name == "child" else []
            run.quota(name, max=most, ancestors=above, parent="parent" if above else "")
        for held in self.held:
            builder = pod(held.name).requests(held.amounts)
            if held.quota:
                builder.quota(held.quota)
            if held.port:
                builder.port(held.port)
            if held.percent:
                builder.share(held.percent)
            run.pod(builder.on(held.node, [gpu_grant(held.gpu, held.percent)] if held.percent else None))
        run.pods(self.waiting())

    def waiting(self) -> Iterator[PodBuilder]:
        """The pods that wait."""
        wanted = self.wanted
        for number in range(wanted.members):
            builder = pod(f"w{number}").requests(wanted.amounts)
            if wanted.minimum:
                builder.gang("g", wanted.minimum)
            if wanted.gpus:
                builder.gpus(wanted.gpus)
            if wanted.percent:
                builder.share(wanted.percent)
            if wanted.zone:
                builder.only_on("zone", wanted.zone)
            if wanted.port:
                builder.port(wanted.port)
            if wanted.quota:
                builder.quota(wanted.quota)
            if wanted.tolerates:
                builder.tolerates("own")
            yield builder

    # --- by brute force ----------------------------------------------------------------------------------------------

    def universe(self) -> list[Key]:
        """All that may forbid it."""
        wanted = self.wanted
        found: list[Key] = [("NodeUnschedulable", ""), ("TaintToleration", ""), ("NodeResourcesFit", "pods")]
        found += [("NodeResourcesFit", name) for name in PLAIN if wanted.amounts.get(name)]
        found += [("NodeAffinity", "")] if wanted.zone else []
        found += [("NodePorts", "")] if wanted.port else []
        found += [("DeviceShare", "")] if wanted.gpus or wanted.percent else []
        line = {"child": ["child", "parent"], "parent": ["parent"], "": []}[wanted.quota]
        found += [("quota", name) for name in line]
        return [*found, *([("gang", "default/g")] if wanted.minimum else [])]

    def fits(self, kept: Collection[Key]) -> bool:
        """Whether it is placed where nothing holds but these."""
        wanted = self.wanted
        count = wanted.minimum if wanted.minimum and ("gang", "default/g") in kept else 1
        for code, group in kept:
            if code == "quota":
                most = self.quotas[group]
                for name in most:
                    used = sum(each.amounts.get(name, 0) for each in self.held if self._pays(each.quota, group))
                    if wanted.amounts.get(name, 0) and used + count * wanted.amounts[name] > most[name]:
                        return False
        return sum(self._members_on(node, kept) for node in self.nodes) >= count

    def _pays(self, quota: str, group: str) -> bool:
        return quota == group or (quota == "child" and group == "parent")

    def _members_on(self, node: NodeOf, kept: Collection[Key]) -> int:
        wanted, here = self.wanted, [each for each in self.held if each.node == node.name]
        if ("NodeUnschedulable", "") in kept and node.is_cordoned:
            return 0
        if ("TaintToleration", "") in kept and node.is_tainted and not wanted.tolerates:
            return 0
        if ("NodeAffinity", "") in kept and wanted.zone and node.zone != wanted.zone:
            return 0
        most = wanted.members
        if ("NodePorts", "") in kept and wanted.port:
            most = 0 if any(each.port == wanted.port for each in here) else 1
        if ("NodeResourcesFit", "pods") in kept:
            most = min(most, max(0, node.pods - len(here)))
        for name in PLAIN:
            if ("NodeResourcesFit", name) in kept:
                free = node.amounts[name] - sum(each.amounts.get(name, 0) for each in here)
                most = min(most, max(0, free // wanted.amounts[name]))
        if ("DeviceShare", "") in kept:
            left = [100 - sum(each.percent for each in here if each.gpu == card) for card in range(node.gpus)]
            if wanted.gpus:
                most = min(most, sum(1 for each in left if each == 100) // wanted.gpus)
            else:
                most = min(most, sum(each // wanted.percent for each in left))
        return most

    def smallest(self) -> int:
        """How many of what may forbid it are enough to."""
        universe = self.universe()
        for size in range(len(universe) + 1):
            if any(not self.fits(chosen) for chosen in combinations(universe, size)):
                return size
        raise AssertionError("it fits")

    # --- repaired ----------------------------------------------------------------------------------------------------

    def repaired(self, repair: Repair) -> World:
        """The world in which this was done."""
        world = self
        if "ask" in repair.kinds:
            requests = dict(repair.requests)
            gpus, percent = requests.pop(names.NVIDIA_GPU, 0), requests.pop(names.GPU_CORE, 0)
            requests.pop(names.GPU_MEMORY_RATIO, None)
            world = replace(world, wanted=replace(world.wanted, amounts=requests, gpus=gpus, percent=percent))
        if repair.limits:
            quotas = {name: dict(most) for name, most in world.quotas.items()}
            for limit in repair.limits:
                quotas[limit.name].update({**limit.max})
            world = replace(world, quotas=quotas)
        if repair.pods:
            gone = {name.rpartition("/")[2] for name in repair.pods}
            world = replace(world, held=tuple(each for each in world.held if each.name not in gone))
        if repair.nodes:
            (like,) = [each for each in world.nodes if each.name == repair.like]
            more = [replace(like, name=f"new-{number}", is_cordoned=False) for number in range(repair.nodes)]
            world = replace(world, nodes=(*world.nodes, *more))
        return world


def drawn(rng: random.Random) -> World:
    """A world in which it is likely that somebody goes nowhere, for one reason or for several."""
    nodes = []
    held: list[Held] = []
    quotas = {"parent": {names.CPU: rng.randint(6, 24) * 1000}, "child": {names.CPU: rng.randint(4, 20) * 1000}}
    for number in range(rng.choice((1, 2, 3, 3, 4, 5, 6))):
        amounts = {names.CPU: rng.randint(1, 8) * 1000, names.MEMORY: rng.randint(1, 8) * GI, DISK: rng.randint(0, 3)}
        node = NodeOf(
            f"n{number}",
            amounts,
            pods=rng.choice((2, 3, 4, 20)),
            gpus=rng.choice((0, 0, 1, 2, 4)),
            zone=rng.choice("aab"),
            is_tainted=rng.random() < 0.25,
            is_cordoned=rng.random() < 0.15,
        )
        nodes.append(node)
        left = dict(amounts)
        free = [100] * node.gpus
        for index in range(rng.randint(0, 3)):
            taken = {name: rng.randint(0, left[name] // step) * step for name, step in _STEPS.items()}
            left = {name: left[name] - taken[name] for name in left}
            card = rng.randrange(node.gpus) if node.gpus and rng.random() < 0.5 else -1
            percent = rng.choice((30, 60, 100)) if card >= 0 else 0
            percent = percent if card >= 0 and percent <= free[card] else 0
            if percent:
                free[card] -= percent
            held.append(
                Held(
                    f"h{number}-{index}",
                    node.name,
                    {name: amount for name, amount in taken.items() if amount},
                    max(card, 0),
                    percent,
                    rng.choice(("", "", "child", "parent")),
                    80 if index == 0 and rng.random() < 0.3 else 0,
                )
            )
    minimum = rng.choice((0, 0, 0, 2, 3, 4))
    kind = rng.random()
    wanted = Wanted(
        {
            names.CPU: rng.randint(1, 6) * 700,
            **({names.MEMORY: rng.randint(1, 5) * GI} if rng.random() < 0.6 else {}),
            **({DISK: rng.randint(1, 2)} if rng.random() < 0.3 else {}),
        },
        members=minimum + rng.choice((0, 0, 1)) if minimum else 1,
        minimum=minimum,
        gpus=rng.randint(1, 3) if kind < 0.25 else 0,
        percent=rng.choice((20, 50, 80)) if kind > 0.8 else 0,
        zone=rng.choice(("", "", "", "a", "a", "b")),
        port=80 if rng.random() < 0.2 else 0,
        quota=rng.choice(("", "", "child", "parent")),
        tolerates=rng.random() < 0.3,
    )
    return World(tuple(nodes), tuple(held), wanted, quotas)


_STEPS: Final = {names.CPU: 500, names.MEMORY: GI // 2, DISK: 1}
