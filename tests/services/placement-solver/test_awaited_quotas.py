"""A pod that names a quota which is not known yet: it waits while it may be there, and is charged to the right one."""

from __future__ import annotations

from typing import Any

import pytest

from berth.contracts import subjects
from berth.contracts.codec import encode
from berth.contracts.state import ElasticQuota, Synced
from berth.placement_solver.core.awaited_quotas import UNPROVEN_S
from berth.placement_solver.core.waits import WORKED_OUT_S
from berth.testing.builders import PodBuilder, pod

DEFAULT = "koordinator-default-quota"
KEY = subjects.namespaced_key("elasticquota", "shop", "team")


@pytest.fixture
def run(solving: type[Any]) -> Any:
    made = solving()
    made.node("n1", cpu=10_000)
    made.quota(DEFAULT)
    made.cluster.now = 1000.0
    return made


def asking(name: str = "p") -> PodBuilder:
    return pod(name).requests(cpu=1000).quota("team")


def elastic_quota(run: Any) -> None:
    """Shown by STATE, and not yet by QUOTA."""
    run.version += 1
    run.state(KEY, ElasticQuota(namespace="shop", name="team", uid="u", version=run.version))


def another_elastic_quota(run: Any, *, gap: bool = False) -> None:
    run.version += 1
    quota = ElasticQuota(namespace="shop", name="other", uid="v", version=run.version)
    key = subjects.namespaced_key("elasticquota", "shop", "other")
    run.cluster.read_state(key, encode(quota), deleted=False, gap=gap, trace=None)


def elastic_quotas_are_complete(run: Any, *, complete: bool = True) -> None:
    marker = Synced(kind="elasticquotas", version=run.version, complete=complete)
    run.state(subjects.synced_key("elasticquotas"), marker)
    run.cluster.end_of_state()


def charged(run: Any, after_s: float = 0.0) -> list[str]:
    """Who pays for what the next round places, so many seconds later; waiting pods are woken as in `Rounds.tick`."""
    run.cluster.now += after_s
    if run.cluster.quota_changed:
        run.cluster.quota_changed = False
        run.cluster.queue.wake(run.cluster.now)
    return [placement.claim.quota for placement in run.round().placements]


def message(run: Any) -> str:
    (waiting,) = run.cluster.queue.waiting.values()
    return str(waiting.message)


def test_a_quota_that_comes_right_after_its_pod_is_charged(run: Any) -> None:
    run.pod(asking())
    assert charged(run) == []
    assert message(run) == "quota team is not known yet"
    run.quota("team", max={"cpu": 4000})
    assert charged(run) == ["/team"]


def test_a_quota_that_never_comes_holds_nobody_up_for_long(run: Any) -> None:
    run.pod(asking())
    assert charged(run, UNPROVEN_S - 0.01) == []
    assert charged(run, 0.01) == [f"/{DEFAULT}"]


def test_a_known_quota_costs_no_time(run: Any) -> None:
    run.quota("team", max={"cpu": 4000})
    run.pod(asking())
    assert charged(run) == ["/team"]


def test_a_quota_that_is_proven_not_to_be_there_costs_no_time(run: Any) -> None:
    elastic_quotas_are_complete(run)
    run.pod(asking())
    run.version += 1
    elastic_quotas_are_complete(run)
    assert charged(run) == [f"/{DEFAULT}"]


def test_a_proof_ends_the_wait_at_once(run: Any) -> None:
    elastic_quotas_are_complete(run)
    run.pod(asking())
    assert charged(run, 1.0) == []
    elastic_quotas_are_complete(run)
    assert charged(run, 0.1) == [f"/{DEFAULT}"]


def test_a_change_of_the_pod_asks_for_no_newer_proof(run: Any) -> None:
    run.pod(asking())
    version = run.version
    run.pod(asking().annotation("a", "b"))
    marker = Synced(kind="elasticquotas", version=version, complete=True)
    run.state(subjects.synced_key("elasticquotas"), marker)
    run.cluster.end_of_state()
    assert charged(run) == [f"/{DEFAULT}"]


def test_another_label_asks_for_proof_and_time_of_its_own(run: Any) -> None:
    run.pod(pod("p").requests(cpu=90_000).quota("other"))
    elastic_quotas_are_complete(run)
    assert charged(run, 60.0) == []
    run.pod(asking())
    assert charged(run, UNPROVEN_S - 0.01) == []
    run.quota("team", max={"cpu": 4000})
    assert charged(run) == ["/team"]


def test_a_list_under_way_is_no_proof(run: Any) -> None:
    elastic_quotas_are_complete(run)
    run.pod(asking())
    elastic_quotas_are_complete(run, complete=False)
    another_elastic_quota(run)
    run.cluster.end_of_state()
    assert charged(run, 1.0) == []
    elastic_quotas_are_complete(run)
    assert charged(run) == [f"/{DEFAULT}"]


def test_a_message_behind_a_gap_is_no_proof_before_the_end(run: Any) -> None:
    elastic_quotas_are_complete(run)
    run.pod(asking())
    another_elastic_quota(run, gap=True)
    assert charged(run, 1.0) == []
    run.cluster.end_of_state()
    assert charged(run) == [f"/{DEFAULT}"]


def test_a_quota_that_state_shows_is_waited_for_longer(run: Any) -> None:
    run.pod(asking())
    assert charged(run, 4.0) == []
    elastic_quota(run)
    elastic_quotas_are_complete(run)
    assert charged(run, WORKED_OUT_S - 0.01) == []
    assert message(run) == "quota team is new, its limits are not known yet"
    run.quota("team", max={"cpu": 4000})
    assert charged(run) == ["/team"]


def test_a_quota_that_never_becomes_a_group_holds_nobody_up_for_ever(run: Any) -> None:
    elastic_quota(run)
    run.pod(asking())
    assert charged(run, WORKED_OUT_S - 0.01) == []
    assert charged(run, 0.01) == [f"/{DEFAULT}"]


def test_a_quota_that_was_deleted_is_not_waited_for(run: Any) -> None:
    elastic_quota(run)
    run.pod(asking())
    assert charged(run) == []
    run.delete(KEY)
    elastic_quotas_are_complete(run)
    assert charged(run) == [f"/{DEFAULT}"]


def test_a_state_that_starts_over_proves_nothing(run: Any) -> None:
    run.pod(asking())
    elastic_quotas_are_complete(run)
    run.cluster.reset_state()
    assert not run.cluster.awaited.elastic_quotas
    run.node("n1", cpu=10_000)
    run.pod(asking())
    run.cluster.end_of_state()
    assert charged(run, UNPROVEN_S - 0.01) == []
    assert charged(run, 0.01) == [f"/{DEFAULT}"]


@pytest.mark.parametrize("late", [0, 1, 2])
def test_a_gang_waits_for_the_quota_of_any_of_its_members(run: Any, late: int) -> None:
    run.quota("known", max={"cpu": 4000})
    run.pods(
        pod(f"g-{index}").requests(cpu=1000).gang("g", 3).quota("team" if index == late else "known")
        for index in range(3)
    )
    assert charged(run) == []
    for index, waiting in enumerate(run.cluster.queue.waiting.values()):
        about = "" if index == late else f"member default/g-{late}: "
        assert waiting.message == f"{about}quota team is not known yet"
    run.quota("team", max={"cpu": 4000})
    assert sorted(charged(run)) == ["/known", "/known", "/team"]


def test_a_gang_waits_as_long_as_the_last_of_its_members(run: Any) -> None:
    run.pods(pod(f"g-{index}").requests(cpu=1000).gang("g", 3).quota(f"team-{index}") for index in (0, 1))
    assert charged(run, 2.0) == []
    run.pod(pod("g-2").requests(cpu=1000).gang("g", 3).quota("team-2"))
    assert charged(run, UNPROVEN_S - 1.0) == []
    assert charged(run, 1.0) == [f"/{DEFAULT}"] * 3
