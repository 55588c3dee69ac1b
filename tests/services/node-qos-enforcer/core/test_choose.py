"""Laws of the choice of CPUs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.node_qos_enforcer.core.choose import choose_cpus, choose_from_pool
from berth.node_qos_enforcer.core.cpuset import parse_cpuset
from berth.node_qos_enforcer.core.malformed import Malformed
from berth.node_qos_enforcer.core.topology import Processor


def machine(nodes: int, cores: int, threads: int) -> list[Processor]:
    """Sibling threads are numbered apart, as on most servers: CPU = thread * all cores + core."""
    everything = nodes * cores
    return [
        Processor(thread * everything + node * cores + core, node * cores + core, node, node)
        for node in range(nodes)
        for core in range(cores)
        for thread in range(threads)
    ]


machines = st.builds(machine, st.integers(1, 4), st.integers(1, 8), st.integers(1, 3))


@st.composite
def pools(draw):
    rows = draw(machines)
    return draw(st.lists(st.sampled_from(rows), unique=True)) if rows else []


@given(pools(), st.integers(-2, 60))
def test_a_pool_gives_exactly_what_is_wanted_or_nothing(pool, wanted):
    chosen = choose_from_pool(wanted, pool)
    assert len(chosen) == len(set(chosen))
    assert set(chosen) <= {row.cpu for row in pool}
    assert len(chosen) == (wanted if 0 < wanted <= len(pool) else 0)


@given(pools(), st.integers(1, 60), st.randoms(use_true_random=False))
def test_order_of_input_does_not_matter(pool, wanted, random):
    shuffled = list(pool)
    random.shuffle(shuffled)
    assert choose_from_pool(wanted, shuffled) == choose_from_pool(wanted, pool)


@given(st.integers(1, 4), st.integers(1, 8), st.data())
def test_whole_cores_come_first(nodes, cores, data):
    rows = machine(nodes, cores, 2)
    wanted = data.draw(st.integers(1, len(rows)))
    core_of = {row.cpu: row.core for row in rows}
    chosen = choose_from_pool(wanted, rows)
    touched = {core_of[cpu] for cpu in chosen}
    assert len(touched) == -(-wanted // 2)


@given(st.integers(2, 4), st.integers(1, 8), st.data())
def test_numa_nodes_take_turns(nodes, cores, data):
    rows = machine(nodes, cores, 2)
    wanted = data.draw(st.integers(1, len(rows)))
    node_of = {row.cpu: row.node for row in rows}
    chosen = choose_from_pool(wanted, rows)
    counts = [sum(node_of[cpu] == node for cpu in chosen) for node in range(nodes)]
    assert max(counts) - min(counts) <= 2


@st.composite
def rounds(draw):
    rows = draw(machines)
    ids = st.frozensets(st.sampled_from([row.cpu for row in rows]))
    return {
        "target_milli": draw(st.integers(-10_000, 80_000)),
        "processors": rows,
        "current": draw(ids),
        "reserved": draw(ids),
        "exclusive_system": draw(ids),
        "lsr": draw(ids),
        "lse": draw(ids),
    }


@given(rounds())
def test_a_round_keeps_off_what_is_not_its_own_and_grows_slowly(node):
    chosen = choose_cpus(**node)
    assert len(chosen) == len(set(chosen))
    forbidden = node["reserved"] | node["exclusive_system"] | node["lse"]
    assert not forbidden & set(chosen)
    assert len(chosen) <= max(2, -(-node["target_milli"] // 1000))
    assert len(chosen) <= len(node["current"]) + -(-len(node["processors"]) // 10)


@given(rounds())
def test_cpus_of_lsr_pods_give_no_more_than_their_part(node):
    chosen = choose_cpus(**node)
    left = {row.cpu for row in node["processors"]} - node["reserved"] - node["exclusive_system"] - node["lse"]
    wanted = choose_cpus(**node | {"lsr": ()})
    if wanted:
        assert len(chosen) == len(wanted), "both pools can give their part"
        assert len(node["lsr"] & set(chosen)) == len(wanted) * len(node["lsr"] & left) // len(left)


@given(st.lists(st.integers(-4_000, 40_000), min_size=2, max_size=2).map(sorted))
def test_a_larger_target_never_gives_fewer_cpus(targets):
    rows = machine(2, 10, 2)
    less, more = (choose_cpus(target_milli=target, processors=rows, current=range(40)) for target in targets)
    assert len(less) <= len(more)


def test_a_share_that_its_pool_cannot_give_changes_nothing():
    rows = machine(1, 2, 2)
    assert choose_cpus(target_milli=4_000, processors=rows, current=range(4)) == [0, 2, 1, 3]
    assert choose_cpus(target_milli=4_001, processors=rows, current=range(4)) == []


def test_no_cpu_left_changes_nothing():
    rows = machine(1, 2, 2)
    assert choose_cpus(target_milli=4_000, processors=rows, current=[0, 1], reserved=[0, 1, 2, 3]) == []
    assert choose_cpus(target_milli=4_000, processors=[], current=[]) == []


@pytest.mark.parametrize("text", ["a", "0-99999999"])
def test_bad_lists_are_refused(text):
    with pytest.raises(Malformed, match="cpuset of a group"):
        parse_cpuset(text, field="cpuset of a group")
