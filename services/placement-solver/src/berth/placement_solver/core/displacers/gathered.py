"""Who leaves for a gang whose members have to lie together: within which nodes it costs least to make room for all.

What each node takes once everybody has left it says in which domains all members could lie. Of the lowest layer that
the gang names and that has such a domain, the cheapest is taken; how many go where is free within it, unless multiples
say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from berth.placement_solver.core.displacers.advice import Advice
from berth.placement_solver.core.displacers.job_problem import Draft, Writer, drafted, emptied_slots
from berth.placement_solver.core.gatherers.seam import Choice, Gatherer, Job
from berth.placement_solver.core.seams import Mask
from berth.rules.job_preemption.problem import Ints, JobProblem, needed_plan
from berth.rules.job_preemption.tables import Floats

DOMAINS_MAX: Final = 8
"""So many domains are looked at exactly: those that seem cheapest by the share that each unit has in its nodes."""


class GatheredJob(NamedTuple):
    """Members that are gathered together, and by whom."""

    gatherer: Gatherer
    job: Job


def gathered_draft(asked: GatheredJob, writer: Writer, able: Sequence[Mask], advice: Advice | None) -> Draft | None:
    """The plan of least cost within one domain; None: no domain does it, whoever leaves."""
    gatherer, job = asked
    whole = writer.write(able)
    size = len(able[0])
    slots, per_member = np.zeros(size, np.int64), np.zeros(size)
    slots[whole.rows] = emptied_slots(whole, [each.cls.index for each in job.members])
    per_member[whole.rows] = _share_of_nodes(whole.problem) / np.maximum(slots[whole.rows], 1)
    for choices in gatherer.choices(job, slots):
        cheap = sorted(choices, key=lambda choice: _estimate(choice, slots, per_member, len(job.members)))
        drafts = [_within(asked, writer, able, choice, slots, advice) for choice in cheap[:DOMAINS_MAX]]
        found = [draft for draft in drafts if draft is not None]
        if found:
            return min(found, key=lambda draft: draft.plan.cost)
    return None


def _within(
    asked: GatheredJob, writer: Writer, able: Sequence[Mask], choice: Choice, slots: Ints, advice: Advice | None
) -> Draft | None:
    inside: Mask = np.zeros(len(able[0]), np.bool_)
    inside[choice.rows] = True
    shared = asked.gatherer.shared_out(asked.job, choice, slots)
    if shared is not None:
        inside &= shared > 0
    if not inside.any():
        return None
    written = writer.write([each & inside for each in able])
    if shared is None:
        return drafted(written, writer.nodes, advice)
    if len(written.members) > 1 or not written.rows.size:
        return None  # numbers alone do not say who goes where
    plan = needed_plan(written.problem, [shared[written.rows]], range(len(written.units)))
    return Draft(written, plan) if plan is not None else None


def _share_of_nodes(problem: JobProblem) -> Floats:
    """What each node costs if everybody leaves it, where each unit's price is spread over its pods."""
    spread = np.maximum(np.bincount(problem.pod_unit, minlength=problem.price.size), 1)
    shares = (problem.price / spread)[problem.pod_unit]
    return np.bincount(problem.pod_node, shares, len(problem.free)).astype(np.float64)


def _estimate(choice: Choice, slots: Ints, per_member: Floats, members: int) -> float:
    """About what so many members cost there: the cheapest nodes for each member first."""
    order = choice.rows[np.argsort(per_member[choice.rows], kind="stable")]
    reach = np.cumsum(slots[order])
    taken = np.minimum(reach, members) - np.minimum(reach - slots[order], members)
    return float((taken * per_member[order]).sum())
