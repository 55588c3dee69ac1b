"""PodTopologySpread: pods of one kind are spread evenly over the domains of labels of nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from berth.contracts import subjects
from berth.placement_solver.core.pod_selectors import NOT_READ
from berth.placement_solver.core.seams import (
    NOTHING,
    Depends,
    Hypothesis,
    Mask,
    Rejected,
    Rejection,
    RowArray,
    Rows,
    Spec,
    Target,
    Unusable,
)
from berth.placement_solver.core.tallies.domains import NOWHERE, Domains
from berth.placement_solver.core.tallies.row_counts import RowCounts
from berth.placement_solver.core.tallies.spreads import SpreadPod, Spreads
from berth.rules.topology_spread import COUNT_MAX, HARD, MISSING_REASON, REASON, SpreadConstraint
from berth.transaction.claims import Claim

_FITS, _SKEWED, _MISSING = 0, 1, 2


class _Counted(NamedTuple):
    """One constraint with its domains, the pods that it counts by row, and the rows that count."""

    constraint: SpreadConstraint
    domains: Domains
    counts: RowCounts
    included: Mask


class PodTopologySpread:
    """The query is shared by all pods that cannot be told apart by their constraints."""

    name = "PodTopologySpread"
    depends = Depends.NODE | Depends.PEERS
    exact = True

    def __init__(self, spreads: Spreads) -> None:
        self._spreads = spreads

    def prefilter(self, spec: Spec) -> SpreadPod | Rejection | Unusable | None:
        """See `Constraint`."""
        if self._spreads.waits(spec):
            return Rejection((NOT_READ,), resolvable=False)
        pod = self._spreads.of(spec, HARD)
        if pod is None:
            return None
        if pod.spread.problems:
            return Unusable(pod.spread.problems)
        return pod if pod.spread.hard else None

    def mask(self, query: SpreadPod, rows: Rows) -> Mask:
        """See `Constraint`."""
        found: Mask = self._verdicts(query)[rows] == _FITS
        return found

    def admits(self, query: SpreadPod, row: int) -> bool:
        """See `Constraint`."""
        return bool(self._verdicts(query)[row] == _FITS)

    def filter(self, query: SpreadPod, target: Target) -> Rejection | None:
        """See `Constraint`."""
        row, hypothesis = target.row, target.hypothesis
        if hypothesis == NOTHING:
            verdict = int(self._verdicts(query)[row])
        else:
            verdict = self._verdict(query, row, hypothesis)
        if verdict == _FITS:
            return None
        return Rejection((MISSING_REASON,), resolvable=False) if verdict == _MISSING else Rejection((REASON,))

    def rejections(self, query: SpreadPod, rows: RowArray) -> list[Rejected]:
        """See `Constraint`."""
        verdicts = self._verdicts(query)[rows]
        return [
            Rejected(MISSING_REASON, verdicts == _MISSING, resolvable=False),
            Rejected(REASON, verdicts == _SKEWED),
        ]

    def accounts(self, query: SpreadPod, _claim: Claim) -> tuple[str, ...]:
        """See `Contended`: two plans that spread pods over the same domains have counted without each other."""
        return (subjects.peers_account(query.incoming.peer.namespace),)

    def _counted(self, pod: SpreadPod) -> Iterator[_Counted]:
        spreads, namespace = self._spreads, pod.incoming.peer.namespace
        for constraint, included in zip(pod.spread.hard, pod.for_hard.masks(), strict=True):
            counts = spreads.peers.counted(constraint, namespace)
            yield _Counted(constraint, spreads.domains.of(constraint.key), counts, included)

    def _verdicts(self, query: SpreadPod) -> npt.NDArray[np.int8]:
        nodes = self._spreads.nodes
        counted = list(self._counted(query))
        stamp = (nodes.reshaped.end, len(nodes.alive), *((each.counts, each.counts.version) for each in counted))
        if query.stamp == stamp:
            return query.verdicts
        verdicts = np.zeros(len(nodes.alive), np.int8)
        for each in counted:
            skewed = _skews(each, query) > each.constraint.max_skew
            verdict = np.where(skewed, np.int8(_SKEWED), np.int8(_FITS))
            verdict[NOWHERE] = _MISSING
            # The first constraint that fails names the reason.
            verdicts = np.where(verdicts == _FITS, verdict[each.domains.codes], verdicts)
        query.verdicts, query.stamp = verdicts, stamp
        return verdicts

    def _verdict(self, query: SpreadPod, row: int, hypothesis: Hypothesis) -> int:
        peers, namespace = self._spreads.peers, query.incoming.peer.namespace
        moved = [
            (cls.peer, sign)
            for claims, sign in ((hypothesis.gone, -1), (hypothesis.there, 1))
            for claim in claims
            if (cls := peers.class_of(claim)) is not None
        ]
        for each in self._counted(query):
            code = each.domains.codes[row]
            if code == NOWHERE:
                return _MISSING
            more = sum(sign for peer, sign in moved if each.constraint.counted(peer, namespace))
            if _skews(each, query, int(code), more if each.included[row] else 0)[code] > each.constraint.max_skew:
                return _SKEWED
        return _FITS


def _skews(counted: _Counted, pod: SpreadPod, changed: int = NOWHERE, more: int = 0) -> npt.NDArray[np.int64]:
    """The skew that the pod would make in each domain, with `more` pods counted in the one that is `changed`."""
    constraint, domains, counts, included = counted
    sums = counts.by_domain(domains, included)
    sums[changed] += more
    present = np.zeros(domains.count, np.bool_)
    present[domains.codes[included]] = True
    present[NOWHERE] = False
    least = 0
    if np.count_nonzero(present) >= constraint.min_domains:
        least = int(sums[present].min(initial=COUNT_MAX))
    return sums + int(constraint.selects(pod.incoming.peer.labels)) - least
