"""The phase that a PodGroup shows to its users and to job controllers, one step per event.

Follows Koordinator's PodGroup controller. `Finished` and `Failed` are final, as they are there.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

PENDING: Final = "Pending"
PRE_SCHEDULING: Final = "PreScheduling"
SCHEDULING: Final = "Scheduling"
SCHEDULED: Final = "Scheduled"
RUNNING: Final = "Running"
FINISHED: Final = "Finished"
FAILED: Final = "Failed"

STALE_AFTER_S: Final = 48 * 3600


class MemberCounts(NamedTuple):
    """The counters of the status. `scheduled` are members with a node, ended or not."""

    scheduled: int
    running: int
    succeeded: int
    failed: int


class PhaseStep(NamedTuple):
    """The next phase; `counts` None leaves the counters as they are; `fill_occupied_by` asks for the owners of a
    member to be written.
    """

    phase: str
    counts: MemberCounts | None = None
    fill_occupied_by: bool = False


def is_final(phase: str) -> bool:
    """Whether the object is left alone from now on."""
    return phase in {FINISHED, FAILED}


def is_stale(*, scheduled: int, running: int, min_member: int, created_s: float, schedule_started_s: float) -> bool:
    """A group whose members found nodes but never ran, more than two days after its creation: it is left alone too."""
    return scheduled == min_member and running == 0 and schedule_started_s - created_s > STALE_AFTER_S


def next_phase(phase: str, *, min_member: int, member_phases: Iterable[str], bound: int) -> PhaseStep:
    """One step from `phase` ("" for a new object), given the pod phases of all members and how many of them have a
    node.
    """
    if is_final(phase):
        return PhaseStep(phase)
    if phase == "":
        return PhaseStep(PENDING)
    members = list(member_phases)
    if phase == PENDING:
        if len(members) >= min_member > 0:
            return PhaseStep(PRE_SCHEDULING, fill_occupied_by=True)
        return PhaseStep(PENDING)
    if not members:
        return PhaseStep(PENDING)
    counts = MemberCounts(
        scheduled=bound,
        running=members.count("Running"),
        succeeded=members.count("Succeeded"),
        failed=members.count("Failed"),
    )
    return PhaseStep(_phase_of(counts, min_member), counts)


def _phase_of(counts: MemberCounts, min_member: int) -> str:
    phase = SCHEDULED if counts.scheduled >= min_member else SCHEDULING
    if phase == SCHEDULED and counts.running + counts.succeeded >= min_member:
        phase = RUNNING
    if counts.failed > 0 and counts.failed + counts.running + counts.succeeded >= min_member:
        phase = FAILED
    if counts.succeeded >= min_member:
        phase = FINISHED
    return phase
