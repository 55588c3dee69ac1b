"""The phase of a PodGroup."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.rules.podgroup_phase import FAILED, FINISHED, STALE_AFTER_S, is_stale, next_phase
from berth.testing.vectors import cases


@pytest.mark.parametrize("case", cases("gang/podgroup_phase"))
def test_vector(case: dict[str, Any]) -> None:
    given, expect = case["given"], dict(case["expect"])
    step = next_phase(given["phase"], min_member=given["minMember"], member_phases=given["pods"], bound=given["bound"])
    assert step.phase == expect.pop("phase")
    assert (step.counts._asdict() if step.counts else {}) == expect


@pytest.mark.parametrize("phase", [FINISHED, FAILED])
def test_the_end_is_final(phase: str) -> None:
    step = next_phase(phase, min_member=1, member_phases=["Running"], bound=1)
    assert (step.phase, step.counts) == (phase, None)


def test_prescheduling_asks_for_the_owners() -> None:
    assert next_phase("Pending", min_member=1, member_phases=["Pending"], bound=0).fill_occupied_by
    assert not next_phase("Pending", min_member=2, member_phases=["Pending"], bound=0).fill_occupied_by


def test_stale() -> None:
    state = {"scheduled": 2, "running": 0, "min_member": 2, "created_s": 0.0}
    assert is_stale(**state, schedule_started_s=STALE_AFTER_S + 1)  # type: ignore[arg-type]
    assert not is_stale(**state, schedule_started_s=STALE_AFTER_S)  # type: ignore[arg-type]
    assert not is_stale(**{**state, "running": 1}, schedule_started_s=STALE_AFTER_S + 1)  # type: ignore[arg-type]


@given(
    st.integers(1, 4),
    st.lists(st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"]), min_size=1, max_size=6),
    st.data(),
)
def test_running_and_finished_need_the_minimum(minimum: int, phases: list[str], data: st.DataObject) -> None:
    bound = data.draw(st.integers(0, len(phases)))
    step = next_phase("Scheduling", min_member=minimum, member_phases=phases, bound=bound)
    assert step.counts is not None
    if step.phase in {"Running", "Scheduled"}:
        assert bound >= minimum
    if step.phase == FINISHED:
        assert step.counts.succeeded >= minimum
