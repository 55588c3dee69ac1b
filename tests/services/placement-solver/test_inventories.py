"""An inventory that is older than the Device that STATE shows is not planned with."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts import subjects
from berth.contracts.inventory import NodeInventory
from berth.contracts.state import Device
from berth.placement_solver.core.explain import UNCOUNTED
from berth.placement_solver.core.inventories import Inventories
from berth.testing.builders import gpu_slots, pod

WANTED = ["Insufficient gpu devices"]


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
    run.state(subjects.named_key("device", "n"), Device(name="n", uid="d", version=run.version))


def told(solution: Any) -> list[str]:
    return [reason.message for refusal in solution.refusals for reason in refusal.reasons]


def another(run: Any) -> Any:
    """A round for one more pod that asks for a card."""
    run.pod(pod(f"p{run.version}").gpus(1))
    return run.round()


def test_a_counted_device_is_given_out(run: Any) -> None:
    run.pod(pod("p").gpus(1))
    assert run.nodes_of(run.round()) == {"p": "n"}


def test_no_device_is_given_out_until_the_newest_report_is_counted(run: Any) -> None:
    device(run)
    run.pods([pod("p").gpus(1), pod("plain").requests(cpu=1)])
    solution = run.round()
    assert run.nodes_of(solution) == {"plain": "n"}
    assert told(solution) == [UNCOUNTED]
    run.picture.room_came_back = False
    run.devices("n", gpu_slots(1))
    assert run.picture.room_came_back
    assert another(run).placements


def test_a_card_that_broke_is_not_whole_again_when_inventory_loses_its_tail(run: Any) -> None:
    older = run.version
    device(run)
    run.devices("n", gpu_slots(1, unhealthy=(0,)))
    assert told(another(run)) == WANTED
    run.picture.reset_inventory()
    run.version, newest = older - 1, run.version
    run.devices("n", gpu_slots(1))
    run.version = newest
    assert told(another(run)) == [UNCOUNTED]
    run.devices("n", gpu_slots(1, unhealthy=(0,)))
    assert told(another(run)) == WANTED


@pytest.mark.parametrize("order", ["inventory first", "device first"])
def test_the_two_buckets_may_be_read_in_any_order(run: Any, order: str) -> None:
    run.picture.reset_inventory()
    run.pod(pod("p").gpus(1))
    if order == "device first":
        device(run)
    else:
        run.version += 1
        run.devices("n", gpu_slots(1))
        run.version -= 2
        device(run)
    assert bool(run.round().placements) is (order == "inventory first")


def test_the_devices_of_a_deleted_report_are_not_given_out(run: Any) -> None:
    run.delete(subjects.named_key("device", "n"))
    run.pod(pod("p").gpus(1))
    assert told(run.round()) == WANTED


def test_a_node_without_a_report_is_not_waited_for(run: Any) -> None:
    run.node("bare")
    run.pod(pod("p").gpus(2))
    assert told(run.round()) == WANTED


def test_what_state_showed_before_it_began_anew_is_forgotten(run: Any) -> None:
    device(run)
    run.picture.reset_state()
    assert not run.picture.nodes.uncounted.any()


STEPS = st.lists(
    st.tuples(st.sampled_from(["see", "gone", "publish", "withdraw", "anew", "state anew"]), st.integers(1, 9))
)


@given(STEPS)
def test_an_inventory_counts_from_the_version_of_its_device_on(steps: list[tuple[str, int]]) -> None:
    tested = Inventories()
    device: int | None = None
    published: int | None = None
    is_deleted = False
    for what, version in steps:
        match what:
            case "see":
                device, is_deleted = version, False
                tested.see("n", version)
            case "gone":
                device, is_deleted = None, True
                tested.see("n", None)
            case "publish":
                published = version
                tested.publish("n", NodeInventory(node="n", version=version))
            case "withdraw":
                published = None
                tested.publish("n", None)
            case "anew":
                published = None
                tested.reset()
            case _:
                device, is_deleted = None, False
                tested.reset_state()
        counts = published is not None and not is_deleted and (device is None or published >= device)
        assert (tested.of("n") is not None) is counts
        assert tested.is_behind("n") is (device is not None and not counts)
        assert tested.of("another") is None
        assert not tested.is_behind("another")
