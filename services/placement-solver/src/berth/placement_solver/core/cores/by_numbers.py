"""Many nodes at once: which have as many CPUs, and as much of a NUMA node, as a pod asks for. What fits is less."""

from __future__ import annotations

import numpy as np

from berth.contracts import names
from berth.placement_solver.core.cores import CoresAsked, Verdict
from berth.placement_solver.core.cores.judging import (
    SINGLE,
    Judging,
    kind_of,
    policy_of,
)
from berth.placement_solver.core.seams import (
    Mask,
    RowArray,
    Rows,
    Target,
)
from berth.rules.numa.amplified_cpu import amplified_uses


class ByNumbers(Judging):
    """The mask of NodeNUMAResource."""

    def mask(self, query: CoresAsked, rows: Rows) -> Mask:
        """See `Constraint`."""
        cores = self._cores
        cores.follow()
        codes = cores.make[rows]
        verdicts = cores.verdicts(query)
        outline = query.outline()
        if not outline.concerns:
            return np.ones(codes.shape, np.bool_)
        if (alike := outline.alike) is not None:
            enough: Mask = outline.giving(codes)
            enough &= ~cores.uncounted[rows]
            enough &= cores.blocked[rows] == 0
            if alike.own:
                enough &= cores.free[kind_of(alike)][rows] >= alike.own
            if alike.policy:
                enough &= self._zone_mask_alike(query, alike, rows)
            return enough | outline.aside[codes] if outline.aside.any() else enough
        concerned = np.array([each.concerns for each in verdicts], np.bool_)[codes]
        refused = np.array([bool(each.reason) for each in verdicts], np.bool_)[codes]
        own = np.array([each.own for each in verdicts], np.int64)[codes]
        kind = np.array([kind_of(each) for each in verdicts], np.intp)[codes]
        policy = np.array([policy_of(each) for each in verdicts], np.intp)[codes]
        places = np.array([each.places for each in verdicts], np.bool_)[codes]
        amplified = np.array([each.amplified for each in verdicts], np.bool_)[codes]
        at = _indices(rows, codes.size)
        ok: Mask = ~refused & ~(places & (cores.uncounted[at] | (cores.blocked[at] > 0)))
        ok &= (own == 0) | (cores.free[kind, at] >= own)
        if amplified.any():
            ok &= ~amplified | (self._lacking_cpus(query, at, own) <= 0)
        if policy.any():
            by_zone = np.flatnonzero(ok & (policy > 0))
            if by_zone.size:
                ok[by_zone] &= self._zone_mask(query, at[by_zone], own[by_zone], kind[by_zone], policy[by_zone])
        return ok | ~concerned

    def _zone_mask_alike(self, query: CoresAsked, verdict: Verdict, rows: Rows) -> Mask:
        """What `_zone_mask` says of rows that are all judged alike, and show no more cpu than they have."""
        zones = self._cores.zone_columns
        there = zones.there[:, rows]
        needs = [
            (place, 1000 * verdict.own if name == names.CPU and verdict.own else amount)
            for name, amount in query.amounts.items()
            if amount > 0 and (place := zones.resources.get(name)) is not None
        ]
        if policy_of(verdict) != SINGLE:
            together: Mask = np.ones(there.shape[1], np.bool_)
            for place, needed in needs:
                enough = np.where(there, zones.free[place][:, rows], 0).sum(axis=0) >= needed
                together &= enough | ~zones.reported[place, rows]
            return together
        fits: Mask = there & ~zones.shared[:, rows] if query.spec.is_exclusive else there
        if verdict.own:
            fits = fits & (zones.cpus[kind_of(verdict)][:, rows] >= verdict.own)
        for place, needed in needs:
            has = zones.free[place][:, rows] >= needed
            reported = zones.reported[place, rows]
            if np.count_nonzero(reported) < reported.size:
                has |= ~reported
            fits = fits & has
        # Zone by zone, since there are few: numpy reduces a short axis slowly.
        found: Mask = np.zeros(there.shape[1], np.bool_)
        for zone in fits:
            found |= zone
        return found

    def _zone_mask(self, query: CoresAsked, at: RowArray, own: RowArray, kind: RowArray, policy: RowArray) -> Mask:
        """Which of these rows have as much on one NUMA node, or on all together, as their policy asks for."""
        cores = self._cores
        zones = cores.zone_columns
        ratios = cores.ratios[at]
        there = zones.there[:, at]
        fits = there & ~zones.shared[:, at] if query.spec.is_exclusive else there.copy()
        together = np.ones(at.shape, np.bool_)
        for name, amount in query.amounts.items():
            place = zones.resources.get(name)
            if place is None or amount <= 0:
                continue
            needed = least = np.full(at.shape, amount, np.int64)
            if name == names.CPU:
                pinned = np.ceil(1000 * own * ratios).astype(np.int64)
                needed, least = np.where(own > 0, pinned, needed), np.where(own > 0, 1000 * own, needed)
            unreported = ~zones.reported[place, at]
            free = zones.free[place][:, at]
            fits &= (free >= needed) | unreported
            # Rounding up zone by zone may add a little to each part.
            together &= (np.where(there, free, 0).sum(axis=0) >= least) | unreported
        counts = zones.cpus[:, :, at][kind, :, np.arange(at.size)].T
        fits &= (own == 0) | (counts >= own)
        single: Mask = policy == SINGLE
        return np.where(single, fits.any(axis=0), together)

    def _lacking_cpus(self, query: CoresAsked, at: RowArray, own: RowArray) -> RowArray:
        """How much cpu the pod lacks on each of these nodes, which show more than they have."""
        cores, nodes, column = self._cores, self._nodes, self._nodes.columns[names.CPU]
        ratios, owned = cores.ratios[at], 1000 * own
        need = query.amounts.get(names.CPU, 0) - owned + np.ceil(owned * ratios).astype(np.int64)
        whole = nodes.allocatable[column, at]
        lacking: RowArray = need - (whole - amplified_uses(whole - nodes.free[column, at], cores.pinned[at], ratios))
        return lacking

    def admits(self, query: CoresAsked, row: int) -> bool:
        """See `Constraint`."""
        cores = self._cores
        cores.follow()
        verdict = cores.verdicts(query)[cores.make[row]]
        if not verdict.places:
            return not verdict.amplified or self._lacking_cpu(query, verdict, Target(row)) == 0
        return bool(self.mask(query, np.array([row], np.intp))[0])


def _indices(rows: Rows, size: int) -> RowArray:
    return np.arange(rows.start or 0, (rows.start or 0) + size) if isinstance(rows, slice) else rows
