"""Bad trees: what is wrong is said, the rest goes on."""

from hypothesis import given, settings
from hypothesis import strategies as st

from berth.quota_manager.core.engine import Engine
from berth.quota_manager.core.forest import DEPTH_MAX, build
from berth.quota_manager.core.group import GroupSpec
from berth.resources.quantity import AMOUNT_MAX
from berth.rules.quota_of_pod import DEFAULT_GROUP, ROOT_GROUP, SYSTEM_GROUP

PARENT = "metadata.labels[quota.scheduling.koordinator.sh/parent]"
TREE = "metadata.labels[quota.scheduling.koordinator.sh/tree-id]"


def spec(name, **fields):
    fields.setdefault("max", {"cpu": 1000})
    return GroupSpec(name=name, namespace="ns", is_parent=fields.pop("is_parent", True), **fields)


def problems_of(forest):
    return {(problem.object, problem.field) for problem in forest.problems}


def test_a_good_tree_has_no_problems():
    forest = build([spec("a"), spec("b", parent="a"), spec("c", parent=ROOT_GROUP)])
    assert forest.problems == []
    assert [group.name for group in forest.groups["b"].ancestors()] == ["a"]
    assert forest.groups["c"].parent is forest.roots[""]


def test_a_cycle_is_cut_and_what_hangs_below_goes_with_it():
    ring = [spec("a", parent="c"), spec("b", parent="a"), spec("c", parent="b"), spec("below", parent="a")]
    forest = build([*ring, spec("fine")])
    assert problems_of(forest) == {(f"ns/{name}", PARENT) for name in "abc"}
    assert {name for name, group in forest.groups.items() if group.is_detached} == {"a", "b", "c", "below"}
    assert forest.groups["below"].runtime == {"cpu": 0}


def test_a_group_that_is_its_own_parent_is_cut():
    forest = build([spec("a", parent="a")])
    assert problems_of(forest) == {("ns/a", PARENT)}
    assert forest.groups["a"].is_detached


def test_a_missing_parent_detaches_until_it_appears():
    engine = Engine()
    engine.put_node("n", {"cpu": 5000})
    engine.put_quota("child", spec("child", parent="later", min={"cpu": 500}, lends=False))
    engine.put_quota("other", spec("other", min={"cpu": 500}, lends=False))
    engine.settle()
    assert [(problem.object, problem.field) for problem in engine.problems()] == [("ns/child", PARENT)]
    assert engine.forest.groups["child"].runtime == {"cpu": 0}
    assert engine.forest.groups["other"].runtime == {"cpu": 500}
    engine.put_quota("later", spec("later", min={"cpu": 500}))
    engine.settle()
    assert engine.problems() == []
    assert engine.forest.groups["child"].runtime == {"cpu": 500}


def test_amounts_out_of_range_are_held_and_named():
    bad = spec(
        "bad",
        max={"cpu": 2**70, "memory": -5, "gpu": 4},
        min={"cpu": -1, "gpu": 9, "pods": 3},
        weight={"cpu": -7, "gpu": 1},
    )
    forest = build([bad, spec("fine")])
    held = forest.groups["bad"].spec
    assert held.max == {"cpu": AMOUNT_MAX, "memory": 0, "gpu": 4}
    assert held.min == {"cpu": 0, "gpu": 4}
    assert held.weight == {"cpu": 0, "gpu": 1}
    weight = "metadata.annotations[quota.scheduling.koordinator.sh/shared-weight][cpu]"
    fields = {"spec.max[cpu]", "spec.max[memory]", "spec.min[cpu]", "spec.min[gpu]", "spec.min[pods]", weight}
    assert problems_of(forest) == {("ns/bad", field) for field in fields}


def test_one_name_in_two_namespaces_is_reported_whatever_the_order():
    first = GroupSpec(name="q", namespace="a", max={"cpu": 1})
    second = GroupSpec(name="q", namespace="b", max={"cpu": 2})
    for order in ((first, second), (second, first)):
        forest = build(order)
        assert forest.groups["q"].spec.max == {"cpu": 1}
        assert problems_of(forest) == {("b/q", "metadata.name")}


def test_children_promised_more_than_their_parent_are_reported():
    forest = build(
        [
            spec("p", min={"cpu": 100}),
            spec("c", parent="p", min={"cpu": 60}),
            spec("d", parent="p", min={"cpu": 60}),
            spec("loose", is_root=True, tree="t", total={"cpu": 1}),
            spec("e", parent="loose", tree="t", min={"cpu": 60}),
        ]
    )
    assert problems_of(forest) == {("ns/p", "spec.min[cpu]")}
    assert not any(group.is_detached for group in forest.groups.values())


def test_parents_that_cannot_be():
    forest = build(
        [
            spec("a", parent=DEFAULT_GROUP),
            spec("leaf", is_parent=False),
            spec("b", parent="leaf"),
            spec("c", parent="leaf", tree="elsewhere"),
            spec("d", parent="leaf", max={"gpu": 1}),
        ]
    )
    expected = {("ns/a", PARENT), ("ns/b", PARENT), ("ns/c", TREE), ("ns/d", PARENT), ("ns/d", "spec.max[gpu]")}
    assert problems_of(forest) == expected
    assert {name for name, group in forest.groups.items() if group.is_detached} == {"a", "c"}


def test_trees_inherit_and_need_a_top():
    forest = build(
        [
            spec("top", tree="t", is_root=True, total={"cpu": 9}),
            spec("child", parent="top"),
            spec("lost", tree="headless"),
            spec("again", tree="t", is_root=True, total={"cpu": 8}),
            spec("stray", is_root=True, total={"cpu": 7}),
        ]
    )
    assert forest.groups["child"].tree == "t"
    assert forest.totals == {"t": {"cpu": 8}}, "the smaller name sets the total"
    assert problems_of(forest) == {
        ("ns/lost", TREE),
        ("ns/top", "metadata.labels[quota.scheduling.koordinator.sh/is-root]"),
        ("ns/stray", TREE),
    }


def test_names_that_fit_no_key_are_left_out():
    forest = build([spec("x" * 300), spec("grün"), spec("a", tree="t" * 300), spec("fine")])
    assert forest.groups.keys() == {"fine", SYSTEM_GROUP, DEFAULT_GROUP}
    assert len(forest.problems) == 3


def test_a_chain_that_is_too_deep_ends_where_the_limit_is():
    chain = [spec("q000")] + [spec(f"q{i:03}", parent=f"q{i - 1:03}") for i in range(1, 40)]
    forest = build(chain)
    attached = sorted(name for name, group in forest.groups.items() if not group.is_detached and not group.is_built_in)
    assert attached == [f"q{i:03}" for i in range(DEPTH_MAX)]
    assert problems_of(forest) == {(f"ns/q{DEPTH_MAX:03}", PARENT)}


def test_thousands_of_groups_in_one_chain_or_ring_are_detached():
    chain = [spec("q00000")] + [spec(f"q{i:05}", parent=f"q{i - 1:05}") for i in range(1, 9000)]
    assert sum(not group.is_detached for group in build(chain).groups.values()) == DEPTH_MAX + 2
    ring = [spec(f"r{i:05}", parent=f"r{(i + 1) % 9000:05}") for i in range(9000)]
    assert all(group.is_detached or group.is_built_in for group in build(ring).groups.values())


def test_the_built_in_groups_keep_ceilings_beyond_64_bits():
    forest = build([GroupSpec(name=SYSTEM_GROUP, max={"cpu": 2**80}), GroupSpec(name=DEFAULT_GROUP, max={"cpu": 7000})])
    assert forest.problems == []
    assert forest.groups[DEFAULT_GROUP].spec.max == {"cpu": 7000, "memory": AMOUNT_MAX}


names = st.sampled_from([*"abcdef", "", ROOT_GROUP, DEFAULT_GROUP, "ghost"])
wild = st.dictionaries(
    st.sampled_from(["cpu", "memory", "x"]), st.integers(-(2**70), 2**70) | st.integers(0, 50), max_size=3
)
wild_specs = st.lists(
    st.builds(
        GroupSpec,
        name=names,
        namespace=st.sampled_from(["", "n", "m"]),
        parent=names,
        is_parent=st.booleans(),
        tree=st.sampled_from(["", "t", "u"]),
        is_root=st.booleans(),
        ignores_default_tree=st.booleans(),
        is_forced=st.booleans(),
        min=wild,
        max=wild,
        weight=st.none() | wild,
        lends=st.booleans(),
        namespaces=st.lists(st.sampled_from(["n", "m", "z"])).map(tuple),
        total=st.none() | wild,
    ),
    max_size=12,
    unique_by=lambda wild_spec: (wild_spec.namespace, wild_spec.name),
)


@given(wild_specs)
@settings(max_examples=150, deadline=None)
def test_no_set_of_objects_breaks_the_engine(specs):
    engine = Engine()
    engine.put_node("n", {"cpu": 100, "memory": 100})
    for index, wild_spec in enumerate(specs):
        engine.put_quota(str(index), wild_spec)
    engine.settle()
    backwards = Engine()
    backwards.put_node("n", {"cpu": 100, "memory": 100})
    for index, wild_spec in reversed(list(enumerate(specs))):
        backwards.put_quota(str(index), wild_spec)
    backwards.settle()
    for name, group in engine.forest.groups.items():
        assert all(0 <= amount <= AMOUNT_MAX for amount in group.runtime.values())
        assert all(group.runtime[key] <= group.spec.max[key] for key in group.runtime)
        if group.is_detached:
            assert not any(group.runtime.values())
        assert len(list(group.ancestors())) < DEPTH_MAX
        assert backwards.forest.groups[name].runtime == group.runtime
    assert sorted(engine.problems()) == sorted(backwards.problems())
