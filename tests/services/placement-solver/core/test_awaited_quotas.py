"""How long a pod waits for a group that QUOTA does not have, from what STATE shows of ElasticQuotas."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from berth.placement_solver.core.awaited_quotas import UNPROVEN_S, ElasticQuotas
from berth.placement_solver.core.waits import WORKED_OUT_S
from berth.rules.quota_of_pod import DEFAULT_GROUP


def complete_through(version: int) -> ElasticQuotas:
    quotas = ElasticQuotas()
    quotas.complete.marked(version, True)
    quotas.complete.end()
    return quotas


def until(quotas: ElasticQuotas, *, named_at: float = 100.0, named_version: int = 50) -> float | None:
    wait = quotas.wait_of("team", named_at, named_version)
    return None if wait is None else wait.until


def test_without_proof_the_clock_ends_it() -> None:
    assert until(ElasticQuotas()) == 100.0 + UNPROVEN_S
    assert until(complete_through(49)) == 100.0 + UNPROVEN_S


def test_a_proof_that_there_was_none_ends_it_at_once() -> None:
    assert until(complete_through(50)) is None


def test_a_list_under_way_proves_nothing_new() -> None:
    quotas = complete_through(49)
    quotas.complete.marked(49, False)
    quotas.complete.seen(60)
    quotas.complete.end()
    assert until(quotas) == 100.0 + UNPROVEN_S
    quotas.complete.marked(60, True)
    quotas.complete.end()
    assert until(quotas) is None


def test_one_that_is_shown_is_waited_for_whatever_is_complete() -> None:
    quotas = complete_through(50)
    quotas.see("shop", "team", 90.0)
    assert until(quotas) == 100.0 + WORKED_OUT_S
    assert until(quotas, named_at=80.0) == 90.0 + WORKED_OUT_S
    quotas.see("shop", "team", 120.0)  # again, only its status moved
    assert until(quotas) == 100.0 + WORKED_OUT_S


def test_one_of_another_name_says_nothing() -> None:
    quotas = ElasticQuotas()
    quotas.see("shop", "other", 90.0)
    assert until(quotas) == 100.0 + UNPROVEN_S


def test_each_case_gives_its_own_reason() -> None:
    quotas = ElasticQuotas()
    unproven = quotas.wait_of("team", 0.0, 1)
    quotas.see("shop", "team", 0.0)
    shown = quotas.wait_of("team", 0.0, 1)
    assert unproven is not None
    assert shown is not None
    assert unproven.reason.repair == "create ElasticQuota team"
    assert "quota-manager" in shown.reason.repair
    assert unproven.reason.code == shown.reason.code == "quota"


def test_a_new_start_knows_nothing() -> None:
    quotas = complete_through(50)
    quotas.see("shop", "team", 90.0)
    quotas.reset()
    assert not quotas
    assert until(quotas) == 100.0 + UNPROVEN_S


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abc"), st.sampled_from(["team", "other"])), max_size=20))
def test_a_name_is_shown_while_any_namespace_has_it(steps: list[tuple[bool, str, str]]) -> None:
    quotas = complete_through(50)
    there = set()
    for comes, namespace, name in steps:
        if comes:
            quotas.see(namespace, name, 0.0)
            there.add((namespace, name))
        else:
            quotas.forget(namespace, name)
            there.discard((namespace, name))
    assert (until(quotas) is not None) == any(name == "team" for _, name in there)
    assert bool(quotas) == bool(there)


def test_a_quota_that_has_to_come_again_is_waited_for_anew() -> None:
    quotas = complete_through(50)
    quotas.see("shop", "team", 90.0)
    quotas.anew_at = 200.0
    assert until(quotas) == 200.0 + WORKED_OUT_S


def test_quotas_are_known_once_all_of_them_are_groups() -> None:
    quotas, groups = ElasticQuotas(), {DEFAULT_GROUP}
    assert not quotas.are_in(groups.__contains__, 0.0), "nobody has said yet that there are none"
    quotas.see("shop", "team", 0.0)
    assert not quotas.are_in(groups.__contains__, 100.0), "nobody has said yet that these are all"
    quotas.complete.marked(50, True)
    quotas.complete.end()
    assert quotas.are_in(groups.__contains__, 0.0), "one that is unusable holds nobody up"
    assert not quotas.are_in({"team"}.__contains__, 100.0), "the default group comes last"
    quotas.anew_at = 100.0
    assert not quotas.are_in(groups.__contains__, 99.9 + WORKED_OUT_S)
    assert quotas.are_in(groups.__contains__, 100.0 + WORKED_OUT_S)
    assert quotas.are_in((groups | {"team"}).__contains__, 100.0)
    quotas.forget("shop", "team")
    assert quotas.are_in(set[str]().__contains__, 100.0), "without ElasticQuotas nobody has to publish groups"
