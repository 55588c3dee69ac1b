"""Who of a unit has to be placed, and the unit with other requests."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from berth.contracts.state import Pod
from berth.placement_solver.core.classes import ClassTable
from berth.placement_solver.core.plan import Candidate, Unit, spec_of
from berth.placement_solver.core.reasons import refusals_of
from berth.resources.amounts import Amounts


def needed_of(unit: Unit) -> list[Candidate]:
    """Of each gang as many members as it needs, in order; of what is no gang all."""
    if not unit.needed:
        return list(unit.candidates)
    left = dict(unit.needed)
    found = []
    for each in unit.candidates:
        gang = unit.gang_of[each.name]
        if left.get(gang, 0) > 0:
            left[gang] -= 1
            found.append(each)
    return found


def with_requests(unit: Unit, requests: Callable[[Candidate], Amounts], classes: ClassTable) -> Unit | None:
    """The unit whose pods ask for these amounts instead; None: that cannot be said of all of them."""
    made: list[Candidate] = []
    for each in unit.candidates:
        pod = each.object
        if not isinstance(pod, Pod) or each.surcharge:
            return None  # what hooks would charge is not known
        template = replace(pod.template, requests=requests(each))
        asked = replace(pod, template=template)
        cls = classes.of(template, list(pod.problems))
        compiled = cls.rules.compile_pod(spec_of(asked))
        wish = each.wish
        made.append(
            each._replace(
                object=asked,
                cls=cls,
                asked=compiled.asked,
                refusals=refusals_of(compiled),
                wish=wish._replace(requests=template.requests) if wish is not None else None,
            )
        )
    return unit._replace(candidates=tuple(made))
