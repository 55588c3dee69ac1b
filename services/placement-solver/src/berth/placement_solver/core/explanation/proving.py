"""What if: changes of the live view that are made for one try and taken back before anything else happens."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from berth.contracts.quota import QuotaGroup
from berth.contracts.state import Node
from berth.placement_solver.core.classes import ClassTable
from berth.placement_solver.core.displacers.charged_pods import ChargedPods
from berth.placement_solver.core.groups import Gangs
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.plan import Placement, Unit
from berth.placement_solver.core.solve import Solver
from berth.placement_solver.core.trial import Trial
from berth.resources.amounts import Amounts
from berth.rules.taints import UNSCHEDULABLE_TAINT
from berth.transaction.book import Book
from berth.transaction.claims import Claim

HOSTNAME: Final = "kubernetes.io/hostname"
PLAN: Final = "explain"

Change: TypeAlias = "Callable[[], AbstractContextManager[object]]"


class Leaving(NamedTuple):
    """Who would leave by the rules of preemption, as `namespace/name`, and for which nodes."""

    pods: tuple[str, ...]
    nodes: tuple[str, ...]


class Means(NamedTuple):
    """What explanations are worked out with. `evicts` asks the displacers, whether or not preemption is switched on."""

    solver: Solver
    classes: ClassTable
    book: Book
    charged: ChargedPods
    gangs: Gangs
    evicts: Callable[[Unit], Leaving | None]

    @property
    def nodes(self) -> Nodes:
        """The nodes as columns."""
        return self.solver.nodes


class NewLimits(NamedTuple):
    """What a group's max and min would be at least; its runtime follows its max."""

    key: tuple[str, str]
    max: Amounts
    min: Amounts


def places(solver: Solver, unit: Unit, changes: Iterable[Change] = ()) -> bool:
    """Whether the pod, or as many of a gang as it needs, is placed once these changes are made."""
    with ExitStack() as stack:
        for change in changes:
            stack.enter_context(change())
        stack.enter_context(solver.telling(words=False))
        with Trial(solver.capacity) as trial:
            if not unit.needed:
                return all(isinstance(solver.place(each, trial, PLAN), Placement) for each in unit.candidates)
            return len(solver.solve([unit], trial, PLAN).placements) >= max(1, sum(unit.needed.values()))


def without(solver: Solver, claims: Sequence[Claim]) -> Change:
    """Those who hold these claims have left."""

    @contextmanager
    def changed() -> Iterator[None]:
        for each in claims:
            solver.capacity.apply(each, -1)
        try:
            yield
        finally:
            for each in reversed(claims):
                solver.capacity.apply(each, 1)

    return changed


def raised(solver: Solver, limits: Sequence[NewLimits]) -> Change:
    """Quota groups have these limits."""
    quotas = solver.capacity.quotas

    @contextmanager
    def changed() -> Iterator[None]:
        before = {each.key: quotas.groups[each.key] for each in limits}
        for each in limits:
            quotas.see(*each.key, with_limits(before[each.key], each))
        try:
            yield
        finally:
            for key, group in before.items():
                quotas.see(*key, group)

    return changed


def with_limits(group: QuotaGroup, limits: NewLimits) -> QuotaGroup:
    """The group as it would be published."""
    runtime = {name: max(group.runtime.get(name, 0), amount) for name, amount in limits.max.items()}
    runtime |= {name: max(runtime.get(name, group.runtime.get(name, 0)), each) for name, each in limits.min.items()}
    return replace(
        group,
        max=_at_least(group.max, limits.max),
        min=_at_least(group.min, limits.min),
        runtime={**group.runtime, **runtime},
        effective_min=_at_least(group.effective_min, limits.min),
    )


def added(solver: Solver, like: int, count: int) -> Change:
    """There are so many more nodes like that of a row, and nothing is on them."""
    nodes = solver.nodes

    @contextmanager
    def changed() -> Iterator[None]:
        numbered = (f"{nodes.names[like]}-like-{number}" for number in itertools.count())
        made = list(itertools.islice((name for name in numbered if nodes.state(name) is None), count))
        state, inventory, topology = nodes.states[like], nodes.inventories[like], nodes.topologies[like]
        if state is None:
            raise ValueError("the row has no node")
        for name in made:
            nodes.see_node(name, new_node(state, name))
            if inventory is not None:
                nodes.see_inventory(name, replace(inventory, node=name))
            if topology is not None:
                nodes.see_topology(name, replace(topology, node=name))
        try:
            yield
        finally:
            for name in made:
                nodes.see_inventory(name, None)
                nodes.see_topology(name, None)
                nodes.see_node(name, None)

    return changed


def new_node(like: Node, name: str) -> Node:
    """A node of the same kind that pods may go to."""
    return replace(
        like,
        name=name,
        uid=f"uid-{name}",
        unschedulable=False,
        deleting=False,
        taints=[each for each in like.taints if each != UNSCHEDULABLE_TAINT],
        labels={**like.labels, **({HOSTNAME: name} if HOSTNAME in like.labels else {})},
    )


def _at_least(before: Amounts, wanted: Amounts) -> Amounts:
    return {**before, **{name: max(before.get(name, 0), amount) for name, amount in wanted.items()}}
