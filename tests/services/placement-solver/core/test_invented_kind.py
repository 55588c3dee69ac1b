"""Something that is given out one by one and that nobody has heard of: a file in each list takes it all the way.

Nodes have numbered lanes, as many as their label says; pods ask for some. What is in this file such a kind needs.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from berth.cluster_writer.core.last_check import clash
from berth.contracts.ledger import Decision, Grant
from berth.contracts.state import Device, PodTemplate
from berth.placement_solver.core import explain
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.seams import (
    Choice,
    Depends,
    Floats,
    Lacking,
    Mask,
    Rejected,
    Rejection,
    RowArray,
    Rows,
    Spec,
    Target,
)
from berth.placement_solver.core.verify import grants as laws
from berth.placement_solver.core.verify.grants import GrantLaw
from berth.rules.records import registry
from berth.rules.records.binds import written_over
from berth.rules.records.seam import Bound
from berth.testing.builders import gpu_slots, pod
from berth.transaction.claims import Claim, of_decision

LANE = "example.com/lane"
NOTE = "scheduling.berth.sh/lanes"
SHORT, UNKNOWN = "Insufficient lanes", "node(s) hold lanes of which nobody knows which"


def lane(number: str) -> Grant:
    return Grant(kind="lane", id=number, amounts={LANE: 1})


class LaneRecord:
    """The record."""

    name = "lanes"
    annotations: tuple[str, ...] = (NOTE,)
    nothing = "[]"
    kinds = frozenset({"lane"})
    resources: frozenset[str] = frozenset()

    def asks(self, template: PodTemplate) -> bool:
        return template.requests.get(LANE, 0) > 0

    def unknown(self, amounts: Mapping[str, int]) -> str:
        return self.name

    def blocks(self, unknown: str) -> frozenset[str]:
        return self.kinds if unknown == self.name else frozenset()

    def write(self, bound: Bound) -> dict[str, str]:
        mine = [each.id for each in bound.grants if each.kind == "lane"]
        return {NOTE: json.dumps(mine)} if mine else {}

    def read(self, annotations: Mapping[str, str]) -> tuple[Grant, ...] | None:
        try:
            return tuple(map(lane, json.loads(annotations.get(NOTE) or "[]")))
        except ValueError:
            return None

    def completed(self, grants: tuple[Grant, ...], template: PodTemplate) -> tuple[Grant, ...]:
        return grants

    def within(self, grants: tuple[Grant, ...], template: PodTemplate) -> tuple[Grant, ...]:
        return tuple(each for each in grants if each.kind == "lane")[: template.requests.get(LANE, 0)]

    def held(self, grants: tuple[Grant, ...], template: PodTemplate) -> tuple[Grant, ...]:
        return self.within(grants, template)

    def whole(self, kind: str, resource: str) -> int | None:
        return 1

    def called(self, grant: Grant) -> str:
        return f"lane {grant.id}"

    def broken(self, grant: Grant, device: Device | None) -> str:
        return ""


class LaneTally:
    """The tally."""

    name = "lanes"

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.held: dict[int, Counter[str]] = defaultdict(Counter)
        self.blocked: Counter[int] = Counter()

    def take(self, row: int, grants: tuple[Grant, ...], sign: int) -> None:
        for each in grants:
            if each.kind == "lane":
                self.held[row][each.id] += sign * each.amounts[LANE]
        self.nodes.touched.add(row)

    def block(self, row: int, sign: int) -> None:
        self.blocked[row] += sign
        self.nodes.touched.add(row)


class Lanes:
    """The constraint."""

    name = "Lanes"
    depends = Depends.CAPACITY
    exact = True

    def __init__(self, tally: LaneTally) -> None:
        self._tally = tally

    def prefilter(self, spec: Spec) -> int | None:
        return spec.template.requests.get(LANE) or None

    def free(self, target: Target) -> list[str]:
        node = self._tally.nodes.states[target.row]
        held = Counter(self._tally.held[target.row])
        for claims, sign in ((target.hypothesis.gone, -1), (target.hypothesis.there, 1)):
            for grant in (grant for claim in claims for grant in claim.grants if grant.kind == "lane"):
                held[grant.id] += sign
        return [each for each in map(str, range(int(node.labels.get("lanes", 0) if node else 0))) if held[each] <= 0]

    def mask(self, query: int, rows: Rows) -> Mask:
        at = range(*rows.indices(len(self._tally.nodes))) if isinstance(rows, slice) else rows.tolist()
        return np.array([self.admits(query, row) for row in at], np.bool_)

    def admits(self, query: int, row: int) -> bool:
        return self.filter(query, Target(row)) is None

    def filter(self, query: int, target: Target) -> Rejection | None:
        if self._tally.blocked[target.row]:
            return Rejection((UNKNOWN,))
        return Rejection((SHORT,)) if len(self.free(target)) < query else None

    def rejections(self, query: int, rows: RowArray) -> list[Rejected]:
        found = [self.filter(query, Target(row)) for row in rows.tolist()]
        return [
            Rejected(text, np.array([each is not None and text in each.reasons for each in found], np.bool_))
            for text in (SHORT, UNKNOWN)
        ]

    def distance(self, query: int, rows: RowArray, counts: RowArray) -> Floats:
        return np.zeros(rows.shape)

    def lacking(self, query: int, row: int, count: int) -> Lacking | None:
        short = count * query - len(self.free(Target(row)))
        return Lacking(things=(f"{short} of its lanes",), less="fewer lanes") if short > 0 else Lacking()

    def shares_node(self, query: int) -> bool:
        return True


class LaneAllocator:
    """The allocator."""

    constraint = Lanes.name

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes

    def choose(self, query: int, target: Target) -> Choice | Rejection:
        mine = [claim for claim in target.hypothesis.gone if claim.uid == target.reservation]
        preferred = {grant.id for claim in mine for grant in claim.grants if grant.kind == "lane"}
        free = sorted(self._lanes.free(target), key=lambda each: (each not in preferred, each))
        return Choice(tuple(map(lane, free[:query]))) if len(free) >= query else Rejection((SHORT,))


def _problems(claim: Claim, wish: Any, place: Any) -> Iterator[str]:
    if sum(1 for grant in claim.grants if grant.kind == "lane") != claim.amounts.get(LANE, 0):
        yield "is not given as many lanes as it asks for"


LAW = GrantLaw(
    frozenset({"lane"}),
    _problems,
    lambda place: {("lane", str(each), LANE): 1 for each in range(int(place.node.labels.get("lanes", 0)))},
)


@pytest.fixture
def run(solving: type[Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    record = LaneRecord()
    monkeypatch.setattr(registry, "GRANTS", (*registry.GRANTS, record))
    monkeypatch.setattr(registry, "RECORDS", (*registry.RECORDS, record))
    monkeypatch.setattr(laws, "LAWS", (*laws.LAWS, LAW))
    made = solving()
    cluster = made.cluster
    tally = LaneTally(cluster.nodes)
    lanes = Lanes(tally)
    cluster.capacity._grant_tallies += (tally,)
    cluster.capacity._alone.append(tally)
    rules = cluster.profiles.default
    rules.of_class += (lanes,)
    rules._rank[lanes.name] = len(rules._rank)
    rules.allocators += (LaneAllocator(lanes),)
    made.held = lambda: {each for each, amount in tally.held[cluster.nodes.row("n")].items() if amount}
    made.node("n", labels={"lanes": "4"}, extended={LANE: 9})
    return made


def wants(name: str, count: int) -> Any:
    return pod(name).requests({LANE: count})


def granted(run: Any, name: str) -> list[str]:
    (claim,) = run.cluster.book.claims_of(("default", name))
    return [each.id for each in claim.grants]


def test_it_is_chosen_decided_bound_and_read_back(run: Any) -> None:
    builders = [wants("a", 2), wants("b", 1), wants("c", 2)]
    run.pods(builders)
    (refusal,) = run.round().refusals
    assert explain.message(refusal.reasons, 1) == (
        "0/1 nodes are available: 1 Insufficient lanes. "
        "To repair: free 1 of its lanes on node n, or ask for fewer lanes."
    )
    decision = run.cluster.book.ledger.decisions["default", "a"].decision
    assert (decision.allocation.grants, decision.allocation.devices) == ([lane("0"), lane("1")], [])
    assert decision.annotations[NOTE] == '["0", "1"]'
    run.bind(builders[0])
    run.bind(builders[1])
    (bound,) = run.cluster.book.claims_of(("default", "a"))
    assert bound.takes_as(of_decision(decision))
    assert run.held() == {"0", "1", "2"}
    run.delete_pod("a")
    assert run.held() == {"2"}
    run.cluster.now += 1000
    assert run.nodes_of(run.round()) == {"c": "n"}


def test_the_verifier_finds_what_is_granted_twice_or_not_at_all(run: Any) -> None:
    run.pods([wants("a", 1), wants("b", 1)])
    solution, trial = run.solve()
    trial.undo()
    one, two = (placement.claim for placement in solution.placements)
    assert run.verifier.check([one, two]) == []
    assert run.verifier.check([one, two._replace(grants=one.grants)]) == [f"node n: lane 0 {LANE}: 2 claimed of 1"]
    assert run.verifier.check([one._replace(grants=())])
    assert run.verifier.check([one._replace(grants=(Grant(kind="other", id="0"), *one.grants))])


def test_a_record_counts_within_the_request_and_blocks_its_kind_when_it_cannot_be_read(run: Any) -> None:
    run.devices("n", gpu_slots(1))
    run.pod(wants("other", 1).annotation(NOTE, '["3", "2"]').on("n"))
    assert granted(run, "other") == ["3"]
    run.pod(wants("torn", 1).annotation(NOTE, "[").on("n"))
    run.pods([wants("a", 1), pod("b").gpus(1)])
    solution = run.round()
    assert run.nodes_of(solution) == {"b": "n"}, "devices are not blocked by it"
    assert [reason.message for reason in solution.refusals[0].reasons] == [UNKNOWN]
    run.delete_pod("torn")
    run.cluster.now += 1000
    assert run.nodes_of(run.round()) == {"a": "n"}


def test_what_a_reservation_leaves_is_kept_and_its_users_share_it(run: Any) -> None:
    capacity = run.cluster.capacity
    held = Claim(("", "r"), "r", "n", {LANE: 2}, (lane("0"), lane("1")), is_reservation=True)
    user = Claim(("default", "u"), "u", "n", {LANE: 1}, (lane("1"),), reservation="r")
    for claim in (held, user):
        capacity.apply(claim, 1)
        assert run.held() == {"0", "1"}
    capacity.apply(held, -1)
    assert run.held() == {"1"}
    capacity.apply(user, -1)
    assert run.held() == set()


def test_the_last_check_and_the_bind_know_it(run: Any) -> None:
    run.pods([wants("a", 1), wants("b", 1)])
    run.round()
    mine, other = (run.cluster.book.ledger.decisions["default", name].decision for name in "ab")
    assert _clash(mine, of_decision(other)) is None
    found = _clash(mine, of_decision(other)._replace(grants=(lane("0"),)))
    assert found is not None
    assert (found.text, found.is_ours) == (f"{LANE} of lane 0 on n: 2 claimed of 1", True)
    unknown = _clash(mine, of_decision(other)._replace(grants=(), unreadable=("lanes",)))
    assert unknown is not None
    assert _clash(mine, of_decision(other)._replace(unreadable=("devices",))) is None
    assert written_over({}, {NOTE: '["0"]'}) == {NOTE: "[]"}


def _clash(mine: Decision, *others: Claim) -> Any:
    return clash(mine, others, {LANE: 9, "pods": 9})
