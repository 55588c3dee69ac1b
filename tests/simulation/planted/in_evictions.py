"""Bugs in who has to leave for whom, and in how that is carried out. The verifier makes the solver's mistakes."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import msgspec
from tests.simulation.planted.in_writer import together

from berth.cluster_writer import eviction_executor
from berth.cluster_writer.core import evictions, victims
from berth.cluster_writer.eviction_look import Look
from berth.contracts.state import Pod
from berth.kube import bodies
from berth.placement_solver.core.displacers.priority import PriorityPreemption
from berth.placement_solver.core.nominated import Nominated
from berth.placement_solver.core.verify import nominations, verifier
from berth.rules import preemption
from berth.transaction.marks import Marks

Planted = AbstractContextManager[object]
LOWEST = -(2**31)


def deleted_by_uid() -> Planted:
    """A deletion names the victim, whatever has become of its mark since."""
    real = bodies.delete_options

    def delete_options(*, version: str = "", **kwargs: Any) -> dict[str, Any]:
        return real(**kwargs)

    return patch.object(bodies, "delete_options", delete_options)


def no_look() -> Planted:
    """Nobody looks whether the beneficiary still waits."""

    async def waits(*_: Any) -> bool:
        return True

    return together(patch.object(Look, "_still_waits", waits), patch.object(evictions, "is_current", lambda *_: True))


def second_set() -> Planted:
    """Who waits for victims gets others."""
    return together(
        patch.object(Marks, "leaving_for", lambda *_: ()),
        patch.object(preemption, "why_not_eligible", lambda *_, **__: ""),
    )


def equals_leave() -> Planted:
    """Pods of equal priority leave as well."""

    def lower_than(priority: int, pods: Iterable[Pod]) -> list[Pod]:
        lower = (pod for pod in pods if pod.template.priority <= priority and not preemption.why_protected(pod))
        return sorted(lower, key=preemption.importance)

    real, proposed = evictions._victims, PriorityPreemption.choose

    def choose(self: PriorityPreemption, *args: Any, **kwargs: Any) -> Any:
        self._have_lower = lambda *_: True
        return proposed(self, *args, **kwargs)

    def lowered(*args: Any) -> tuple[Pod, ...]:
        return tuple(
            msgspec.structs.replace(each, template=msgspec.structs.replace(each.template, priority=LOWEST))
            for each in real(*args)
        )

    return together(
        patch.object(preemption, "lower_than", lower_than),
        patch.object(PriorityPreemption, "choose", choose),
        patch.object(verifier, "victim_problems", lambda *_: ()),
        patch.object(evictions, "_victims", lowered),
    )


def protected_leave() -> Planted:
    """Priority alone decides who leaves."""
    return together(*(patch.object(each, "why_protected", lambda _: "") for each in (preemption, nominations, victims)))


def half_a_gang_leaves() -> Planted:
    """Of a gang that has to leave, the last member stays: it is left out when the gang's turn comes."""
    real = eviction_executor.leaving_together

    def leaving_together(*args: Any) -> list[list[Pod]]:
        return [unit[:-1] if len(unit) > 1 else unit for unit in real(*args)]

    marks = evictions._victims
    left_out: set[str] = set()

    def victims(*args: Any) -> tuple[Pod, ...]:
        return tuple(each for each in marks(*args) if each.uid not in left_out)

    def halved(*args: Any) -> list[list[Pod]]:
        units = real(*args)
        left_out.update(unit[-1].uid for unit in units if len(unit) > 1)
        return leaving_together(*args)

    return together(
        patch.object(eviction_executor, "leaving_together", halved),
        patch.object(evictions, "_victims", victims),
    )


def half_a_gang_is_served() -> Planted:
    """Others leave for a gang that has lost a member, as if they had begun to before."""
    return together(
        patch.object(evictions, "_has_begun", lambda *_: True),
        patch.object(eviction_executor, "goes_on", lambda *_: True),
    )


def freed_for_anybody() -> Planted:
    """A nomination holds nothing."""
    real = Nominated.__init__

    def init(self: Nominated, apply: Any) -> None:
        real(self, lambda *_: None)

    return together(
        patch.object(Nominated, "__init__", init), patch.object(verifier, "nominated_beside", lambda *_: [])
    )


def marks_stay() -> Planted:
    """No mark is taken back."""
    return patch.object(evictions, "to_spare", lambda *_: ())
