"""What is used on the nodes by one profile's arguments, as arrays: one row a node, one column a resource it looks at.

The rules are those of `berth.rules.load_aware`. Of each row they are worked out once for all pods that ask: by how much
its use may still grow (`_headroom`), for prod pods and for others, whose thresholds may differ. A mask is a comparison.

A row is written again when it is asked for after its report, its node or its pods changed; sums over its pods are kept.
Nodes whose own thresholds name resources that the profile does not look at are asked one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import Final, NamedTuple

import numpy as np

from berth.contracts.state import Node
from berth.placement_solver.core.nodes import AMOUNT_MAX, Ints, Nodes
from berth.placement_solver.core.seams import NOTHING, Charge, Floats, Hypothesis, Mask, RowArray, Rows, Spec
from berth.placement_solver.core.tallies.loads import Loads
from berth.resources.amounts import Amounts
from berth.rules.load_aware.capacity import capacity_of
from berth.rules.load_aware.existing import Existing, existing_of, node_load, prod_load
from berth.rules.load_aware.filter import DAEMON_SET, EXPIRED, Incoming, Measured, exceeds, too_busy
from berth.rules.load_aware.metric import AHEAD_MAX_S, Metric
from berth.rules.load_aware.pods import assigned_of, incoming_of
from berth.rules.load_aware.reports import Report
from berth.rules.load_aware.score import rate
from berth.rules.load_aware.thresholds import Thresholds, thresholds_of
from berth.rules.scheduler_config.load_aware import LoadAwareArgs, duration_s

OTHER, PROD = 0, 1
"""Kinds of pods that wait."""
ANY: Final = 1 << 60
"""The headroom where nothing is checked."""
SILENT: Final = Metric(None)
"""Stands for the report of a node that sends none, where sums over pods are concerned."""


class LoadQuery(NamedTuple):
    """Who waits: to the rules, by kind, and its estimate by column."""

    incoming: Incoming
    kind: int
    amounts: tuple[int, ...]


class _OfNode(NamedTuple):
    """What follows from the node alone."""

    node: Node
    capacity: Amounts
    thresholds: Thresholds


class LoadTable:
    """Over the pods and reports of `loads`. It costs nothing before it is asked something."""

    def __init__(self, nodes: Nodes, loads: Loads, args: LoadAwareArgs) -> None:
        self.args = args
        self._nodes = nodes
        self._loads = loads
        named = (args.usage_thresholds, args.prod_usage_thresholds, args.aggregated.usage_thresholds)
        self.columns = tuple(sorted({*args.tracked, *(name for each in named for name in each)}))
        self._scored = np.array([self.columns.index(name) for name in sorted(args.tracked)], np.intp)
        self._window_s = duration_s(args.aggregated.score_aggregated_duration) or 0.0
        self._is_watching = False
        self._parts: dict[Charge, Existing] = {}
        self._sums: dict[int, Existing] = {}
        self._of_nodes: dict[int, _OfNode] = {}
        self._unwritten: set[int] = set()
        self._odd: set[int] = set()
        size, width = nodes.alive.shape[0], len(self.columns)
        self._headroom: Ints = np.full((2, width, size), ANY, np.int64)
        self._load: Ints = np.zeros((2, width, size), np.int64)
        self._capacity: Ints = np.zeros((width, size), np.int64)
        self._checked: Mask = np.zeros((2, size), np.bool_)
        self._by_window: Mask = np.zeros((2, size), np.bool_)
        self._measured: Mask = np.zeros(size, np.bool_)
        self._updated: Floats = np.full(size, -inf)

    # --- who asks ----------------------------------------------------------------------------------------------------

    def query(self, spec: Spec) -> LoadQuery | None:
        """What is asked of nodes for a pod; None for those of a DaemonSet, which go wherever their node is."""
        return None if any(owner.kind == DAEMON_SET for owner in spec.owners) else self.expected(spec)

    def expected(self, spec: Spec) -> LoadQuery:
        """What a pod is expected to use."""
        self._watch()
        incoming = incoming_of(self.args, spec.template)
        amounts = tuple(min(incoming.estimate.get(name, 0), AMOUNT_MAX) for name in self.columns)
        return LoadQuery(incoming, PROD if incoming.is_prod else OTHER, amounts)

    def admits(self, query: LoadQuery, rows: Rows) -> Mask:
        """Which of the rows take the pod now."""
        self._write()
        found: Mask = np.ones(self._updated[rows].shape, np.bool_)
        for column, amount in enumerate(query.amounts):
            found &= self._headroom[query.kind, column, rows] >= amount
        expired = self._expired(query, rows)
        if expired is not None:
            found[expired] = self.args.enable_schedule_when_node_metrics_expired
        for row, place in self._odd_among(rows):
            found[place] = not self.reason(query, row)
        return found

    def reason(self, query: LoadQuery, row: int, hypothesis: Hypothesis = NOTHING) -> str:
        """Why a row does not take the pod, in the rule's words; empty: it does.

        Of those who would be gone the load stays, since it was measured: but for who was never there.
        """
        known, report = self._of_node(row), self._report(row)
        if known is None:
            return ""
        existing = self._sums.get(row)
        existing = existing if existing is not None else Existing({}, {}, {}, {})
        if hypothesis.gone or hypothesis.there:
            existing = self._under(existing, row, hypothesis)
        node = Measured(known.capacity, known.thresholds, report.metric if report is not None else None, existing)
        return too_busy(self.args, node, query.incoming, self._loads.now_s)

    def reasons(self, query: LoadQuery, rows: RowArray) -> dict[str, Mask]:
        """Which of the rows do not take the pod, by the reason."""
        left: Mask = ~self.admits(query, rows)
        found: dict[str, Mask] = {}

        def take(reason: str, part: Mask) -> None:
            nonlocal left
            if part.any():
                found[reason] = found[reason] | part if reason in found else part
                left = left & ~part

        for row, place in self._odd_among(rows):
            if left[place]:
                take(self.reason(query, row), np.arange(left.size) == place)
        expired = self._expired(query, rows)
        if expired is not None:
            take(EXPIRED, left & expired)
        by_window = self._by_window[query.kind, rows]
        for column, name in enumerate(self.columns):
            short = left & (self._headroom[query.kind, column, rows] < query.amounts[column])
            take(exceeds(name, by_window=False), short & ~by_window)
            take(exceeds(name, by_window=True), short & by_window)
        return found

    def score(self, query: LoadQuery, rows: RowArray) -> Floats:
        """How much of the nodes would be left, 0 to 100; nothing of those of which nobody knows what is used now."""
        self._write()
        args, scored = self.args, self._scored
        kind = PROD if query.kind == PROD and args.score_according_prod_usage else OTHER
        amounts = np.array(query.amounts, np.int64)[scored]
        load = self._load[kind][scored][:, rows] + amounts[:, np.newaxis]
        weights = [args.resource_weights.get(self.columns[column], 0) for column in scored.tolist()]
        capacity = self._capacity[scored][:, rows]
        rated = rate(load, capacity, np.array(weights, np.int64), args.dominant_resource_weight)
        return np.where(self._measured[rows] & ~self._old(rows), rated, 0).astype(np.float64)

    def _old(self, rows: Rows) -> Mask:
        age: Floats = self._loads.now_s - self._updated[rows]
        old: Mask = (age >= self.args.node_metric_expiration_seconds) | (age < -AHEAD_MAX_S)
        return old

    def _expired(self, query: LoadQuery, rows: Rows) -> Mask | None:
        """Where the report is too old to be checked; None: that is not asked."""
        if not self.args.filter_expired_node_metrics:
            return None
        expired: Mask = self._old(rows) & self._checked[query.kind, rows]
        return expired

    def _odd_among(self, rows: Rows) -> Iterable[tuple[int, int]]:
        """The odd ones among the rows, each with its place there."""
        if not self._odd:
            return ()
        if isinstance(rows, slice):
            begin, end, _ = rows.indices(self._updated.shape[0])
            return [(row, row - begin) for row in sorted(self._odd) if begin <= row < end]
        return [(row, place) for place, row in enumerate(rows.tolist()) if row in self._odd]

    def _under(self, existing: Existing, row: int, hypothesis: Hypothesis) -> Existing:
        changed = Existing(*map(dict, existing))
        node = self._nodes.names[row]
        for claim in hypothesis.gone:
            charge = self._loads.charges.of(claim, row) if not claim.is_bound and not claim.is_reservation else None
            if charge is not None:
                _add(changed, self._parts[charge], -1)
        for claim in hypothesis.there:
            if claim.node == node and not claim.is_reservation:
                _add(changed, self._part(Charge(claim, row, self._loads.charges.pod_of(claim))), 1)
        return changed

    # --- what is there -----------------------------------------------------------------------------------------------

    def add(self, charge: Charge) -> None:
        """See `Table`."""
        part = self._parts[charge] = self._part(charge)
        sums = self._sums.get(charge.row)
        if sums is None:
            sums = self._sums[charge.row] = Existing({}, {}, {}, {})
        _add(sums, part, 1)
        self._unwritten.add(charge.row)

    def remove(self, charge: Charge) -> None:
        """See `Table`."""
        _add(self._sums[charge.row], self._parts.pop(charge), -1)
        self._unwritten.add(charge.row)

    def renew(self, row: int) -> bool:
        """See `Table`."""
        before = self._open(row)
        self._of_nodes.pop(row, None)
        self._sums.pop(row, None)
        for charge in self._loads.on(row):
            self.add(charge)
        self._unwritten.add(row)
        after = self._open(row)
        return row in self._odd or any(map(_has_grown, before, after))

    def _open(self, row: int) -> list[list[int]]:
        """By how much the use of a row may grow, for each kind of pods; empty where none is taken, whatever it uses."""
        self._write()
        is_old = bool(self._old(np.array([row], np.intp))[0])
        found: list[list[int]] = []
        for headroom, is_checked in zip(
            self._headroom[:, :, row].tolist(), self._checked[:, row].tolist(), strict=True
        ):
            is_shut = min(headroom, default=0) < 0
            if is_old and is_checked and self.args.filter_expired_node_metrics:
                is_shut = not self.args.enable_schedule_when_node_metrics_expired
            found.append([] if is_shut else headroom)
        return found

    def _watch(self) -> None:
        if not self._is_watching:
            self._is_watching = True
            self._loads.watch(self)
            for row in range(len(self._nodes)):
                for charge in self._loads.on(row):
                    self.add(charge)
                self._unwritten.add(row)

    def _part(self, charge: Charge) -> Existing:
        """What one pod adds to the sums of its row."""
        report = self._report(charge.row)
        key = report.key(charge.claim.name, charge.uid) if report is not None else None
        assigned = assigned_of(self.args, key, charge.template, charge.pod)
        return existing_of(report.metric if report is not None else SILENT, (assigned,))

    def _report(self, row: int) -> Report | None:
        return self._loads.reports.of(self._nodes.names[row])

    def _of_node(self, row: int) -> _OfNode | None:
        node = self._nodes.states[row]
        if node is None:
            return None
        known = self._of_nodes.get(row)
        if known is None or known.node is not node:
            capacity, _ = capacity_of(node.allocatable, node.annotations)
            thresholds, _ = thresholds_of(self.args, node.annotations)
            known = self._of_nodes[row] = _OfNode(node, capacity, thresholds)
        return known

    def _write(self) -> None:
        """Bring up to date what was asked for."""
        size = self._nodes.alive.shape[0]
        if size > self._updated.shape[0]:
            self._widen(size)
        for row in sorted(self._unwritten):
            self._write_row(row)
        self._unwritten.clear()

    def _write_row(self, row: int) -> None:
        known, report = self._of_node(row), self._report(row)
        self._odd.discard(row)
        self._headroom[:, :, row] = ANY
        self._checked[:, row] = False
        self._measured[row] = False
        self._updated[row] = -inf
        if known is None or report is None:
            return
        metric, args, capacity = report.metric, self.args, known.capacity
        if metric.updated_s is not None:
            self._updated[row] = metric.updated_s
        existing = self._sums.get(row) or Existing({}, {}, {}, {})
        of_prod = prod_load(metric, existing, with_system=args.prod_usage_include_sys)
        scored = node_load(metric, existing, args.aggregated.score_aggregation_type, self._window_s)
        self._measured[row] = metric.node_usage is not None
        for column, name in enumerate(self.columns):
            self._capacity[column, row] = min(capacity.get(name, 0), AMOUNT_MAX)
            self._load[OTHER, column, row] = min(scored.get(name, 0), AMOUNT_MAX)
            self._load[PROD, column, row] = min(of_prod.get(name, 0), AMOUNT_MAX)
        usage, prod, window = known.thresholds
        loads = node_load(metric, existing)
        percent: Mapping[str, int] = usage
        if window is not None:
            loads, percent = node_load(metric, existing, window.aggregation, window.duration_s), window.percent
        self._by_window[:, row] = window is not None
        self._check(OTHER, row, loads, percent, capacity, is_measured=metric.node_usage is not None)
        if any(prod.values()):
            loads, percent = of_prod, prod
            self._by_window[PROD, row] = False
        self._check(PROD, row, loads, percent, capacity, is_measured=metric.node_usage is not None)

    def _check(
        self,
        kind: int,
        row: int,
        load: Mapping[str, int],
        percent: Mapping[str, int],
        capacity: Mapping[str, int],
        *,
        is_measured: bool,
    ) -> None:
        """Write by how much the load may grow. A percentage is rounded half up, so that up to half a percent more than
        the threshold is no more."""
        named = {name: most for name, most in percent.items() if most > 0}
        self._checked[kind, row] = bool(named)
        if not is_measured:
            return
        for column, name in enumerate(self.columns):
            whole = capacity.get(name, 0)
            if named.pop(name, 0) and whole > 0:
                most = (whole * (2 * percent[name] + 1) - 1) // 200
                self._headroom[kind, column, row] = max(min(most - load.get(name, 0), ANY), -1)
        if named:
            self._odd.add(row)

    def _widen(self, size: int) -> None:
        grow = size - self._updated.shape[0]
        self._headroom = np.pad(self._headroom, ((0, 0), (0, 0), (0, grow)), constant_values=ANY)
        self._load = np.pad(self._load, ((0, 0), (0, 0), (0, grow)))
        self._capacity = np.pad(self._capacity, ((0, 0), (0, grow)))
        self._checked = np.pad(self._checked, ((0, 0), (0, grow)))
        self._by_window = np.pad(self._by_window, ((0, 0), (0, grow)))
        self._measured = np.pad(self._measured, (0, grow))
        self._updated = np.pad(self._updated, (0, grow), constant_values=-inf)


def _has_grown(before: list[int], after: list[int]) -> bool:
    return bool(after) and (not before or any(now > then for then, now in zip(before, after, strict=True)))


def _add(sums: Existing, part: Existing, sign: int) -> None:
    for total, amounts in zip(sums, part, strict=True):
        for name, amount in amounts.items():
            total[name] = total.get(name, 0) + sign * amount
