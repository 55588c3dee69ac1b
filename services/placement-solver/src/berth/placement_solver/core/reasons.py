"""Reasons that no node has to be asked for: what a pod says that cannot be used or is not built, and what rules out all
nodes at once."""

from __future__ import annotations

from berth.contracts.base import Problem, Reason
from berth.placement_solver.core.registry import Compiled
from berth.placement_solver.core.ways_out import way_out


def unsupported(path: str) -> Reason:
    """A field that Berth does not honour yet."""
    return Reason(code="unsupported", message=f"unsupported: {path}", field=path, repair=f"remove {path}")


def invalid(problem: Problem) -> Reason:
    """A field that cannot be used."""
    return Reason(
        code="invalid",
        message=f"{problem.field}: {problem.message}",
        field=problem.field,
        repair=f"correct {problem.field}",
    )


def refusals_of(compiled: Compiled) -> tuple[Reason, ...]:
    """Why no node has to be asked; empty where nodes decide. Of constraints the first speaks for all."""
    return (
        *map(invalid, compiled.problems),
        *(
            Reason(code=name, message=text, repair=way_out(text))
            for name, each in compiled.rejections[:1]
            for text in each.reasons
        ),
    )
