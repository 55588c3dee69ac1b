"""A Reservation that ends while it is used frees what its users have not taken, and nothing of theirs."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.contracts import names
from berth.contracts.state import Node
from berth.placement_solver.core.capacity import Capacity
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.quotas import Quotas
from berth.transaction.claims import Claim

amounts = st.integers(0, 6)
events = st.lists(
    st.one_of(
        st.tuples(st.just("reserve"), st.integers(0, 2), amounts, amounts),
        st.tuples(st.just("end"), st.integers(0, 2), st.just(0), st.just(0)),
        st.tuples(st.just("use"), st.integers(0, 5), amounts, st.integers(0, 2)),
        st.tuples(st.just("leave"), st.integers(0, 5), st.just(0), st.just(0)),
    ),
    max_size=14,
)


def empty() -> Capacity:
    nodes = Nodes()
    nodes.see_node("n", Node(name="n", uid="n", version=1, allocatable={names.CPU: 100, names.PODS: 10}))
    return Capacity(nodes, Quotas())


def free(capacity: Capacity) -> Any:
    return capacity.nodes.free[capacity.nodes.column(names.CPU), 0]


@settings(max_examples=200, deadline=None)
@given(events)
def test_whatever_ends_first(drawn: list[tuple[str, int, int, int]]) -> None:
    capacity = empty()
    there: dict[str, Claim] = {}

    def change(key: str, claim: Claim | None) -> None:
        old = there.pop(key, None)
        if old is not None:
            capacity.apply(old, -1)
        if claim is not None:
            there[key] = claim
            capacity.apply(claim, 1)

    for what, number, size, other in drawn:
        if what == "reserve":
            held, inner = {names.CPU: size}, {names.CPU: other}
            claim = Claim(("", f"r{number}"), f"r{number}", "n", held, is_reservation=True, inner=inner)
            change(f"r{number}", claim)
        elif what == "end":
            change(f"r{number}", None)
        elif what == "use":
            change(
                f"p{number}", Claim(("", f"p{number}"), f"p{number}", "n", {names.CPU: size}, reservation=f"r{other}")
            )
        else:
            change(f"p{number}", None)
        again = empty()
        for claim in there.values():
            again.apply(claim, 1)
        assert np.array_equal(free(capacity), free(again))
        users = [each for each in there.values() if not each.is_reservation]
        kept = 0
        for each in there.values():
            if each.is_reservation:
                used = sum(user.amounts[names.CPU] for user in users if user.reservation == each.uid)
                held = each.amounts[names.CPU]
                kept += max(held - used, min(held, each.inner[names.CPU]), 0)
        assert free(capacity) == 100 - sum(user.amounts[names.CPU] for user in users) - kept
