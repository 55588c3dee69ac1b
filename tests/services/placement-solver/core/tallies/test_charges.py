"""Charges against a list of what is charged: each tally has counted each pod as it is shown now."""

from __future__ import annotations

from collections import Counter

import hypothesis.strategies as st
from hypothesis import given

from berth.contracts.state import Pod, PodTemplate
from berth.placement_solver.core.displacers.charged_pods import ChargedPods
from berth.placement_solver.core.seams import Charge, PodTally, Tally
from berth.placement_solver.core.tallies.charges import Charges
from berth.transaction.claims import Claim, Name


class Count:
    """How many pods are on which rows."""

    def __init__(self, *, counts_kept: bool) -> None:
        self.counts_kept = counts_kept
        self.found: Counter[object] = Counter()

    def of(self, pod: Pod | None, row: int) -> object:
        return row

    def apply(self, charge: Charge, sign: int) -> None:
        self.found[self.of(charge.pod, charge.row)] += sign


class ByPriority(Count):
    """How many pods of each priority are on which rows."""

    def of(self, pod: Pod | None, row: int) -> object:
        return row, None if pod is None else pod.template.priority

    def tells_apart(self, before: Pod | None, now: Pod | None) -> bool:
        return self.of(before, 0) != self.of(now, 0)


names, rows = st.sampled_from("ab"), st.integers(0, 1)
charging = st.tuples(st.just("charge"), names, st.sampled_from("12"), rows, st.booleans())
giving_back = st.tuples(st.just("give back"), st.integers(0, 9))
seeing = st.tuples(st.just("see"), names, st.sampled_from("12"), st.integers(0, 2))
forgetting = st.tuples(st.just("forget"), names)


@given(st.lists(st.one_of(charging, giving_back, seeing, forgetting), max_size=30))
def test_each_pod_counts_as_what_it_is_shown(steps: list[tuple[object, ...]]) -> None:
    shown: dict[Name, Pod] = {}
    charges = Charges(shown.get)
    tallies = [kind(counts_kept=kept) for kind in (Count, ByPriority) for kept in (False, True)]
    charges.tell(*tallies)
    held: list[tuple[Claim, int, bool]] = []
    for step in steps:
        match step:
            case ("charge", str(name), str(uid), int(row), bool(is_kept)):
                held.append((Claim(("d", name), f"{name}{uid}", f"n{row}", {}), row, is_kept))
                charges.apply(held[-1][0], row, 1, is_kept=is_kept)
            case ("give back", int(at)) if held:
                claim, row, is_kept = held.pop(at % len(held))
                charges.apply(claim, row, -1, is_kept=is_kept)
            case ("see", str(name), str(uid), int(priority)):
                template = PodTemplate(priority=priority)
                pod = Pod(namespace="d", name=name, uid=f"{name}{uid}", version=1, template=template)
                shown["d", name] = pod
                charges.see(("d", name), pod)
            case ("forget", str(name)):
                shown.pop(("d", name), None)
                charges.see(("d", name), None)
        for tally in tallies:
            expected: Counter[object] = Counter()
            for claim, row, is_kept in held:
                if tally.counts_kept or not is_kept:
                    expected[tally.of(charges.pod_of(claim), row)] += 1
            assert +tally.found == expected
            assert not -tally.found
    for claim, row, _ in held:
        charge = charges.of(claim, row)
        assert charge is not None
        assert (charge.uid, charge.row, charge.pod) == (claim.uid, row, charges.pod_of(claim))


def test_who_is_lifted_for_a_while_goes_on_being_charged_to_its_quota() -> None:
    charges, charged = Charges(), ChargedPods()
    charges.tell(charged)
    claim = Claim(("d", "a"), "a", "n", {"cpu": 1}, quota="tree/group")
    lifted = claim._replace(quota="")
    charges.apply(claim, 0, 1)
    for sign in (-1, 1):
        charges.apply(lifted, 0, sign)
        assert charged.of("tree", "group") == [claim]
    charges.apply(claim, 0, -1)
    assert charged.of("tree", "group") == []


def test_only_those_to_which_it_matters_are_told_what_a_pod_says() -> None:
    plain: Tally = Count(counts_kept=True)
    by_priority: Tally = ByPriority(counts_kept=True)
    assert not isinstance(plain, PodTally)
    assert isinstance(by_priority, PodTally)
