"""What agents that ask for evictions are answered: who may leave, and that one need evicts once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from berth.contracts.names import LABEL_EVICTION_ENABLED, LABEL_QOS
from berth.contracts.node_pressure import EvictionAsk
from berth.contracts.slo import NodePod
from berth.rules.node_evictions.notes import NodeEviction
from berth.rules.node_evictions.thresholds import Thresholds
from berth.slo_manager.core.evicting.answering import Site, entries_of
from berth.slo_manager.core.evicting.rates import GRANTED, PERIOD_S, REFUSED
from berth.slo_manager.core.evicting.tenants import Tenant

NOW_S = 1_000_000.0
ON = Thresholds(enable=True, memory_evict_threshold_percent=70, evict_enabled_priority_threshold=5_999)


def tenant(uid="a", *, qos="BE", priority=5_500, note=None, protected="", enabled="true", **fields):
    labels = {LABEL_QOS: qos, LABEL_EVICTION_ENABLED: enabled}
    pod = NodePod(node="n", uid=uid, namespace="d", name=uid, phase="Running", labels=labels, priority=priority)
    return Tenant(replace(pod, **fields), note, protected)


def ask(uid="a", *, number=1, release=10, counts=10, feature="BEMemoryEvict", accumulator="podUsed"):
    return EvictionAsk(
        uid=uid,
        number=number,
        need=f"{feature}-1",
        feature=feature,
        accumulator=accumulator,
        release={"memory": release},
        counts={"memory": counts},
    )


def site(tenants, asks, *, published=None, thresholds=ON, evicted=(), per_hour=20):
    by_workload = {}
    for each in evicted:
        by_workload.setdefault(each.workload, {})[each.node, each.uid] = each
    return Site({each.pod.uid: each for each in tenants}, published or {}, asks, thresholds, by_workload, per_hour)


def answers(found):
    return {uid: each.eviction.state for uid, each in found.items() if each.eviction is not None}


def test_one_need_evicts_once():
    tenants = [tenant("a"), tenant("b")]
    found = entries_of(site(tenants, [ask("a"), ask("b")]), NOW_S, 1)
    assert answers(found) == {"a": GRANTED}
    # The next one has its turn when the first is refused, or when more is needed than it counts for.
    stays = NodeEviction(node="n", revision=1, need="", feature="", accumulator="podUsed", refused="a budget")
    later = entries_of(site([tenant("a", note=stays), tenant("b")], [ask("b")], published=found), NOW_S, 2)
    assert answers(later) == {"a": REFUSED, "b": GRANTED}
    assert later["a"].eviction.reason == "a budget"
    more = entries_of(site(tenants, [ask("b", release=11)], published=found), NOW_S, 2)
    assert answers(more) == {"a": GRANTED, "b": GRANTED}


def test_who_leaves_by_its_note_counts_when_slo_was_lost():
    note = NodeEviction(node="n", revision=1, need="", feature="", accumulator="podUsed", counts={"memory": 10})
    tenants = [tenant("a", note=note, deleting=True), tenant("b")]
    assert answers(entries_of(site(tenants, [ask("b")]), NOW_S, 1)) == {}


@pytest.mark.parametrize(
    ("pod", "asked", "thresholds", "why"),
    [
        (tenant(qos="LS"), ask(), ON, "not labelled best-effort"),
        (tenant(protected="label x=y"), ask(), ON, "protected: label x=y"),
        (tenant(), ask(feature="Whim"), ON, "no feature"),
        (tenant(), ask(accumulator="podResourceRequest"), ON, "counts by podUsed"),
        (tenant(), ask(), Thresholds(memory_evict_threshold_percent=70), "switched off"),
        (tenant(), ask(), None, "switched off"),
        (tenant(), ask(), Thresholds(enable=True), "does not let BEMemoryEvict run"),
        (tenant(priority=9_500, qos="LS"), ask(feature="MemoryEvict"), ON, "9500 is above 5999"),
        (tenant(enabled="no"), ask(feature="MemoryEvict"), ON, "is not true"),
        (tenant(), replace(ask(), counts={}), ON, "counts: has nothing of what is to be released (memory)"),
        (tenant(), ask(counts=-5), ON, "counts: has nothing"),
        (tenant(), replace(ask(), counts={"cpu": 500}), ON, "counts: has nothing"),
    ],
)
def test_who_may_not_leave(pod, asked, thresholds, why):
    eviction = entries_of(site([pod], [asked], thresholds=thresholds), NOW_S, 1)["a"].eviction
    assert eviction.state == REFUSED
    assert why in eviction.reason


def test_an_ask_is_answered_once():
    first = entries_of(site([tenant(qos="LS")], [ask()]), NOW_S, 1)
    assert entries_of(site([tenant()], [ask()], published=first), NOW_S, 2)["a"].eviction.state == REFUSED
    again = entries_of(site([tenant()], [ask(number=2)], published=first), NOW_S, 3)
    assert again["a"].eviction.state == GRANTED
    assert again["a"].eviction.revision > first["a"].eviction.revision


def test_a_workload_gives_no_more_than_its_rate():
    tenants = [tenant("a", workload="Job/d/w"), tenant("b", workload="Job/d/w"), tenant("c", workload="Job/d/v")]
    asks = [ask("a", counts=1), ask("b", counts=1), ask("c", counts=1)]
    found = entries_of(site(tenants, asks, per_hour=1), NOW_S, 1)
    assert answers(found) == {"a": GRANTED, "b": REFUSED, "c": GRANTED}
    evicted = [found["a"]]
    late = entries_of(site(tenants[1:2], asks[1:2], evicted=evicted, per_hour=1), NOW_S + PERIOD_S, 2)
    assert answers(late) == {"b": GRANTED}


def test_what_counts_for_nothing_takes_no_pod_after_the_other():
    tenants = [tenant(str(uid)) for uid in range(4)]
    asks = [replace(ask(str(uid), number=uid + 1), counts={}) for uid in range(4)]
    found = entries_of(site(tenants, asks), NOW_S, 1)
    assert set(answers(found).values()) == {REFUSED}
    # An honest ask for the same need is answered as ever.
    found = entries_of(site(tenants, [ask("0", number=9)], published=found), NOW_S, 2)
    assert answers(found)["0"] == GRANTED


def test_the_record_of_who_left_stays_for_a_while():
    found = entries_of(site([tenant()], [ask()]), NOW_S, 1)
    gone = entries_of(site([], [], published=found), NOW_S + 5, 2)
    assert gone["a"].left == NOW_S + 5
    assert entries_of(site([], [], published=gone), NOW_S + PERIOD_S, 3) == gone
    assert entries_of(site([], [], published=gone), NOW_S + PERIOD_S + 5, 4) == {}


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 20), st.integers(0, 10)), min_size=1, max_size=6),
    st.sets(st.integers(0, 5)),
)
def test_nobody_leaves_for_a_need_that_is_covered(asked, leaving):
    """Counted from scratch: before each grant, what was granted and is there covers less than what is asked for."""
    tenants = [tenant(str(uid)) for uid in range(len(asked))]
    published = {}
    for number, (uid, release, counts) in enumerate((uid % len(asked), *rest) for uid, *rest in asked):
        asks = [ask(str(uid), number=number + 1, release=release, counts=counts)]
        before = sum(
            each.eviction.counts["memory"]
            for each in published.values()
            if each.eviction is not None and each.eviction.state == GRANTED
        )
        after = entries_of(site(tenants, asks, published=published), NOW_S, number + 1)
        granted = [{uid for uid, each in answers(one).items() if each == GRANTED} for one in (after, published)]
        fresh = granted[0] - granted[1]
        assert not fresh or before < release
        published = after
