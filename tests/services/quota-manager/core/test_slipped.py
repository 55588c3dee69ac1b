"""ElasticQuotas that admission would have refused are reported, and nothing else is."""

from hypothesis import given
from hypothesis import strategies as st

from berth.contracts import names, state
from berth.quota_manager.core.objects import read_quota
from berth.quota_manager.core.slipped import LOOKED_AT_ONCE, Admission, Demand, Slipped
from berth.rules.quota_admission.quota import Switches

IS_PARENT = f"metadata.labels[{names.LABEL_QUOTA_IS_PARENT}]"
NAMESPACES = f"metadata.annotations[{names.ANNOTATION_QUOTA_NAMESPACES}]"


class World:
    def __init__(self, admission=None):
        self.pods = {}
        self.slipped = Slipped(admission or Admission(), lambda name: self.pods.get(name, Demand(0, {})))

    def quota(self, name, *, parent="", is_parent=False, tree="", namespace="ns", annotations=None, **fields):
        labels = {
            names.LABEL_QUOTA_PARENT: parent,
            names.LABEL_QUOTA_IS_PARENT: "true" if is_parent else "false",
            names.LABEL_QUOTA_TREE: tree,
        }
        quota = state.ElasticQuota(
            namespace=namespace,
            name=name,
            uid="u",
            version=1,
            labels={key: value for key, value in labels.items() if value},
            annotations=annotations or {},
            **fields,
        )
        self.slipped.put(f"{namespace}/{name}", quota, read_quota(quota))

    def found(self, moved=()):
        return [(problem.object, problem.field) for problem in self.slipped.look(moved)]


def test_a_good_tree_is_not_reported():
    world = World()
    world.quota("c", parent="p", max={"cpu": 2}, min={"cpu": 1})
    world.quota("p", is_parent=True, tree="t", max={"cpu": 2}, min={"cpu": 1})
    assert world.found() == []


def test_what_is_used_beyond_a_strict_max_is_reported_until_it_fits():
    world = World()
    strict = {names.ANNOTATION_QUOTA_STRICT_KEYS: '["cpu"]'}
    world.quota("a", max={"cpu": 1}, used={"cpu": 2}, annotations=strict)
    assert world.found() == [("ns/a", "spec.max[cpu]")]
    assert world.slipped.objects == 1
    world.quota("a", max={"cpu": 1}, used={"cpu": 1}, annotations=strict)
    assert world.found() == []


def test_figures_alone_are_no_news():
    world = World()
    world.quota("a", max={"cpu": 1})
    listed = world.slipped.look(())
    world.quota("a", max={"cpu": 1}, used={"cpu": 1}, annotations={names.ANNOTATION_QUOTA_RUNTIME: '{"cpu":"1"}'})
    assert world.slipped.look(()) is listed


def test_both_claimants_of_a_namespace_are_named_and_left_alone_when_one_goes():
    world = World()
    world.quota("a", annotations={names.ANNOTATION_QUOTA_NAMESPACES: '["x"]'})
    world.quota("b", annotations={names.ANNOTATION_QUOTA_NAMESPACES: '["x"]'})
    assert world.found() == [("ns/a", NAMESPACES), ("ns/b", NAMESPACES)]
    world.slipped.remove("ns/a", "a")
    assert world.found() == []


def test_a_parent_that_changes_makes_its_children_wrong():
    world = World()
    world.quota("p", is_parent=True, max={"cpu": 2}, min={"cpu": 1})
    world.quota("c", parent="p", max={"cpu": 2}, min={"cpu": 1})
    assert world.found() == []
    world.quota("p", is_parent=True, max={"cpu": 2})
    assert ("ns/c", "spec.min[cpu]") in world.found()


def test_pods_of_a_parent_are_reported_where_the_cluster_forbids_them():
    world = World(Admission(Switches()))
    world.quota("p", is_parent=True, max={"cpu": 2})
    assert world.found() == []
    world.pods["p"] = Demand(1, {})
    assert world.found(["p"]) == [("ns/p", IS_PARENT)]
    assert World().found() == []


def test_more_than_admission_lets_in_is_reported_where_it_is_on():
    world = World(Admission(books_pods=True))
    world.pods["a"] = Demand(1, {"cpu": 3})
    world.quota("a", max={"cpu": 2}, annotations={names.ANNOTATION_QUOTA_ADMISSION: '{"cpu":"4m"}'})
    assert world.found() == []
    world.quota("a", max={"cpu": 2})
    assert world.found() == [("ns/a", "spec.max[cpu]")]


def test_a_flood_is_looked_at_in_pieces():
    world = World()
    for at in range(2 * LOOKED_AT_ONCE):
        world.quota(f"q{at}", parent="nobody")
    assert len(world.found()) == LOOKED_AT_ONCE
    assert len(world.found()) == 2 * LOOKED_AT_ONCE


CHANGES = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.sampled_from("abcd"),
            "namespace": st.sampled_from(("m", "n")),
            "parent": st.sampled_from(("", "a", "b")),
            "is_parent": st.booleans(),
            "min": st.dictionaries(st.just("cpu"), st.integers(0, 3)),
            "max": st.dictionaries(st.just("cpu"), st.integers(0, 3)),
            "annotations": st.sampled_from(({}, {names.ANNOTATION_QUOTA_NAMESPACES: '["x"]'})),
        }
    ),
    max_size=10,
)


@given(CHANGES, st.lists(st.tuples(st.sampled_from("mn"), st.sampled_from("abcd")), max_size=4))
def test_the_report_depends_on_what_is_there_not_on_how_it_came(changes, gone):
    grown, there = World(), {}
    for change in changes:
        grown.quota(**change)
        grown.found()
        there[(change["namespace"], change["name"])] = change
    for namespace, name in gone:
        grown.slipped.remove(f"{namespace}/{name}", name)
        there.pop((namespace, name), None)
    fresh = World()
    for _, change in sorted(there.items(), reverse=True):
        fresh.quota(**change)
    # Who was deleted under others is remembered, which who comes later cannot know.
    deleted = {f"{namespace}/{name}" for namespace, name in gone} - {"/".join(key) for key in there}
    assert [each for each in grown.found() if each[0] not in deleted] == fresh.found()


def test_a_quota_that_was_deleted_under_others_is_named_until_they_are_gone():
    world = World()
    world.quota("p", is_parent=True, tree="t", max={"cpu": 2})
    world.quota("c", parent="p", tree="t", max={"cpu": 2})
    assert world.found() == []
    world.slipped.remove("ns/p", "p")
    assert ("ns/p", "metadata.name") in world.found()
    world.quota("p", is_parent=True, tree="t", max={"cpu": 2})
    assert world.found() == []
    world.slipped.remove("ns/p", "p")
    assert ("ns/p", "metadata.name") in world.found()
    world.slipped.remove("ns/c", "c")
    assert world.found() == []


def test_pods_whose_quota_was_deleted_are_told_of():
    world = World()
    world.quota("a", max={"cpu": 2})
    assert world.found() == []
    world.pods["a"] = Demand(0, {}, 3)
    world.slipped.remove("ns/a", "a")
    (problem,) = world.slipped.look(())
    assert problem == ("ns/a", "metadata.name", "was deleted although 3 pods belong to it")
    world.pods["a"] = Demand(0, {}, 0)
    assert world.found(["koordinator-default-quota"]) == []
