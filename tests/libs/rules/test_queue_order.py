"""The order of waiting pods and groups."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.rules.member_order import member_key
from berth.rules.queue_order import QueueEntry, order_key
from berth.testing.vectors import cases


def entry(given: dict[str, Any]) -> QueueEntry:
    return QueueEntry(
        name=given["name"],
        priority=given.get("priority", 0),
        sub_priority=given.get("subPriority", 0),
        time=given["time"],
        group_id=given.get("groupId", ""),
        gang_id=given.get("gangId", ""),
        rounds=given.get("cycle", 0),
    )


@pytest.mark.parametrize("case", cases("gang/queue_order"))
def test_vector(case: dict[str, Any]) -> None:
    entries = [entry(each) for each in case["given"]["entries"]]
    assert [each.name for each in sorted(entries, key=order_key)] == case["expect"]["order"]


@pytest.mark.parametrize("case", cases("gang/pod_order"))
def test_members_vector(case: dict[str, Any]) -> None:
    pods = sorted(case["given"]["pods"], key=lambda pod: member_key(pod["name"], pod.get("index")))
    assert [pod["name"] for pod in pods] == case["expect"]["order"]


small = st.integers(0, 2)
entries = st.builds(
    QueueEntry,
    name=st.sampled_from("abcdef"),
    priority=small,
    sub_priority=small,
    time=small,
    group_id=st.sampled_from(["", "g", "h"]),
    gang_id=st.sampled_from(["", "g", "h"]),
    rounds=small,
    namespace=st.sampled_from(["", "n"]),
)


@given(st.lists(entries, unique_by=lambda each: (each.namespace, each.name)), st.randoms(use_true_random=False))
def test_the_order_does_not_depend_on_arrival(queue: list[QueueEntry], random: Any) -> None:
    shuffled = list(queue)
    random.shuffle(shuffled)
    assert sorted(queue, key=order_key) == sorted(shuffled, key=order_key)


@given(st.lists(entries))
def test_nobody_waits_for_a_lower_priority(queue: list[QueueEntry]) -> None:
    priorities = [each.priority for each in sorted(queue, key=order_key)]
    assert priorities == sorted(priorities, reverse=True)
