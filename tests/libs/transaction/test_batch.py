"""Batches: each message expects its key's last sequence (R1), decisions come first, the plan entry last (R2, R8)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.contracts import subjects
from berth.contracts.codec import decode, encode
from berth.contracts.ledger import AccountStamp, Decision, Epoch, Plan, PlanStatus
from berth.testing.feed import LedgerLog
from berth.transaction.batch import MESSAGES_MAX, abort_batch, plan_batch, stages
from berth.transaction.ledger_view import LedgerView


def decision(name: str, node: str = "n1", *more: str, plan: str = "plan-1", **fields: Any) -> Decision:
    return Decision(
        plan=plan,
        namespace="default",
        name=name,
        uid=f"uid-{name}",
        attempt=0,
        node=node,
        pod_version=1,
        basis=1,
        accounts=[subjects.node_account(node), *more],
        **fields,
    )


def committed(plan: str = "plan-1", **fields: Any) -> Plan:
    return Plan(id=plan, status=PlanStatus.COMMITTED, **fields)


class Server:
    """A ledger with one follower that reads everything."""

    def __init__(self) -> None:
        self.log = LedgerLog()
        self.view = LedgerView()
        self.log.append(subjects.EPOCH_KEY, encode(Epoch(epoch=1)))
        self.follow()

    def follow(self) -> None:
        for message in self.log.messages:
            if message[3] > self.view.sequence:
                self.view.apply(*message)


def test_order_and_expectations_of_a_first_plan() -> None:
    server = Server()
    quota = subjects.quota_account("", "team")
    writes = plan_batch(server.view, committed(), [decision("a", "n1", quota), decision("b", "n1", quota)], {quota: 9})
    assert [write.key for write in writes] == [
        subjects.decision_key(1, "default", "a"),
        subjects.decision_key(1, "default", "b"),
        subjects.account_key(1, subjects.node_account("n1")),
        subjects.account_key(1, quota),
        subjects.plan_key(1, "plan-1"),
    ]
    assert {write.expected for write in writes} == {0}
    stamp = decode(writes[3].value or b"", AccountStamp)
    assert (stamp.plan, stamp.revision) == ("plan-1", 9)
    assert decode(writes[-1].value or b"", Plan).status is PlanStatus.COMMITTED
    assert server.log.commit(writes)


def test_a_stamp_never_names_an_older_revision() -> None:
    server = Server()
    quota = subjects.quota_account("", "team")
    assert server.log.commit(plan_batch(server.view, committed(), [decision("a", "n1", quota)], {quota: 9}))
    server.follow()
    writes = plan_batch(server.view, committed("plan-2"), [decision("b", "n1", quota)], {quota: 4})
    assert decode(writes[2].value or b"", AccountStamp).revision == 9


def test_two_solvers_on_one_node_collide_and_one_wins() -> None:
    server = Server()
    late = plan_batch(server.view, committed("late"), [decision("b", plan="late")], {})
    assert server.log.commit(plan_batch(server.view, committed(), [decision("a")], {}))
    assert not server.log.commit(late)
    server.follow()
    assert server.log.commit(plan_batch(server.view, committed("again"), [decision("b", plan="again")], {}))


def test_two_solvers_on_one_pod_collide_without_a_common_account() -> None:
    server = Server()
    other = plan_batch(server.view, committed("other"), [decision("a", "n2", plan="other")], {})
    assert server.log.commit(plan_batch(server.view, committed(), [decision("a", "n1")], {}))
    assert not server.log.commit(other)


def test_tidying_deletes_expecting_the_decision_and_leaves_a_marker_to_expect() -> None:
    server = Server()
    assert server.log.commit(plan_batch(server.view, committed(), [decision("a")], {}))
    server.follow()
    held = server.view.decisions["default", "a"].sequence
    writes = plan_batch(server.view, committed("plan-2"), [decision("b", "n2")], {}, tidy=[("default", "a")])
    deleted = next(write for write in writes if write.value is None)
    assert deleted.expected == held
    assert server.log.commit(writes)
    server.follow()
    again = plan_batch(server.view, committed("plan-3"), [decision("a")], {})
    assert again[0].expected > held
    assert server.log.commit(again)


def test_giving_up_a_plan_races_with_its_commit_and_one_of_them_wins() -> None:
    server = Server()
    stage = plan_batch(server.view, Plan(id="plan-1", status=PlanStatus.OPEN), [decision("a")], {})
    assert server.log.commit(stage)
    server.follow()
    abort = abort_batch(server.view, "plan-1", "s2")
    commit = plan_batch(server.view, committed(), [decision("b", "n2")], {})
    assert server.log.commit(abort)
    assert not server.log.commit(commit)
    server.follow()
    assert server.view.plan_status("plan-1") is PlanStatus.ABORTED


@pytest.mark.parametrize("last_word", [PlanStatus.COMMITTED, PlanStatus.ABORTED])
def test_a_plan_that_has_ended_is_not_given_up(last_word: PlanStatus) -> None:
    """It may have ended since it was found abandoned: its new sequence is no leave to write over it."""
    server = Server()
    assert server.log.commit(plan_batch(server.view, Plan(id="plan-1", status=PlanStatus.OPEN), [decision("a")], {}))
    server.follow()
    assert server.log.commit(plan_batch(server.view, Plan(id="plan-1", status=last_word), [decision("b", "n2")], {}))
    server.follow()
    assert abort_batch(server.view, "plan-1", "s2") == []


def test_its_own_solver_gives_a_plan_up_ahead_of_its_view() -> None:
    server = Server()
    assert server.log.commit(plan_batch(server.view, Plan(id="plan-1", status=PlanStatus.OPEN), [decision("a")], {}))
    entry = server.log.messages[-1][3]
    assert not server.log.commit(abort_batch(server.view, "plan-1", "s1"))
    assert server.log.commit(abort_batch(server.view, "plan-1", "s1", expected=entry))


def test_decisions_without_an_entry_are_given_up_expecting_none() -> None:
    server = Server()
    (write,) = abort_batch(server.view, "cut-off", "s2")
    assert (write.key, write.expected) == (subjects.plan_key(1, "cut-off"), 0)


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=60),
    st.integers(6, 30),
)
def test_stages_fit_and_lose_nothing(wishes: list[tuple[int, int]], messages_max: int) -> None:
    decisions = [
        decision(f"p{index}", f"n{node}", *(f"quota.=.g{each}" for each in range(quotas)))
        for index, (node, quotas) in enumerate(wishes)
    ]
    cut = stages(decisions, messages_max)
    assert [each for run in cut for each in run] == decisions
    for run in cut:
        assert run
        accounts = {account for each in run for account in each.accounts}
        assert len(run) + len(accounts) + 1 <= messages_max


def test_a_thousand_messages_are_one_batch_and_one_more_is_two() -> None:
    fitting = [decision(f"p{index}") for index in range(MESSAGES_MAX - 2)]
    assert len(stages(fitting)) == 1
    assert len(stages([*fitting, decision("one-more")])) == 2
    server = Server()
    assert len(plan_batch(server.view, committed(), fitting, {})) == MESSAGES_MAX


def test_large_decisions_are_cut_by_bytes() -> None:
    big = [decision(f"p{index}", annotations={"note": "x" * (1 << 19)}) for index in range(80)]
    cut = stages(big)
    assert len(cut) > 2
    assert [each for run in cut for each in run] == big
