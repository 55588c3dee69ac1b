"""A view that forgets markers beside one that does not, on a ledger whose server drops them after a while."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from berth.contracts import subjects
from berth.contracts.codec import encode
from berth.contracts.ledger import AccountStamp, Decision, Epoch, Plan, PlanStatus
from berth.transaction.batch import Write
from berth.transaction.ledger_view import LedgerView

TTL_S = 60.0
NAMES = ("a", "b")


class Server:
    """One message per key; markers go when their time is over."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.sequence = 0
        self.epoch = 0
        self.stored: dict[str, tuple[int, bytes | None, float]] = {}
        self.log: list[tuple[str, bytes, bool, int]] = []
        self.raise_epoch()

    def last(self, key: str) -> int:
        return self.stored[key][0] if key in self.stored else 0

    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds
        for key, (_, value, at_s) in list(self.stored.items()):
            if value is None and self.now_s - at_s >= TTL_S:
                del self.stored[key]

    def commit(self, writes: Sequence[Write]) -> bool:
        if any(self.last(write.key) != write.expected for write in writes):
            return False
        for key, value, _ in writes:
            self.sequence += 1
            self.stored[key] = (self.sequence, value, self.now_s)
            self.log.append((key, value or b"", value is None, self.sequence))
        return True

    def put(self, key: str, value: bytes | None) -> None:
        """By somebody who knows everything."""
        assert self.commit([Write(key, value, self.last(key))])

    def raise_epoch(self) -> None:
        self.epoch += 1
        self.put(subjects.EPOCH_KEY, encode(Epoch(epoch=self.epoch)))

    def entries(self) -> dict[str, bytes]:
        """Every key of the epoch, and what may stand under it."""
        found: dict[str, bytes] = {}
        for name in NAMES:
            decision = Decision(
                plan=name, namespace="d", name=name, uid="u", attempt=0, node="n", pod_version=1, basis=1
            )
            found[subjects.decision_key(self.epoch, "d", name)] = encode(decision)
            found[subjects.account_key(self.epoch, subjects.node_account(name))] = encode(AccountStamp(plan=name))
            found[subjects.plan_key(self.epoch, name)] = encode(Plan(id=name, status=PlanStatus.COMMITTED))
        return found


def follow(view: LedgerView, server: Server, most: int | None = None) -> None:
    unreadable = [message for message in server.log if message[3] > view.sequence]
    for message in unreadable[:most]:
        view.apply(*message)


def learn(view: LedgerView, server: Server, keys: Sequence[str], before: Sequence[int]) -> None:
    """As a solver does whose batch was refused; `before`: what the batch expected."""
    for key, expected in zip(keys, before, strict=True):
        if key not in server.stored:
            view.learn_absent(key, expected)
        elif server.stored[key][1] is None:
            view.learn_marker(key, server.last(key))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 5)),
        st.tuples(st.just("delete"), st.integers(0, 5)),
        st.tuples(st.just("write"), st.integers(0, 5)),
        st.tuples(st.just("pass"), st.sampled_from([1, 20, 59, 70, 200])),
        st.tuples(st.just("follow"), st.integers(1, 4)),
        st.tuples(st.just("tick"), st.just(0)),
        st.tuples(st.just("epoch"), st.just(0)),
        st.tuples(st.just("reset"), st.just(0)),
    ),
    max_size=60,
)


def known(view: LedgerView) -> tuple[object, ...]:
    return (view.epoch, view.sequence, view.decisions, view.plans, view.stamps, view.members)


@given(STEPS)
def test_views_differ_in_expired_markers_alone(steps: list[tuple[str, int]]) -> None:
    server, plain, forgetful = Server(), LedgerView(), LedgerView()
    for action, number in steps:
        key, value = list(server.entries().items())[number % 6]
        if action == "put":
            server.put(key, value)
        elif action == "delete" and server.last(key):
            server.put(key, None)
        elif action == "pass":
            server.pass_time(number)
        elif action == "epoch":
            server.raise_epoch()
        elif action == "tick":
            forgetful.forget_markers(server.now_s, TTL_S)
        else:
            for view in (plain, forgetful):
                if action == "follow":
                    follow(view, server, number)
                elif action == "reset":
                    view.reset()
        assert known(forgetful) == known(plain)
        deleted = {sequence for _, _, is_deleted, sequence in server.log if is_deleted}
        for each in server.entries():
            expected = plain.expected(each)
            if forgetful.expected(each) != expected:
                assert (forgetful.expected(each), expected in deleted) == (0, True)
                assert expected not in {sequence for sequence, _, _ in server.stored.values()}, (
                    "the server has it still"
                )


@settings(max_examples=100)
@given(STEPS, st.sampled_from([0.0, TTL_S / 4, TTL_S, 3 * TTL_S]), st.sampled_from([0.0, 0.5, 1.0, 5.0]))
def test_a_writer_is_never_stuck_and_never_writes_over_what_it_has_not_read(
    steps: list[tuple[str, int]], kept_s: float, pace: float
) -> None:
    """However long it keeps markers, and however its clock goes: slow, fast, or not at all."""
    server, view = Server(), LedgerView()
    for action, number in [*steps, *(("write", number) for number in range(6))]:
        key, value = list(server.entries().items())[number % 6]
        if action == "put":
            server.put(key, value)
        elif action == "delete" and server.last(key):
            server.put(key, None)
        elif action == "pass":
            server.pass_time(number)
        elif action == "epoch":
            server.raise_epoch()
        elif action == "tick":
            view.forget_markers(server.now_s * pace, kept_s)
        elif action == "reset":
            view.reset()
        elif action == "follow":
            follow(view, server, number)
        else:
            _write(view, server, key, value)


def _write(view: LedgerView, server: Server, key: str, value: bytes) -> None:
    """Asks the leader twice before it has read on, and again behind the end: there one refusal tells enough."""
    before = server.stored.get(key)
    for ask in range(4):
        expected = view.expected(key)
        is_unread = before is not None and before[0] > view.sequence
        if server.commit([Write(key, value, expected)]):
            assert not is_unread, "somebody's word was overwritten unread"
            return
        learn(view, server, [key], [expected])
        if ask:
            follow(view, server)
    raise AssertionError(f"stuck: {key} expects {view.expected(key)}, the server {server.last(key)}")
