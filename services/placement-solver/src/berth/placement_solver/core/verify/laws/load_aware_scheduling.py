"""LoadAwareScheduling: no pod of a plan goes to a node that is too busy for it, beside who is there and what the plan
placed before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from berth.contracts.state import Node, Pod, PodTemplate
from berth.placement_solver.core.verify.laws.placed_pods import node_of, pod_of
from berth.placement_solver.core.verify.view import View
from berth.rules.load_aware.capacity import capacity_of
from berth.rules.load_aware.existing import Assigned, existing_of
from berth.rules.load_aware.filter import Measured, too_busy
from berth.rules.load_aware.pods import assigned_of, incoming_of
from berth.rules.load_aware.reports import Report
from berth.rules.load_aware.thresholds import thresholds_of
from berth.rules.scheduler_config import LoadAwareArgs
from berth.transaction.claims import Claim

PLUGIN: Final = "LoadAwareScheduling"


class LoadLaw:
    """Remembers of each pod what it is estimated at, for as long as it is there and says the same."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Pod, LoadAwareArgs, Assigned]] = {}

    def count(self, claim: Claim, *, added: bool) -> None:
        """A claim comes or goes."""
        if not added:
            self._known.pop(claim.uid, None)

    def problems(self, claims: Sequence[Claim], nominated: Sequence[Claim], view: View) -> Iterator[str]:
        """What speaks against a plan that makes these claims, in this order, beside what is nominated.

        Who would leave for the plan counts as well: what they use was measured.
        """
        for place, claim in enumerate(claims):
            node, report = node_of(claim.node, view), view.loads.reports.of(claim.node)
            if node is None or report is None:
                continue
            seen = view.book.seen(claim.name)
            profile = view.profile_of(seen.template.scheduler) if seen is not None else None
            if seen is None or profile is None or PLUGIN not in profile.constraints:
                continue
            args = profile.args_of(PLUGIN, LoadAwareArgs)
            beside = (each for each in (*nominated, *claims[:place]) if each.node == claim.node)
            there = [each for each in (*view.book.claims_on(claim.node), *beside) if not each.is_reservation]
            kinds = [owner.kind for owner in seen.owners] if isinstance(seen, Pod) else []
            measured = self._measured(args, node, report, there, view)
            reason = too_busy(args, measured, incoming_of(args, seen.template, kinds), view.loads.now_s)
            if reason:
                yield f"{'/'.join(claim.name)}: node {claim.node}: {reason}"

    def _measured(
        self, args: LoadAwareArgs, node: Node, report: Report, there: Sequence[Claim], view: View
    ) -> Measured:
        capacity, _ = capacity_of(node.allocatable, node.annotations)
        thresholds, _ = thresholds_of(args, node.annotations)
        pods = [self._assigned(args, claim, view)._replace(key=report.key(claim.name, claim.uid)) for claim in there]
        return Measured(capacity, thresholds, report.metric, existing_of(report.metric, pods))

    def _assigned(self, args: LoadAwareArgs, claim: Claim, view: View) -> Assigned:
        pod = pod_of(claim.name, claim.uid, view)
        if pod is None:
            return assigned_of(args, None, PodTemplate(requests=claim.amounts))
        known = self._known.get(claim.uid)
        if known is not None and known[0] is pod and known[1] is args:
            return known[2]
        assigned = assigned_of(args, None, pod.template, pod)
        self._known[claim.uid] = (pod, args, assigned)
        return assigned
