"""Who makes others leave, in the order in which they are asked; the first that finds somebody ends it.

A new displacer is a file in `core/displacers`, a line here and, if the right to stay is another one than priority, a
line in `core.verify.nominations`.
"""

from __future__ import annotations

from typing import Final

from berth.placement_solver.core.displacers import owners, placeholders
from berth.placement_solver.core.displacers.job import JobPreemption
from berth.placement_solver.core.displacers.owners import OwnersReturn
from berth.placement_solver.core.displacers.placeholders import HandOver
from berth.placement_solver.core.displacers.priority import PriorityPreemption
from berth.placement_solver.core.displacers.quota import QuotaReclaim
from berth.placement_solver.core.displacers.quota_units import QuotaReclaimByUnits
from berth.placement_solver.core.displacers.reservations import ReservationPreemption
from berth.placement_solver.core.displacers.seam import Displacer, Ground
from berth.placement_solver.core.displacers.users import UsersGiveWay

UNCONDITIONAL: Final = frozenset({owners.NAME, placeholders.NAME})
"""Those that are asked although preemption is switched off."""
GATHERING: Final = frozenset({JobPreemption.name, QuotaReclaimByUnits.name})
"""Those that know how the members of a gang have to lie to each other."""


def displacers_of(ground: Ground) -> tuple[Displacer, ...]:
    """All that there are, over this view."""
    stays = ground.gangs.is_in_strict
    return (
        OwnersReturn(ground, stays),
        HandOver(ground, stays),
        QuotaReclaim(ground, stays),
        QuotaReclaimByUnits(ground),
        PriorityPreemption(ground, stays),
        UsersGiveWay(ground, stays),
        ReservationPreemption(ground, stays),
        JobPreemption(ground),
    )
