"""One random world in which somebody goes nowhere, and what is wrong with how the solver explains it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.services.worlds.solver.refused import World, drawn

from berth.contracts.explanation import Explanation
from berth.placement_solver.core.explanation.explaining import explained
from berth.placement_solver.explaining import means_of

SEED_STEP = 1_000_003


class Judged(NamedTuple):
    """A world, its explanation, and what is wrong with that."""

    world: World
    explanation: Explanation | None
    wrong: list[str]


def refused_world(seed: int) -> World:
    """The first world of a seed in which nobody is placed."""
    rng = random.Random(seed * SEED_STEP)
    while True:
        world = drawn(rng)
        if not world.fits(world.universe()):
            return world


def judged(seed: int, new_run: Callable[[], Any]) -> Judged:
    """Explain it, hold every word against brute force, and do what each repair says."""
    world = refused_world(seed)
    run = new_run()
    world.build(run)
    units, held_back = run.cluster.batch(100)
    assert len(units) == 1, held_back
    before = run.cluster.nodes.free.copy()
    found = explained(units[0], means_of(run.cluster))
    wrong: list[str] = []
    if (run.cluster.nodes.free[:, : before.shape[1]] != before).any():
        wrong.append("something of a try is left")
    if found is None:
        return Judged(world, None, [*wrong, "nothing is explained"])
    chosen = [(each.code, each.what) for each in found.forbidden_by]
    if not set(chosen) <= set(world.universe()):
        wrong.append(f"{chosen}: something that is not asked")
        return Judged(world, found, wrong)
    if world.fits(chosen):
        wrong.append(f"{chosen}: not sufficient")
    wrong += [
        f"{chosen}: {each} is not necessary" for each in chosen if not world.fits([k for k in chosen if k != each])
    ]
    if found.is_smallest and len(chosen) != (least := world.smallest()):
        wrong.append(f"{chosen}: {least} are enough")
    wrong += [f"{each}: without a message" for each in found.forbidden_by if not each.message]
    for repair in found.repairs:
        changed = world.repaired(repair)
        again = new_run()
        changed.build(again)
        placed = {each.candidate.name[1] for each in again.round().placements if each.candidate.name[1].startswith("w")}
        if len(placed) < max(1, world.wanted.minimum):
            wrong.append(f"{repair.message}: does not help")
    return Judged(world, found, wrong)
