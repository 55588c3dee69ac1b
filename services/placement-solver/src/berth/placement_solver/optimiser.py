"""The optimiser as a child process: problems out, counts back, killed when it is late.

cvxpy and HiGHS live in the child alone: a solve cannot be interrupted from within, and its memory goes with it. The
child is started when the cluster has its first gang, and kept; one that is late, crashes or talks nonsense is killed,
and the plan at hand is taken.
"""

from __future__ import annotations

import asyncio
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

import msgspec

from berth.placement_solver import metrics
from berth.placement_solver.core.bounds.problem import Bound, BoundProblem
from berth.placement_solver.core.joint.leaving import LeavingProblem
from berth.placement_solver.core.joint.problem import JointProblem
from berth.placement_solver.core.prices.problem import Duals, PriceProblem
from berth.telemetry import get_logger

log = get_logger(__name__)

_LENGTH = struct.Struct("!I")
ANSWER_BYTES_MAX = 16 << 20
GRACE_S = 1.5
"""Beyond the time limit of a problem: building the model and the way there and back."""
START_TIMEOUT_S = 60.0


CHILD = (sys.executable, "-m", "berth.placement_solver.optimiser_child")


Problem = JointProblem | LeavingProblem | PriceProblem | BoundProblem


class Answer(msgspec.Struct, frozen=True):
    """What the child answers; no counts when it found nothing.

    `counts` are by item or class, and node; `units` those that leave for that. `duals` answer a question about prices,
    `bound` one about the bound of a batch.
    """

    counts: list[list[int]] | None
    gap: float = -1.0
    units: list[int] = []
    duals: Duals | None = None
    bound: Bound | None = None

    @property
    def says_something(self) -> bool:
        """Whether it is an answer to anything."""
        return self.counts is not None or self.duals is not None or self.bound is not None


class JointSolver(Protocol):
    """Answers problems in its own time, one after the other: who asks while it is busy waits."""

    trouble: str
    """Why the problem that was solved last has no answer: `late`, `failed`, `not ready`; empty where it has one, or
    there is none. Another problem may be next: it is looked at as soon as `solve` returns."""

    def warm_up(self) -> None:
        """There will be problems soon."""
        ...

    async def solve(self, problem: Problem) -> Answer | None:
        """An answer that says something; None when there is none in time."""
        ...

    async def stop(self) -> None:
        """No more problems."""
        ...


class Optimiser:
    """A `JointSolver`: one child, started with `command`."""

    def __init__(self, command: Sequence[str] = CHILD) -> None:
        self._command = command
        self._child: asyncio.subprocess.Process | None = None
        self._starting: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        self.trouble = ""

    @property
    def is_ready(self) -> bool:
        """The child has done its imports and waits for problems."""
        return self._child is not None and self._child.returncode is None and self._starting is None

    def warm_up(self) -> None:
        """Start the child in the background, unless it is up: no batch waits for its imports."""
        if self._starting is None and not self.is_ready:
            self._starting = asyncio.create_task(self._start(), name="start the optimiser")

    async def _start(self) -> None:
        try:
            await self._start_child()
        finally:
            self._starting = None

    async def _start_child(self) -> None:
        try:
            self._child = await asyncio.create_subprocess_exec(
                *self._command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
            )
            async with asyncio.timeout(START_TIMEOUT_S):
                await self._read()
        except (TimeoutError, asyncio.IncompleteReadError, msgspec.MsgspecError, OSError) as error:
            log.warning("the optimiser does not start", error=f"{type(error).__name__}: {error}")
            await self._kill()

    async def solve(self, problem: Problem) -> Answer | None:
        """The child's answer; None when it has none in time, or is not up yet."""
        async with self._turn:
            return await self._solve(problem)

    async def _solve(self, problem: Problem) -> Answer | None:
        if not self.is_ready or self._child is None or self._child.stdin is None:
            self.warm_up()
            metrics.OPTIMISER.labels("not ready").inc()
            self.trouble = "not ready"
            return None
        self.trouble = ""
        try:
            data = msgspec.msgpack.encode(problem)
            async with asyncio.timeout(problem.time_limit_s + GRACE_S):
                self._child.stdin.write(_LENGTH.pack(len(data)) + data)
                await self._child.stdin.drain()
                answer = await self._read()
        except asyncio.CancelledError:
            self._child.kill()  # or its answer would be taken for that to the next problem
            raise
        except (TimeoutError, asyncio.IncompleteReadError, msgspec.MsgspecError, OSError) as error:
            metrics.OPTIMISER.labels("failed").inc()
            self.trouble = "late" if isinstance(error, TimeoutError) else "failed"
            log.warning("the optimiser is late or broken: the plan at hand is taken", error=type(error).__name__)
            await self._kill()
            return None
        metrics.OPTIMISER.labels("answered" if answer.says_something else "nothing found").inc()
        return answer if answer.says_something else None

    async def stop(self) -> None:
        """End it for good."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait([self._starting])
        await self._kill()

    async def _kill(self) -> None:
        child, self._child = self._child, None
        if child is not None and child.returncode is None:
            with suppress(ProcessLookupError):
                child.kill()
            await child.wait()

    async def _read(self) -> Answer:
        if self._child is None or self._child.stdout is None:
            raise asyncio.IncompleteReadError(b"", None)
        (length,) = _LENGTH.unpack(await self._child.stdout.readexactly(_LENGTH.size))
        if length > ANSWER_BYTES_MAX:
            raise msgspec.ValidationError(f"an answer of {length} bytes")
        return msgspec.msgpack.decode(await self._child.stdout.readexactly(length), type=Answer)
