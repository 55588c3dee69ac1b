"""Where scores decide, each pod of a batch goes to a node of the highest sum, by the definitions of kube-scheduler
written out once more for one pod and one node at a time."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from berth.contracts import names
from berth.contracts.kube import Affinity, NodeAffinity, NodeSelectorTerm, PreferredTerm, Requirement, Taint
from berth.testing.builders import pod

MIB = 1 << 20
IMAGES = ("a:1", "b:latest")


class ANode(NamedTuple):
    """A node of a random world."""

    cpu: int
    memory: int
    zone: str
    soft: int
    images: dict[str, int]


class APod(NamedTuple):
    """A pod of one container; a request of None is not named."""

    cpu: int | None
    memory: int | None
    likes: dict[str, int]
    image: str

    @property
    def requests(self) -> dict[str, int]:
        named = {names.CPU: self.cpu, names.MEMORY: self.memory}
        return {name: amount for name, amount in named.items() if amount is not None}

    @property
    def scored(self) -> dict[str, int]:
        defaults = {names.CPU: 100, names.MEMORY: 200 * MIB}
        return {name: amount for name, amount in defaults.items() if name not in self.requests}


nodes = st.builds(
    ANode,
    cpu=st.sampled_from([1000, 3000, 4000]),
    memory=st.sampled_from([1000 * MIB, 3333 * MIB]),
    zone=st.sampled_from("abc"),
    soft=st.integers(0, 2),
    images=st.dictionaries(st.sampled_from(IMAGES), st.sampled_from([10 * MIB, 300 * MIB, 1200 * MIB]), max_size=2),
)
pods = st.builds(
    APod,
    cpu=st.one_of(st.none(), st.sampled_from([0, 100, 700])),
    memory=st.one_of(st.none(), st.sampled_from([0, 100 * MIB, 512 * MIB])),
    likes=st.dictionaries(st.sampled_from("abc"), st.integers(1, 100), max_size=2),
    image=st.sampled_from(["a:1", "b", "c"]),
)


def normalised(raw: list[int], *, reverse: bool = False) -> list[int]:
    most = max(raw)
    shares = [100 * each // most if most else 0 for each in raw]
    return [100 - share for share in shares] if reverse else shares


def fit(node: ANode, there: list[APod], own: APod) -> int:
    score = 0
    for name, whole in ((names.CPU, node.cpu), (names.MEMORY, node.memory)):
        asked = sum(each.requests.get(name, each.scored.get(name, 0)) for each in [*there, own])
        score += 0 if asked > whole else (whole - asked) * 100 // whole
    return score // 2


def balanced(node: ANode, there: list[APod], own: APod) -> int:
    if not any(own.requests.values()):
        return 0
    parts = [
        min(sum(each.requests.get(name, 0) for each in [*there, own]) / whole, 1.0)
        for name, whole in ((names.CPU, node.cpu), (names.MEMORY, node.memory))
    ]
    return int((1 - abs(parts[0] - parts[1]) / 2) * 100)


def locality(node: ANode, world: list[ANode], own: APod) -> int:
    name = own.image if ":" in own.image else f"{own.image}:latest"
    having = sum(name in each.images for each in world)
    total = int(float(node.images.get(name, 0)) * (having / len(world)))
    return 100 * (min(max(total, 23 * MIB), 1000 * MIB) - 23 * MIB) // ((1000 - 23) * MIB)


def sums(world: list[ANode], there: list[list[APod]], own: APod, feasible: list[int]) -> dict[int, int]:
    taints = normalised([world[at].soft for at in feasible], reverse=True)
    liked = normalised([own.likes.get(world[at].zone, 0) for at in feasible])
    return {
        at: 3 * taints[place]
        + 2 * liked[place]
        + fit(world[at], there[at], own)
        + balanced(world[at], there[at], own)
        + locality(world[at], world, own)
        for place, at in enumerate(feasible)
    }


def takes(node: ANode, there: list[APod], own: APod) -> bool:
    return all(
        amount == 0 or sum(each.requests.get(name, 0) for each in there) + amount <= whole
        for (name, amount), whole in (
            ((name, own.requests.get(name, 0)), whole)
            for name, whole in ((names.CPU, node.cpu), (names.MEMORY, node.memory))
        )
    )


def wanted(name: str, own: APod) -> Any:
    terms = [
        PreferredTerm(
            weight=weight,
            preference=NodeSelectorTerm(match_expressions=[Requirement(key="zone", operator="In", values=[zone])]),
        )
        for zone, weight in own.likes.items()
    ]
    affinity = Affinity(node_affinity=NodeAffinity(preferred_during_scheduling_ignored_during_execution=terms))
    return pod(name).requests(own.requests).template(scored=own.scored, images=[own.image], affinity=affinity)


@settings(max_examples=150, deadline=None)
@given(world=st.lists(nodes, min_size=1, max_size=5), batch=st.lists(pods, min_size=1, max_size=6))
def test_every_pod_goes_to_a_node_of_the_highest_sum(solving: Any, world: list[ANode], batch: list[APod]) -> None:
    run = solving()
    run.configure(pluginConfig=[{"name": "Berth", "args": {"decides": "kube-scheduler"}}])
    for at, node in enumerate(world):
        taints = [Taint(key=f"k{index}", effect="PreferNoSchedule") for index in range(node.soft)]
        run.node(
            f"n{at}", cpu=node.cpu, memory=node.memory, labels={"zone": node.zone}, taints=taints, images=node.images
        )
    run.pods(wanted(f"p{at}", own) for at, own in enumerate(batch))
    there: list[list[APod]] = [[] for _ in world]
    solution = run.round()
    for placement in solution.placements:
        own = batch[int(placement.candidate.name[1][1:])]
        feasible = [at for at, node in enumerate(world) if takes(node, there[at], own)]
        found = sums(world, there, own, feasible)
        taken = int(placement.claim.node[1:])
        assert math.isclose(found[taken], max(found.values())), found
        there[taken].append(own)
    for refusal in solution.refusals:
        own = batch[int(refusal.candidate.name[1][1:])]
        assert not any(takes(node, on_it, own) for node, on_it in zip(world, there, strict=True))
