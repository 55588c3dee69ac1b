"""Put together round by round, files are to have what they would have if all was put together anew."""

from hypothesis import given
from hypothesis import strategies as st

from berth.node_qos_enforcer.core.compose import compose
from berth.node_qos_enforcer.core.composing import Composing
from berth.node_qos_enforcer.core.strategies.knobs import CPU_IDLE, CPU_QUOTA, CPU_SHARES, QUOTA_BURST, QUOTA_LIMIT
from berth.node_qos_enforcer.core.strategies.seam import Container, Pod, Ref, Snapshot, Wanted

LIMITS = {"cpu": 1000}


def a_pod(name, containers):
    found = tuple(
        Container(f"c{each}", id=f"{name}{each}", group=f"{name}/c{each}", limits=LIMITS, is_sized=True)
        for each in range(containers)
    )
    return Pod(name, group=name, limits={"cpu": 1000 * containers}, containers=found, is_known=True)


WORLDS = [tuple(a_pod(name, count) for name, count in (("a", 2), ("b", 1), ("c", 0))), (a_pod("a", 1),)]
GROUPS = st.sampled_from(["a", "a/c0", "a/c1", "b", "b/c0", "besteffort"])
VALUES = {
    CPU_QUOTA: ["50000", "max"],
    QUOTA_LIMIT: ["100000", "200000", "max"],
    QUOTA_BURST: ["150000", None],
    CPU_IDLE: ["0", "1"],
    CPU_SHARES: ["2", "512", None],
    "act": ["x", "y"],
}
WANTED = st.sampled_from(sorted(VALUES)).flatmap(
    lambda knob: st.builds(Wanted, GROUPS, st.just(knob), st.sampled_from(VALUES[knob]))
)
PARTS = st.tuples(*[st.lists(WANTED, max_size=4).map(tuple)] * 3)


@given(st.lists(st.tuples(st.sampled_from([0, 0, 0, 1]), PARTS, st.tuples(*[st.booleans()] * 3)), max_size=6))
def test_round_by_round_is_the_same_as_anew(rounds):
    composing, parts = Composing(frozenset({"act"})), ((), (), ())
    before = {}
    for world, drawn, stays in rounds:
        parts = tuple(old if stay else new for old, new, stay in zip(parts, drawn, stays, strict=True))
        look = Snapshot(None, WORLDS[world])
        change = composing.compose(look, parts)
        whole = compose(look, [each for part in parts for each in part])
        values = {**change.files.values, **change.done}
        assert (values, change.files.kept) == (whole.values, whole.kept)
        assert all(ref.knob == "act" for ref in change.done)
        assert set(change.files.problems) == set(whole.problems)
        news = {
            ref for ref in values.keys() | before.keys() if values.get(ref) != before.get(ref) and ref.knob != "act"
        }
        assert change.touched is None or news <= change.touched
        before = values


def test_a_round_without_news_touches_nothing():
    composing, look = Composing(), Snapshot(None, WORLDS[0])
    parts = ((Wanted("a/c0", QUOTA_BURST, "150000"),), (Wanted("besteffort", CPU_QUOTA, "50000"),))
    assert composing.compose(look, parts).touched is None
    assert composing.compose(look, tuple(tuple(part) for part in parts)).touched == frozenset()
    other = composing.compose(look, (parts[0], (Wanted("besteffort", CPU_QUOTA, "60000"),)))
    assert [ref.group for ref in other.touched] == ["besteffort"]


def test_a_pod_of_whose_containers_nothing_is_known_yet_has_no_quota():
    """Where the runtime does not ask the agent, it never hears of them."""
    composed = compose(Snapshot(None, (a_pod("a", 0)._replace(limits={}),)), [Wanted("a", QUOTA_LIMIT, "max")])
    assert composed.values == {Ref("a", CPU_QUOTA): "max"}
