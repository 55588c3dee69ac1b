"""The child process of `optimiser`: reads problems from standard input, writes answers to standard output."""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import sys
from typing import BinaryIO

import msgspec

from berth.placement_solver.core.bounds import program as bounds
from berth.placement_solver.core.bounds.problem import BoundProblem
from berth.placement_solver.core.joint import leaving_model, model
from berth.placement_solver.core.joint.leaving import LeavingProblem
from berth.placement_solver.core.prices import program
from berth.placement_solver.core.prices.problem import PriceProblem
from berth.placement_solver.optimiser import Answer, Problem

_LENGTH = struct.Struct("!I")
_PR_SET_PDEATHSIG = 1


def main() -> int:
    """Answer problems until the input ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # Improvements are welcome, but never at the cost of the fast path beside it.
    os.nice(5)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # HiGHS and cvxpy may print, HiGHS past Python: what they say must not get between the answers.
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    _write(sink, Answer(None))
    while len(head := source.read(_LENGTH.size)) == _LENGTH.size:
        data = source.read(_LENGTH.unpack(head)[0])
        _write(sink, _answer(msgspec.msgpack.decode(data, type=Problem)))
    return 0


def _answer(problem: Problem) -> Answer:
    if isinstance(problem, LeavingProblem):
        plan = leaving_model.solve(problem)
        return Answer(None) if plan is None else Answer(plan.places, gap=plan.gap, units=plan.units)
    if isinstance(problem, PriceProblem):
        duals = program.solve(problem)
        return Answer(None, duals=duals)
    if isinstance(problem, BoundProblem):
        return Answer(None, bound=bounds.solve(problem))
    found = model.solve(problem)
    return Answer(None) if found is None else Answer(found.counts, found.gap)


def _write(sink: BinaryIO, answer: Answer) -> None:
    data = msgspec.msgpack.encode(answer)
    sink.write(_LENGTH.pack(len(data)) + data)
    sink.flush()


if __name__ == "__main__":
    sys.exit(main())
