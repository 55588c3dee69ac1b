"""After a loss, an inventory that is older than the Device that STATE shows is not planned with."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts import subjects
from berth.contracts.codec import encode
from berth.contracts.errors import Broken
from berth.contracts.inventory import NodeInventory
from berth.contracts.state import Device, Synced
from berth.placement_solver.core.explain import UNCOUNTED
from berth.placement_solver.core.inventories import Inventories
from berth.testing.builders import gpu_slots, pod

FULL = ["Insufficient gpu devices"]
BROKEN = gpu_slots(1, unhealthy=(0,))


@pytest.fixture
def run(solving: type[Any]) -> Any:
    """One node whose single card is counted, from a Device that STATE shows as well."""
    made = solving()
    made.node("n")
    device(made)
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
    run.picture.read_inventory(subjects.named_key("node", "n"), encode(message), False)


def listed(run: Any) -> None:
    """STATE shows all Devices."""
    run.state(subjects.synced_key("devices"), Synced(kind="devices", version=run.version, complete=True))
    run.picture.end_of_state()


def told(run: Any) -> list[str]:
    """What is said to one more pod that asks for a card; nothing when it is placed."""
    run.pod(pod(f"p{run.version}").gpus(1))
    return [reason.message for refusal in run.round().refusals for reason in refusal.reasons]


def repair(run: Any) -> str:
    run.pod(pod(f"p{run.version}").gpus(1))
    return run.round().refusals[0].reasons[0].repair


def is_woken(run: Any) -> bool:
    woken, run.picture.room_came_back = run.picture.room_came_back, False
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
    run.picture.reset_inventory()
    counted(run, older, gpu_slots(1))
    assert told(run) == [UNCOUNTED]
    assert "device-inventory" in repair(run)
    counted(run, newer, BROKEN)
    assert told(run) == FULL


def test_who_waits_for_devices_to_be_counted_is_woken(run: Any) -> None:
    device(run)
    run.picture.reset_inventory()
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
    run.picture.read_inventory(subjects.named_key("node", "n"), b"", True)
    assert told(run) == FULL
    counted(run, run.version + 2, gpu_slots(1))
    is_woken(run)
    shown(run, run.version + 2)
    assert is_woken(run)
    assert told(run) == []


def test_where_state_begins_anew_as_well_all_devices_have_to_be_listed(run: Any) -> None:
    run.picture.reset_inventory()
    run.picture.reset_state()
    run.node("n")
    counted(run, 1, gpu_slots(1))
    assert told(run) == [UNCOUNTED]
    is_woken(run)
    listed(run)
    assert is_woken(run)
    assert told(run) == []


def test_pods_without_devices_go_where_they_went_while_devices_are_counted(run: Any) -> None:
    run.node("plain")
    device(run)
    run.picture.reset_inventory()
    run.pods(pod(f"cpu{index}").requests(cpu=1000) for index in range(4))
    assert set(run.nodes_of(run.round()).values()) == {"plain"}


def test_a_node_without_a_report_is_not_waited_for(run: Any) -> None:
    run.node("bare")
    run.pod(pod("p").gpus(2))
    assert [reason.message for each in run.round().refusals for reason in each.reasons] == FULL


def test_a_report_under_another_name_is_left_out(run: Any) -> None:
    with pytest.raises(Broken, match="name"):
        run.state(subjects.named_key("device", "n"), Device(name="another", uid="d", version=run.version + 9))
    assert told(run) == []


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["see", "gone", "publish", "withdraw", "anew", "state anew", "listed"]), st.integers(1, 9)
    )
)


@given(STEPS)
def test_an_inventory_counts_once_it_was_as_new_as_its_device(steps: list[tuple[str, int]]) -> None:
    tested = Inventories()
    needed: float | None = None  # None: not shown
    published: int | None = None
    is_listed = counts = False
    for what, version in steps:
        match what:
            case "see":
                needed = version
                tested.see("n", version)
            case "gone":
                needed = float("inf")
                tested.see("n", None)
            case "publish":
                counts = counts and published is not None
                published = version
                tested.publish("n", NodeInventory(node="n", version=version))
            case "withdraw":
                published = None
                tested.publish("n", None)
            case "anew":
                published = None
                tested.reset()
            case "state anew":
                needed, is_listed = None, False
                tested.reset_state()
            case _:
                is_listed = True
                tested.devices.marked(version, True)
                tested.devices.end()
                tested.settle()
        counts = published is not None and (
            counts or published >= (needed if needed is not None else 0 if is_listed else float("inf"))
        )
        assert (tested.of("n") is not None) is counts
        waits = published is not None if not counts and published is not None else needed not in (None, float("inf"))
        assert tested.waits("n") is (not counts and waits)
        assert tested.of("another") is None
        assert not tested.waits("another")
