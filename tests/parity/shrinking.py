"""A world in which something differs, made smaller for as long as the same thing differs.

Pods to decide go first, then objects, by halves, quarters and so on (delta debugging), then fields of what is left.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from tests.parity.world import Manifest, Trace, World, identity

Judge = Callable[[World], Awaitable[bool]]
"""Whether the world still shows the difference."""
T = TypeVar("T")
KEPT: Final = {
    ("metadata", "name"),
    ("metadata", "namespace"),
    ("spec", "nodeName"),
    ("spec", "containers"),
    ("spec", "accessModes"),
    ("spec", "csi"),
    ("status", "phase"),
}
"""Fields that an object is not the same without."""
SKIPPED: Final = {"apiVersion", "kind", "provisioner", "volumeBindingMode"}


def pinned(trace: Trace, pod: str) -> World:
    """The world in which the pods before this one are bound where they went, and this one alone is decided."""
    bound = []
    for step in trace.steps:
        if step.pod["metadata"]["name"] == pod:
            break
        if step.outcome.verdict == "bound":
            manifest = next(each for each in trace.world.pending if identity(each) == identity(step.pod))
            bound.append({**manifest, "spec": {**manifest["spec"], "nodeName": step.outcome.node}})
    only = tuple(each for each in trace.world.pending if each["metadata"]["name"] == pod)
    return trace.world.with_objects((*trace.world.objects, *bound)).with_pending(only)


async def shrink(world: World, judge: Judge) -> World:
    """The smallest world found; it shows the difference if `world` does."""

    async def pending(kept: Sequence[Manifest]) -> bool:
        return bool(kept) and await judge(world.with_pending(tuple(kept)))

    async def objects(kept: Sequence[Manifest]) -> bool:
        return await judge(world.with_objects(tuple(kept)))

    world = world.with_pending(tuple(await fewest(world.pending, pending)))
    world = world.with_objects(tuple(await fewest(world.objects, objects)))
    return await _without_fields(world, judge)


async def fewest(items: Sequence[T], holds: Callable[[Sequence[T]], Awaitable[bool]]) -> list[T]:
    """Items without which `holds` fails; it holds for all of them."""
    kept, size = list(items), max(1, len(items) // 2)
    while kept:
        at, dropped = 0, False
        while at < len(kept):
            fewer = kept[:at] + kept[at + size :]
            if await holds(fewer):
                kept, dropped = fewer, True
            else:
                at += size
        if size == 1 and not dropped:
            break
        size = max(1, size // 2)
    return kept


async def _without_fields(world: World, judge: Judge) -> World:
    for which in ("pending", "objects"):
        manifests: list[Manifest] = list(getattr(world, which))
        for at in range(len(manifests)):
            tried: set[tuple[Any, ...]] = set()
            while True:
                path = next((each for each in paths(manifests[at]) if each not in tried), None)
                if path is None:
                    break
                smaller = [*manifests[:at], without(manifests[at], path), *manifests[at + 1 :]]
                changed = (world.with_pending if which == "pending" else world.with_objects)(tuple(smaller))
                if await judge(changed):
                    world, manifests = changed, smaller
                else:
                    tried.add(path)
    return world


def paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The fields and list entries that may be left out, the largest parts first."""
    steps: list[Any] = []
    if isinstance(value, dict):
        steps = list(value)
    elif isinstance(value, list):
        steps = list(range(len(value) - 1, -1, -1))
    for step in steps:
        here = (*at, step)
        if here in KEPT or step in SKIPPED or (len(at) == 0 and step not in ("spec", "status")):
            continue
        if not (len(here) == 1 or (here[:2] == ("spec", "containers") and len(here) == 3)):
            yield here
    for step in steps:
        if step not in SKIPPED and not (len(at) == 0 and step not in ("spec", "status", "metadata")):
            yield from paths(value[step], (*at, step))


def without(manifest: Manifest, path: tuple[Any, ...]) -> Manifest:
    """A copy that lacks what stands at a path."""
    made = copy.deepcopy(manifest)
    parent: Any = made
    for step in path[:-1]:
        parent = parent[step]
    del parent[path[-1]]
    return made
