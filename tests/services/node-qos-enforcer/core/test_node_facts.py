"""What the node's entry in STATE says about its CPU."""

import pytest

from berth.contracts import names, state
from berth.node_qos_enforcer.core.node_facts import MAX_CPU_MILLI, UNKNOWN, NodeFacts, facts_of


def node(capacity=None, allocatable=None, reservation=None, system=None) -> state.Node:
    amounts = [{} if cpu is None else {"cpu": cpu} for cpu in (capacity, allocatable)]
    told = {names.ANNOTATION_NODE_RESERVATION: reservation, names.ANNOTATION_NODE_SYSTEM_QOS: system}
    annotations = {name: text for name, text in told.items() if text is not None}
    return state.Node(
        name="n", uid="u", version=1, capacity=amounts[0], allocatable=amounts[1], annotations=annotations
    )


def test_amounts_are_taken_over():
    assert facts_of(node(8_000, 7_500)) == NodeFacts(8_000, 7_500)


def test_a_node_that_says_nothing_has_no_facts():
    assert facts_of(node()) == UNKNOWN


def test_an_amplified_node_holds_nothing_back():
    assert facts_of(node(8_000, 12_000)).allocatable_milli == 8_000


@pytest.mark.parametrize("bad", [-1, MAX_CPU_MILLI + 1])
def test_absurd_amounts_are_named(bad):
    facts = facts_of(node(bad, 1_000))
    assert facts.capacity_milli is None
    assert [problem.field for problem in facts.problems] == ["status.capacity[cpu]"]


@pytest.mark.parametrize(
    ("annotation", "want"),
    [
        ('{"resources":{"cpu":"4"}}', 4_000),
        ('{"resources":{"cpu":"1500m"}}', 1_500),
        ('{"resources":{"cpu":2}}', 2_000),
        ('{"reservedCPUs":"0-3"}', 4_000),
        ('{"resources":{"cpu":"10"},"reservedCPUs":"0-1","applyPolicy":"ReservedCPUsOnly"}', 2_000),
        ('{"resources":{"memory":"1Gi"}}', 0),
        ("{}", 0),
        ("", 0),
    ],
)
def test_reservation_is_read(annotation, want):
    facts = facts_of(node(8_000, 8_000, annotation))
    assert (facts.annotation_reserved_milli, facts.problems) == (want, ())


@pytest.mark.parametrize(
    "annotation",
    [
        "{",
        "[]",
        '{"resources":{"cpu":"-2"}}',
        '{"resources":{"cpu":"lots"}}',
        '{"resources":{"cpu":1e300}}',
        '{"resources":{"cpu":"99999999"}}',
        '{"reservedCPUs":"3-1"}',
        '{"reservedCPUs":"0-99999999999"}',
        "[" * 50_000,
        " " * 70_000,
    ],
)
def test_a_reservation_that_cannot_be_used_reserves_nothing_and_is_named(annotation):
    facts = facts_of(node(8_000, 8_000, annotation))
    assert facts.annotation_reserved_milli == 0
    assert facts.capacity_milli == 8_000
    assert [names.ANNOTATION_NODE_RESERVATION in problem.field for problem in facts.problems] == [True]


def test_cpus_kept_from_best_effort_pods_are_named():
    facts = facts_of(node(reservation='{"reservedCPUs":"0-1"}', system='{"cpuset":"6,7"}'))
    assert (facts.reserved_cpus, facts.system_cpus) == (frozenset({0, 1}), frozenset({6, 7}))
    assert facts.annotation_reserved_milli == 2_000


def test_system_cpus_that_are_shared_are_kept_from_nobody():
    shared = facts_of(node(system='{"cpuset":"6,7","cpusetExclusive":false}'))
    assert shared == UNKNOWN._replace(system_pod_cpus=frozenset({6, 7}))


@pytest.mark.parametrize("bad", ["[", '{"cpuset":7}', '{"cpuset":"7-"}', '{"cpuset":"' + "1," * 40_000 + '1"}'])
def test_an_unusable_annotation_of_system_cpus_is_named(bad):
    facts = facts_of(node(system=bad))
    assert facts.system_cpus == frozenset()
    (problem,) = facts.problems
    assert problem.field.startswith(f"metadata.annotations[{names.ANNOTATION_NODE_SYSTEM_QOS}]")
