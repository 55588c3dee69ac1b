"""The one way in: a request, what is known, and the answer."""

from __future__ import annotations

from berth.contracts.base import Problem
from berth.rules.admission.gates import DEFAULT, Gates
from berth.rules.admission.registry import DOORS
from berth.rules.admission.seam import DRAW_MAX, Answer, Case, Request
from berth.rules.admission.views import Views


def review(door: str, request: Request, views: Views, *, gates: Gates = DEFAULT, draw: int = DRAW_MAX) -> Answer:
    """Ask every rule of a door. Never raises for what is in the request.

    Args:
        door: the path that was called, such as `/mutate-pod`; one that is not known admits everything.
        request: what is to be written.
        views: what is known.
        gates: which features are on. A door whose own gate is off admits everything.
        draw: drawn for this request, from 1 to `DRAW_MAX`: whether profiles with a probability apply.
    """
    found = DOORS.get(door)
    if found is None or found.gate not in gates:
        return Answer()
    case = Case(request, views, gates, draw)
    try:
        for rule in found.rules:
            if request.operation in rule.operations and rule.is_asked(gates):
                rule.run(case)
        return case.answer()
    except RecursionError:
        problem = Problem(field="", message="is nested too deeply: nothing was changed")
        return Answer(refusals=tuple(case.refusals), problems=(problem,), counts={"problems": 1})
