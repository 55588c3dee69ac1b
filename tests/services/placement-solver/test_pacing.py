"""When a round begins: a pod by itself at once, many of them together."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from berth.placement_solver.pacing import GAP_MAX_S, QUIET_S, _gathered, gap_s
from berth.testing.virtual_loop import LoopClock, VirtualLoop

WINDOW_S = 0.006


@pytest.mark.parametrize(
    ("took_s", "pods", "pause_s"),
    [
        pytest.param(0.01, 0, 0.0, id="a round of nobody"),
        pytest.param(0.01, 1, 0.002, id="a pod by itself holds up nobody for long"),
        pytest.param(0.5, 1, 0.002, id="however long it took"),
        pytest.param(0.01, 50, 0.04, id="many: the usual time"),
        pytest.param(0.03, 50, 0.06, id="many on a busy machine: what a round takes counts"),
        pytest.param(9.0, 400, GAP_MAX_S, id="never longer than that"),
    ],
)
def test_the_pause_after_a_round(took_s: float, pods: int, pause_s: float) -> None:
    assert gap_s(took_s, pods, 0.04) == pytest.approx(pause_s)


class Bench:
    """A queue into which pods come at given moments, and a solver that has just been woken."""

    def __init__(self, *comes_at_s: float) -> None:
        self.ready = 0
        self._comes_at_s = comes_at_s
        self.rounds: Any = SimpleNamespace(
            changed=asyncio.Event(), cluster=SimpleNamespace(queue=SimpleNamespace(ready_about=lambda: self.ready))
        )
        self.context: Any = SimpleNamespace(clock=LoopClock(), settings=SimpleNamespace(batch_window_s=WINDOW_S))

    def _come(self) -> None:
        self.ready += 1
        self.rounds.changed.set()

    async def gathered(self) -> tuple[float, int]:
        """How long was waited, and for how many."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        for at_s in self._comes_at_s:
            loop.call_later(at_s, self._come) if at_s else self._come()
        await _gathered(self.context, self.rounds)
        return loop.time() - began, self.ready


def run(work: Coroutine[Any, Any, tuple[float, int]]) -> tuple[float, int]:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


async def _waited(*comes_at_s: float) -> tuple[float, int]:
    return await Bench(*comes_at_s).gathered()


@pytest.mark.parametrize(
    ("comes_at_s", "waited_s", "found"),
    [
        pytest.param([0.0], QUIET_S, 1, id="by itself"),
        pytest.param([0.0, 0.0005, 0.0012], 3 * QUIET_S, 3, id="three that come together"),
        pytest.param([0.0008 * number for number in range(50)], WINDOW_S, 8, id="no end: the window"),
        pytest.param([0.0, 0.004], QUIET_S, 1, id="one that comes later has a round of its own"),
        pytest.param([], WINDOW_S, 0, id="what woke the solver was no pod to decide"),
        pytest.param([0.003], 0.003 + QUIET_S, 1, id="a pod behind something else"),
    ],
)
def test_a_batch_closes_when_nothing_more_comes(comes_at_s: list[float], waited_s: float, found: int) -> None:
    took_s, ready = run(_waited(*comes_at_s))
    assert (took_s, ready) == (pytest.approx(waited_s, abs=1e-6), found)
