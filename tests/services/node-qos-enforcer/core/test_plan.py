"""What would be written to the best-effort group: by quota, by cpuset, nothing, or letting go."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.node_qos_enforcer.core.cgroup_files import Bandwidth
from berth.node_qos_enforcer.core.node_facts import UNKNOWN
from berth.node_qos_enforcer.core.plan import ALL, NOT_HELD, Held, Plan, plan, release
from berth.node_qos_enforcer.core.strategy import Strategy
from berth.node_qos_enforcer.core.topology import Processor

CPUS = 16
EVERY = frozenset(range(CPUS))
ROWS = [Processor(cpu, cpu // 2, 0, 0) for cpu in range(CPUS)]
FREE = Held(Bandwidth(-1, 100_000), EVERY, EVERY)
QUOTA = Strategy(enabled=True, policy="cfsQuota")
CPUSET = Strategy(enabled=True, policy="cpuset")


def held(quota_us=-1, cpus=EVERY, period_us=100_000) -> Held:
    return Held(Bandwidth(quota_us, period_us), frozenset(cpus), EVERY)


def made(strategy, target_milli, group=FREE, *, skipped="", facts=UNKNOWN, rows=ROWS) -> Plan:
    return plan(
        strategy,
        target_milli=target_milli,
        skipped=skipped,
        held=group,
        capacity_milli=CPUS * 1000,
        facts=facts,
        processors=rows,
    )


@pytest.mark.parametrize("strategy", [QUOTA, CPUSET])
def test_a_round_without_a_target_leaves_everything(strategy):
    got = made(strategy, None, held(200_000, {0, 1}), skipped="no pods")
    assert got == Plan(reason="no pods")
    assert got.is_empty


def test_a_strategy_that_is_off_lets_go():
    assert made(Strategy(), 5_000, held(200_000, {0, 1}))[:2] == (-1, ALL)
    assert made(Strategy(), None, held(200_000))[:2] == (-1, None)
    assert made(Strategy(), 5_000).is_empty


def test_a_quota_follows_and_the_cpuset_is_let_go():
    assert made(QUOTA, 4_000, held(-1, {0, 1})) == (400_000, ALL, "")
    assert made(QUOTA, 4_000) == (400_000, None, "")


def test_a_quota_grows_by_a_tenth_and_shrinks_at_once():
    assert made(QUOTA, 16_000, held(200_000)).quota_us == 200_000 + CPUS * 10_000
    assert made(QUOTA, -3_000, held(1_600_000)).quota_us == 2_000


def test_a_quota_that_is_there_is_not_written_again():
    got = made(QUOTA, -3_000, held(2_000))
    assert got.is_empty
    assert "close enough" in got.reason


def test_a_quota_of_another_period_is_compared_in_the_protocols():
    group = held(200_000, period_us=50_000)
    assert group.quota_us == 400_000
    assert made(QUOTA, 4_000, group).is_empty


def test_a_cpuset_shrinks_at_once_grows_slowly_and_the_quota_is_let_go():
    assert made(CPUSET, 3_000, held(300_000)) == (-1, frozenset({0, 1, 2}), "")
    assert len(made(CPUSET, 16_000, held(cpus={0, 1})).cpus) == 4
    assert made(CPUSET, 16_000, held(cpus=range(15))).cpus == ALL


def test_a_cpuset_that_is_there_is_not_written_again():
    got = made(CPUSET, 2_000, held(cpus={0, 1}))
    assert got.is_empty
    assert "right ones" in got.reason


@pytest.mark.parametrize("strategy", [QUOTA, CPUSET])
def test_a_knob_that_the_machine_lacks_is_named(strategy):
    got = made(strategy, 4_000, NOT_HELD)
    assert got.is_empty
    assert "on this machine" in got.reason


def test_cpus_that_the_cluster_keeps_are_not_given():
    facts = UNKNOWN._replace(reserved_cpus=frozenset({0, 1}), system_cpus=frozenset({2}))
    assert made(CPUSET, 2_000, facts=facts).cpus.isdisjoint({0, 1, 2})
    assert made(QUOTA, 4_000, facts=facts).cpus == EVERY - {0, 1, 2}
    assert made(QUOTA, 4_000, held(400_000, EVERY - {0, 1, 2}), facts=facts).is_empty


def test_nothing_to_choose_from_changes_nothing():
    facts = UNKNOWN._replace(reserved_cpus=EVERY)
    assert made(CPUSET, 4_000, facts=facts).is_empty
    assert made(QUOTA, 4_000, facts=facts).cpus is None
    assert made(CPUSET, 4_000, rows=[]).is_empty


@given(
    st.sampled_from([QUOTA, CPUSET]),
    st.lists(st.integers(-50_000, 50_000), min_size=1, max_size=40),
    st.integers(-1, 2_000_000),
    st.sets(st.integers(0, CPUS - 1), min_size=1),
)
def test_whatever_was_planned_is_let_go_again(strategy, targets, quota_us, cpus):
    """The law that enforcement rests on: plans stay within the machine, and letting go undoes all of them."""
    group = held(quota_us, cpus)
    for target in targets:
        step = made(strategy, target, group)
        if step.quota_us is not None:
            assert step.quota_us == -1 or step.quota_us >= 2_000
        if step.cpus is not None:
            assert step.cpus <= EVERY
        group = applied(group, step)
    group = applied(group, release(group))
    assert (group.quota_us, group.cpus) == (-1, EVERY)
    assert release(group).is_empty


def applied(group: Held, step: Plan) -> Held:
    quota_us = group.quota_us if step.quota_us is None else step.quota_us
    cpus = group.cpus if step.cpus is None else step.cpus or EVERY
    return Held(Bandwidth(quota_us, 100_000), cpus, EVERY)
