"""After a loss, an inventory that is older than the Device that STATE shows is not planned with."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts import subjects
from berth.contracts.codec import encode
from berth.contracts.errors import InvalidMessage
from berth.contracts.inventory import NodeInventory
from berth.contracts.state import Device
from berth.placement_solver.core.constraints.device_share import UNCOUNTED, WAIT
from berth.placement_solver.core.inventories import Inventories
from berth.testing.builders import gpu_slots, pod

FULL = ["Insufficient gpu devices"]
BROKEN = gpu_slots(1, unhealthy=(0,))


@pytest.fixture
def run(solving: type[Any]) -> Any:
    """One node whose single card is counted, from a Device that STATE shows as well."""
    made = solving()
    made.node("n")
    made.devices("n", gpu_slots(1))
    return made


def device(run: Any) -> None:
    """A new version of the node's Device."""
    run.version += 1
    shown(run, run.version)


def shown(run: Any, version: int) -> None:
    run.state(subjects.named_key("device", "n"), Device(name="n", uid="d", version=version))


def counted(run: Any, version: int, slots: list[Any]) -> None:
    """The inventory of a Device of this version."""
    message = NodeInventory(node="n", version=version, devices=slots)
    run.cluster.read_inventory(subjects.named_key("node", "n"), encode(message), False)


def told(run: Any) -> list[str]:
    """What is said to one more pod that asks for a card; nothing when it is placed."""
    run.pod(pod(f"p{run.version}").gpus(1))
    return [reason.message for refusal in run.round().refusals for reason in refusal.reasons]


def repair(run: Any) -> str:
    run.pod(pod(f"p{run.version}").gpus(1))
    return run.round().refusals[0].reasons[0].repair


def is_woken(run: Any) -> bool:
    woken, run.cluster.capacity_came_back = run.cluster.capacity_came_back, False
    return woken


def test_a_counted_device_is_given_out(run: Any) -> None:
    assert told(run) == []


def test_a_report_that_waits_to_be_counted_hides_nothing(run: Any) -> None:
    device(run)
    assert told(run) == []


def test_a_card_that_broke_is_not_whole_again_when_inventory_loses_its_tail(run: Any) -> None:
    older = run.version
    device(run)
    newer = run.version
    counted(run, newer, BROKEN)
    assert told(run) == FULL
    run.cluster.reset_inventory()
    counted(run, older, gpu_slots(1))
    assert told(run) == [UNCOUNTED]
    assert repair(run) == WAIT
    counted(run, newer, BROKEN)
    assert told(run) == FULL


def test_who_waits_for_devices_to_be_counted_is_woken(run: Any) -> None:
    device(run)
    run.cluster.reset_inventory()
    counted(run, run.version - 1, gpu_slots(1))
    assert told(run) == [UNCOUNTED]
    is_woken(run)
    counted(run, run.version, gpu_slots(1))
    assert is_woken(run)


def test_a_newer_report_of_the_same_devices_wakes_nobody(run: Any) -> None:
    is_woken(run)
    device(run)
    counted(run, run.version, gpu_slots(1))
    assert not is_woken(run)
    counted(run, run.version, BROKEN)
    assert is_woken(run)


def test_a_device_that_is_made_again_may_be_counted_before_it_is_shown(run: Any) -> None:
    run.delete(subjects.named_key("device", "n"))
    run.cluster.read_inventory(subjects.named_key("node", "n"), b"", True)
    assert told(run) == FULL
    counted(run, run.version + 2, gpu_slots(1))
    is_woken(run)
    shown(run, run.version + 2)
    assert is_woken(run)
    assert told(run) == []


def test_where_state_begins_anew_as_well_the_device_has_to_be_shown(run: Any) -> None:
    version = run.version
    run.cluster.reset_inventory()
    run.cluster.reset_state()
    run.node("n")
    counted(run, version, gpu_slots(1))
    assert told(run) == [UNCOUNTED]
    is_woken(run)
    shown(run, version)
    assert is_woken(run)
    assert told(run) == []


def test_what_was_known_before_the_loss_is_not_forgotten_for_a_late_view_of_the_device(run: Any) -> None:
    older = run.version
    counted(run, older + 1, BROKEN)
    run.cluster.reset_inventory()
    counted(run, older, gpu_slots(1))
    assert told(run) == [UNCOUNTED]
    shown(run, older + 1)
    assert told(run) == [UNCOUNTED]
    counted(run, older + 1, BROKEN)
    assert told(run) == FULL


def test_a_device_that_state_no_longer_shows_is_not_waited_for(run: Any) -> None:
    run.cluster.reset_inventory()
    assert told(run) == [UNCOUNTED]
    run.cluster.reset_state()
    run.node("n")
    run.cluster.end_of_state()
    assert told(run) == FULL


def test_a_node_that_waits_to_be_counted_and_lacks_cpu_has_another_repair(run: Any) -> None:
    run.cluster.reset_inventory()
    run.pod(pod("p").requests(cpu=100_000).gpus(1))
    assert {each.repair for refusal in run.round().refusals for each in refusal.reasons} & {
        "add a node with capacity for it"
    }


def test_members_of_a_gang_are_told_to_wait_as_well(run: Any) -> None:
    run.cluster.reset_inventory()
    run.pods(pod(f"m{index}").gpus(1).gang("g", 2) for index in range(2))
    repairs = {each.repair for refusal in run.round().refusals for each in refusal.reasons if each.repair}
    assert repairs == {WAIT}


def test_pods_without_devices_go_where_they_went_while_devices_are_counted(run: Any) -> None:
    run.node("plain")
    device(run)
    run.cluster.reset_inventory()
    run.pods(pod(f"cpu{index}").requests(cpu=1000) for index in range(4))
    assert set(run.nodes_of(run.round()).values()) == {"plain"}


def test_a_node_without_a_report_is_not_waited_for(run: Any) -> None:
    run.node("bare")
    run.pod(pod("p").gpus(2))
    assert [reason.message for each in run.round().refusals for reason in each.reasons] == FULL


def test_a_report_under_another_name_is_left_out(run: Any) -> None:
    with pytest.raises(InvalidMessage, match="name"):
        run.state(subjects.named_key("device", "n"), Device(name="another", uid="d", version=run.version + 9))
    assert told(run) == []


STEPS = st.lists(
    st.tuples(st.sampled_from(["see", "gone", "publish", "withdraw", "anew", "state anew"]), st.integers(1, 9))
)


@given(STEPS)
def test_an_inventory_counts_once_it_was_as_new_as_its_device(steps: list[tuple[str, int]]) -> None:
    tested = Inventories()
    shown: float | None = None
    published: int | None = None
    known, counts = 0, False
    for what, version in steps:
        match what:
            case "see":
                shown = version
                tested.see("n", version)
            case "gone":
                shown = float("inf")
                tested.see("n", None)
            case "publish":
                counts = counts and published is not None
                published = version
                tested.publish("n", NodeInventory(node="n", version=version))
            case "withdraw":
                published = None
                tested.publish("n", None)
            case "anew":
                known, published = max(known, published or 0), None
                tested.reset()
            case _:
                shown, known = None, 0
                tested.reset_state()
        is_new_enough = published is not None and shown is not None and published >= max(shown, known)
        counts = published is not None and (counts or is_new_enough)
        assert (tested.of("n") is not None) is counts
        has_some = published is not None or shown not in (None, float("inf"))
        assert tested.waits("n") is (has_some and not counts)
        assert tested.of("another") is None
        assert not tested.waits("another")
