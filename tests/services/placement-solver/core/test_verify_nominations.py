"""The verifier's word on nominations: whom it lets leave, whatever a solver has chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from berth.contracts import names, subjects
from berth.contracts.state import Pod
from berth.testing.builders import PodBuilder, pod
from berth.transaction.claims import Claim


@pytest.fixture
def run(solving: type[Any]) -> Any:
    made = solving()
    made.node("n0", cpu=4000)
    return made


def sized(name: str, cpu: int, priority: int) -> PodBuilder:
    return pod(name).requests(cpu=cpu * 1000).template(priority=priority)


def problems(run: Any, waits: Pod, victims: Sequence[Pod]) -> list[str]:
    claim = Claim(("default", waits.name), waits.uid, "n0", waits.template.requests, plan="p")
    found: list[str] = run.verifier.check_nomination([claim], victims, [])
    return found


def test_a_lower_pod_may_be_made_to_leave(run: Any) -> None:
    low = run.pod(sized("low", 4, 0).on("n0"))
    assert problems(run, run.pod(sized("waits", 4, 9)), [low]) == []


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (sized("low", 4, 0).set(mirror=True), "mirror pod"),
        (
            sized("low", 4, 0).label(names.LABEL_QUOTA_PREEMPTIBLE, "false"),
            "label quota.scheduling.koordinator.sh/preemptible=false",
        ),
        (
            sized("low", 4, 0).label(names.LABEL_DISABLE_PREEMPTIBLE, "true"),
            "label scheduling.koordinator.sh/disable-preemptible=true",
        ),
    ],
)
def test_a_protected_pod_may_not(run: Any, made: PodBuilder, why: str) -> None:
    low = run.pod(made.on("n0"))
    waits = run.pod(sized("waits", 4, 9))
    assert problems(run, waits, [low]) == [f"victim default/low is protected: {why}"]


@pytest.mark.parametrize("scheduler", [names.SCHEDULER_NAME, "other"])
@pytest.mark.parametrize("mode", ["Strict", "NonStrict"])
@pytest.mark.parametrize("by_group", [True, False])
def test_a_strict_gang_leaves_whole_or_keeps_what_it_needs(run: Any, scheduler: str, mode: str, by_group: bool) -> None:
    if by_group:
        run.pod_group("g", 2, annotations={names.ANNOTATION_GANG_MODE: mode})
    members = []
    for at in range(3):
        made = sized(f"low-{at}", 1, 0)
        made = made.gang("g") if by_group else made.gang("g", 2, mode=mode)
        members.append(run.pod(made.template(scheduler=scheduler).on("n0")))
    waits = run.pod(sized("waits", 2, 9))
    is_held, is_ours = mode == "Strict", scheduler == names.SCHEDULER_NAME
    half = ["victim default/low-0 leaves 1 of its gang default/g, which needs 2"]
    if not is_ours:
        half = ["victim default/low-0 belongs to a strict gang that is not Berth's"]
    assert problems(run, waits, members[:2]) == (half if is_held else [])
    assert problems(run, waits, members[:1]) == (half if is_held and not is_ours else [])
    assert problems(run, waits, members) == (half if is_held and not is_ours else [])


def test_a_strict_gang_whose_pod_group_is_gone_leaves_whole(run: Any) -> None:
    run.pod_group("g", 2)
    members = [run.pod(sized(f"low-{at}", 1, 0).gang("g").on("n0")) for at in range(3)]
    run.delete(subjects.namespaced_key("podgroup", "default", "g"))
    waits = run.pod(sized("waits", 2, 9))
    assert problems(run, waits, members[:1]) == ["victim default/low-0 leaves 2 of its gang default/g, which needs all"]
    assert problems(run, waits, members) == []


def test_a_victim_of_a_gang_that_may_as_well_stay_is_named(run: Any) -> None:
    run.node("n1", cpu=4000)
    low = [run.pod(sized(f"low-{at}", 2, 0).on("n0")) for at in range(2)]
    other = run.pod(sized("other", 4, 0).on("n1"))
    waits = [run.pod(sized(f"waits-{at}", 2, 9).gang("g", 2)) for at in range(2)]
    claims = [Claim(("default", each.name), each.uid, "n0", each.template.requests, plan="p") for each in waits]
    assert run.verifier.check_nomination(claims, low, []) == []
    assert run.verifier.spare_victim(claims, low, []) is None
    apart = [claims[0], claims[1]._replace(node="n1")]
    assert run.verifier.spare_victim(apart, [*low, other], []) in low
