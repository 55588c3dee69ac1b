"""A question that is left open by a plan, and the answer to it: is there a cheaper one?

Whoever answers takes his time, in which things change. So an answer names pods and nodes, and counts only if it is a
plan on what there is by then, and cheaper than the one at hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from berth.rules.job_preemption.problem import JobPlan, JobProblem
from berth.transaction.claims import Name


class Advice(NamedTuple):
    """The node of each member, and the uids of those who leave."""

    nodes: Mapping[Name, str]
    victims: frozenset[str]


class JobQuestion(NamedTuple):
    """A problem with the plan at hand, and what its indices stand for."""

    problem: JobProblem
    plan: JobPlan
    nodes: tuple[str, ...]
    members: tuple[tuple[Name, ...], ...]
    units: tuple[frozenset[str], ...]

    def advice(self, places: Sequence[Sequence[int]], units: Sequence[int]) -> Advice | None:
        """What an answer means; None: it is none to this question."""
        if len(places) != len(self.members) or any(not 0 <= unit < len(self.units) for unit in units):
            return None
        nodes: dict[Name, str] = {}
        for names, counts in zip(self.members, places, strict=True):
            if len(counts) != len(self.nodes) or sum(counts) != len(names) or min(counts, default=0) < 0:
                return None
            on = [node for node, count in zip(self.nodes, counts, strict=True) for _ in range(count)]
            nodes.update(zip(names, on, strict=True))
        return Advice(nodes, frozenset(uid for unit in units for uid in self.units[unit]))
