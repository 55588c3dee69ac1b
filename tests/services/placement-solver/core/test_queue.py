"""The queue: order, back-off, waking, groups; nothing that is ready is ever lost."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from berth.contracts import names
from berth.contracts.base import Reason
from berth.placement_solver.core.queue import BACKOFF_MAX_S, RETRY_S, Queue, Waiting
from berth.placement_solver.core.withdrawals import FORGET_S
from berth.rules.queueing import FLUSH_S
from berth.testing.builders import pod

WHY = (Reason(code="NodeResourcesFit", message="Insufficient cpu"),)


def put(queue: Queue, name: str, *, now: float = 0.0, priority: int = 0, sub: str = "", group: str = "") -> Waiting:
    builder = pod(name).template(priority=priority)
    if sub:
        builder.label(names.LABEL_PRIORITY, sub)
    return queue.put(("default", name), builder.build(1), group, now, 0, "")


def drain(queue: Queue, now: float = 0.0) -> list[str]:
    taken = []
    while (waiting := queue.take(now)) is not None:
        taken.append(waiting.name[1])
    return taken


@given(st.lists(st.tuples(st.integers(-2, 2), st.integers(-2, 2), st.integers(0, 3)), max_size=20))
def test_order_is_priority_then_sub_priority_then_age_then_name(entries: list[tuple[int, int, int]]) -> None:
    queue = Queue()
    keys = {}
    for index, (priority, sub, now) in enumerate(entries):
        name = f"p{index:02}"
        put(queue, name, now=now, priority=priority, sub=str(sub))
        keys[name] = (-priority, -sub, now, name)
    assert drain(queue, 9.0) == sorted(keys, key=lambda name: keys[name])


def test_what_is_refused_rests_until_it_is_woken_after_its_back_off() -> None:
    queue = Queue()
    waiting = put(queue, "a")
    assert queue.take(0.0) is waiting
    queue.refuse(waiting, WHY, 0.0)
    assert not queue.has_ready(0.0)
    queue.wake(0.5)
    assert not queue.has_ready(0.9)
    assert queue.next_retry() == 1.0
    assert queue.has_ready(1.0)
    assert queue.take(1.0) is waiting


def test_the_back_off_doubles_up_to_a_limit() -> None:
    queue = Queue()
    waiting = put(queue, "a")
    now = 0.0
    pauses = []
    for _ in range(6):
        assert queue.take(now) is waiting
        queue.refuse(waiting, WHY, now)
        queue.wake(now)
        pauses.append(queue.next_retry() - now)
        now = queue.next_retry()
    assert pauses == [1.0, 2.0, 4.0, 8.0, BACKOFF_MAX_S, BACKOFF_MAX_S]


def withdrawn(queue: Queue, attempt: int, now: float, uid: str = "") -> Waiting:
    """A pod was decided, and its decision withdrawn."""
    queue.drop(("default", "a"))
    builder = pod("a").set(attempt=attempt, **({"uid": uid} if uid else {}))
    return queue.put(("default", "a"), builder.build(attempt), "", now, 0, "")


def test_decisions_that_are_withdrawn_one_after_the_other_come_ever_slower() -> None:
    """A card was swapped, and the inventory stays behind: the same decision each time."""
    queue = Queue()
    put(queue, "a")
    now, times = 0.0, []
    for attempt in range(1, 9):
        assert queue.take(now) is not None
        now += 0.1
        withdrawn(queue, attempt, now)
        queue.wake(now)
        queue.wake_classes(now, lambda waiting: True)
        at = now if queue.has_ready(now) else queue.next_retry()
        times.append(round(at - now, 3))
        now = at
    assert times == [0.0, 0.0, 1.0, 2.0, 4.0, 8.0, BACKOFF_MAX_S, BACKOFF_MAX_S]
    assert queue.waiting["default", "a"].reasons[0].code == "withdrawn"


def test_a_withdrawal_now_and_then_costs_no_time() -> None:
    queue = Queue()
    for attempt in range(1, 9):
        now = attempt * (FORGET_S + 1)
        assert withdrawn(queue, attempt, now).ready


def test_a_successor_and_a_view_that_starts_over_have_what_is_theirs() -> None:
    queue = Queue()
    for attempt in range(1, 5):
        waiting = withdrawn(queue, attempt, 0.0)
    assert not waiting.ready
    assert not withdrawn(queue, 4, 1.0).ready, "read anew, it goes on resting"
    assert queue.next_retry() == 2.0
    assert withdrawn(queue, 5, 1.0, uid="another").ready


def test_without_any_sign_it_is_tried_again_all_the_same() -> None:
    queue = Queue()
    waiting = put(queue, "a")
    queue.take(0.0)
    queue.refuse(waiting, WHY, 0.0)
    assert not queue.has_ready(FLUSH_S - 1)
    assert queue.has_ready(FLUSH_S)


def test_for_a_reason_that_no_event_is_known_to_end_it_is_tried_again_sooner() -> None:
    queue = Queue()
    waiting = put(queue, "a")
    queue.take(0.0)
    queue.refuse(waiting, (*WHY, Reason(code="quota", message="more than team may use")), 0.0)
    assert not queue.has_ready(RETRY_S - 1)
    assert queue.has_ready(RETRY_S)


def refused(queue: Queue, name: str, cpu: int, *why: Reason) -> Waiting:
    waiting = queue.put(("default", name), pod(name).requests(cpu=cpu).build(1), "", 0.0, 0, "")
    assert queue.take(0.0) is waiting
    queue.refuse(waiting, why or WHY, 0.0)
    return waiting


def test_one_of_each_class_is_looked_at() -> None:
    queue = Queue()
    for number in range(6):
        refused(queue, f"p{number}", cpu=1000 * (1 + number % 2))
    looked = []
    queue.wake_classes(0.0, lambda waiting: bool(looked.append(waiting.name[1])))
    assert looked == ["p0", "p1"]
    queue.wake_classes(0.0, lambda waiting: waiting.name == ("default", "p1"))
    assert drain(queue, 1.0) == ["p1", "p3"], "the first of those who are alike"


def test_another_reason_is_another_class() -> None:
    queue = Queue()
    refused(queue, "a", 1000)
    refused(queue, "b", 1000, Reason(code="TaintToleration", message="node(s) had untolerated taint(s)"))
    looked: list[Waiting] = []
    queue.wake_classes(0.0, lambda waiting: bool(looked.append(waiting)))
    assert len(looked) == 2


def test_who_was_woken_dropped_or_taken_is_looked_at_no_more() -> None:
    queue = Queue()
    for name in "abcd":
        refused(queue, name, cpu=1000)
    queue.drop(("default", "a"))
    queue.pull([("default", "b")], 0.0)
    queue.make_ready(queue.waiting["default", "c"])
    looked: list[str] = []
    queue.wake_classes(0.0, lambda waiting: not looked.append(waiting.name[1]))
    queue.wake_classes(0.0, lambda waiting: not looked.append(waiting.name[1]))
    assert looked == ["d"]


def test_a_pod_that_is_made_again_under_its_name_leaves_no_class_behind() -> None:
    queue = Queue()
    refused(queue, "a", cpu=1000)
    again = queue.put(("default", "a"), pod("a").set(uid="another").build(2), "", 0.0, 0, "")
    looked: list[Waiting] = []
    queue.wake_classes(0.0, lambda waiting: not looked.append(waiting))
    assert looked == []
    assert again.ready


def test_only_those_concerned_are_woken() -> None:
    queue = Queue()
    for name in ("a", "b"):
        waiting = put(queue, name)
        queue.take(0.0)
        queue.refuse(waiting, WHY, 0.0)
    queue.wake(5.0, lambda waiting: waiting.name[1] == "b")
    assert drain(queue, 5.0) == ["b"]


def test_holding_back_costs_no_back_off() -> None:
    queue = Queue()
    waiting = put(queue, "a")
    queue.take(0.0)
    queue.hold(waiting, WHY, 0.0)
    queue.wake(0.1)
    assert queue.has_ready(0.1)


def test_a_changed_pod_is_tried_at_once_and_an_unchanged_one_goes_on_resting() -> None:
    queue = Queue()
    waiting = put(queue, "a")
    queue.take(0.0)
    queue.refuse(waiting, WHY, 0.0)
    put(queue, "a")
    assert not queue.has_ready(0.0)
    put(queue, "a", priority=7)
    assert queue.take(0.0) is waiting
    assert waiting.tries == 0


def test_a_pod_that_changes_while_it_is_ready_is_not_lost() -> None:
    queue = Queue()
    put(queue, "a")
    put(queue, "b", priority=1)
    put(queue, "a", priority=2)
    assert drain(queue) == ["a", "b"]


def test_a_woken_pod_that_changes_before_its_turn_is_not_lost() -> None:
    queue = Queue()
    waiting = put(queue, "a")
    queue.take(0.0)
    queue.refuse(waiting, WHY, 0.0)
    queue.wake(5.0)
    assert queue.has_ready(5.0)
    put(queue, "a", priority=2)
    assert drain(queue, 5.0) == ["a"]


def test_a_successor_of_the_same_name_starts_anew() -> None:
    queue = Queue()
    waiting = put(queue, "a")
    queue.take(0.0)
    queue.refuse(waiting, WHY, 0.0)
    successor = queue.put(("default", "a"), pod("a").set(uid="other").build(2), "", 3.0, 0, "")
    assert successor is not waiting
    assert (successor.tries, successor.since) == (0, 3.0)
    assert queue.take(3.0) is successor


def test_what_is_dropped_does_not_come_out() -> None:
    queue = Queue()
    put(queue, "a")
    queue.drop(("default", "a"))
    assert queue.take(0.0) is None
    assert len(queue) == 0


def test_a_group_comes_out_whole() -> None:
    queue = Queue()
    for name in ("a", "b", "c"):
        put(queue, name, group="default/g" if name != "b" else "")
    pulled = queue.pull([("default", "a"), ("default", "c"), ("default", "gone")], 0.0)
    assert [waiting.name[1] for waiting in pulled] == ["a", "c"]
    assert drain(queue) == ["b"]


def test_a_rest_that_a_change_cut_short_brings_nothing_out_twice() -> None:
    queue = Queue()
    waiting = put(queue, "a")
    queue.take(0.0)
    queue.refuse(waiting, WHY, 0.0)
    put(queue, "a", priority=2)
    assert queue.take(1.0) is waiting
    assert queue.take(2 * FLUSH_S) is None


STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "change", "take", "refuse", "hold", "wake", "drop", "ready"]), st.integers(0, 3)),
    max_size=40,
)


@settings(max_examples=300)
@given(STEPS)
def test_everything_that_waits_comes_out_in_the_end(steps: list[tuple[str, int]]) -> None:
    queue = Queue()
    out: dict[Any, Waiting] = {}
    now = 0.0
    for step, index in steps:
        now += 0.25
        name = ("default", f"p{index}")
        known = queue.waiting.get(name)
        if step in ("put", "change"):
            put(queue, name[1], now=now, priority=int(now * 4) % 3 if step == "change" else 0)
        elif step == "drop":
            queue.drop(name)
            out.pop(name, None)
        elif step == "take":
            taken = queue.take(now)
            if taken is not None:
                out[taken.name] = taken
        elif step == "wake":
            queue.wake(now)
        elif known is not None and step == "ready":
            queue.make_ready(known)
        elif known is not None and name in out and step in ("refuse", "hold"):
            (queue.refuse if step == "refuse" else queue.hold)(known, WHY, now)
            del out[name]
        out = {key: waiting for key, waiting in out.items() if not waiting.ready}
    resting = set(queue.waiting) - set(out)
    assert {("default", name) for name in drain(queue, now + 2 * FLUSH_S)} == resting


def test_groups_take_turns_by_their_last_round() -> None:
    queue = Queue()
    for at, name in enumerate("ab"):
        for member in range(3):
            put(queue, f"{name}{member}", now=float(at), group=name)
    put(queue, "single", now=5.0)
    first = queue.take(9.0)
    assert first is not None
    assert first.group == "a"
    for waiting in queue.pull([("default", f"a{member}") for member in range(3)], 9.0):
        queue.refuse(waiting, WHY, 9.0)
        queue.make_ready(waiting)
    # It had its turn at 9: the others have waited for longer.
    assert drain(queue, 9.0) == ["b0", "b1", "b2", "single", "a0", "a1", "a2"]


def test_one_member_stands_for_all_of_its_group() -> None:
    queue = Queue()
    for member in range(50):
        put(queue, f"m{member:02}", group="g")
    assert queue.ready_about() == 1
    queue.drop(("default", "m00"))
    taken = queue.take(0.0)
    assert taken is not None
    assert taken.name[1] == "m01"
    queue.hold(taken, WHY, 0.0)
    assert queue.has_ready(0.0)
    queue.pull([("default", f"m{member:02}") for member in range(50)], 0.0)
    assert not queue.has_ready(0.0)
    queue.make_ready(taken)
    assert queue.take(0.0) is taken


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["put", "drop", "take", "refuse", "hold", "ready", "pull", "wake", "regroup"]),
            st.integers(0, 7),
            st.sampled_from(["", "g", "h"]),
        ),
        max_size=60,
    )
)
def test_whoever_is_ready_is_taken_whatever_happens_to_its_group(steps: list[tuple[str, int, str]]) -> None:
    queue = Queue()
    for now, (what, number, group) in enumerate(steps):
        name = ("default", f"m{number}")
        waiting = queue.waiting.get(name)
        if what in ("put", "regroup"):
            put(queue, name[1], now=float(now), group=group)
        elif what == "drop":
            queue.drop(name)
        elif what == "take":
            queue.take(float(now))
        elif what == "wake":
            queue.wake(float(now))
        elif what == "pull":
            queue.pull([each for each, other in queue.waiting.items() if other.group == group and group], float(now))
        elif waiting is not None and what == "ready":
            queue.make_ready(waiting)
        elif waiting is not None and not waiting.ready:
            (queue.refuse if what == "refuse" else queue.hold)(waiting, WHY, float(now))
    ready = {name for name, waiting in queue.waiting.items() if waiting.ready}
    taken = set()
    while (found := queue.take(0.0)) is not None:
        taken.add(found.name)
    assert ready <= taken


def test_who_was_not_tried_is_tried_for_nobody() -> None:
    queue = Queue()
    for number in range(4):
        refused(queue, f"p{number}", 1000)
    for number in range(4, 7):
        waiting = queue.put(("default", f"p{number}"), pod(f"p{number}").requests(cpu=1000).build(1), "", 0.0, 0, "")
        queue.take(0.0)
        queue.hold(waiting, WHY, 0.0)
    queue.wake(BACKOFF_MAX_S)
    assert drain(queue, BACKOFF_MAX_S) == ["p0", "p1", "p4", "p5", "p6"]


@given(st.integers(1, 40), st.lists(st.integers(0, 12), max_size=4), st.booleans())
def test_of_those_who_are_alike_as_many_are_tried_as_fit(count: int, freed: list[int], by_class: bool) -> None:
    queue = Queue()
    for number in range(count):
        refused(queue, f"p{number}", 1000)
    waiting, now = count, 0.0
    for free in freed:
        now += BACKOFF_MAX_S
        if by_class:
            queue.wake_classes(now, lambda _: True)
        else:
            queue.wake(now)
        tries, fit = 0, min(free, waiting)
        left = fit
        while queue.has_ready(now) or queue.next_retry() <= now + BACKOFF_MAX_S:
            now = max(now, queue.next_retry()) if not queue.has_ready(now) else now
            if (each := queue.take(now)) is None:
                break
            tries += 1
            if left:
                left -= 1
                queue.drop(each.name)
            else:
                queue.refuse(each, WHY, now)
        waiting -= fit
        assert left == 0
        assert len(queue) == waiting
        assert tries <= 2 * fit + 2


def test_who_is_tried_for_all_and_goes_or_becomes_another_has_the_next_tried() -> None:
    queue = Queue()
    for number in range(5):
        refused(queue, f"p{number}", 1000)
    queue.wake(9.0)
    assert drain(queue, 9.0) == ["p0", "p1"]
    queue.drop(("default", "p0"))
    assert drain(queue, 9.0) == ["p2", "p3"]
    queue.put(("default", "p2"), pod("p2").requests(cpu=5).build(2), "", 9.0, 0, "")
    assert drain(queue, 9.0) == ["p2", "p4"]


def test_who_is_meant_by_name_is_tried_beside_those_who_stand_for_all() -> None:
    queue = Queue()
    for number in range(6):
        refused(queue, f"p{number}", 1000)
    queue.wake(9.0, by_itself=lambda waiting: waiting.object.name == "p4")
    assert sorted(drain(queue, 9.0)) == ["p0", "p1", "p4"]
