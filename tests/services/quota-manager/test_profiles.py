"""ElasticQuotaProfiles: their root quotas follow the nodes, and QUOTA says where the pods of a tree may go."""

from hypothesis import given
from hypothesis import strategies as st
from tests.services.worlds.quota.feed import Feed

from berth.contracts import names, state
from berth.contracts.command import MANAGER, ApplyObject, PatchObject
from berth.contracts.kube import LabelSelector, Requirement
from berth.contracts.subjects import named_key, namespaced_key, quota_key
from berth.quota_manager.core.profiles import NodeOfPool, Profiles
from berth.rules.quota_of_pod import DEFAULT_GROUP, ROOT_GROUP, SYSTEM_GROUP
from berth.rules.quota_trees import UNLIMITED, made_tree
from berth.runtime import Moment

TREE = f"metadata.labels[{names.LABEL_QUOTA_TREE}]"
POOL_A = {"pool": "a"}


def asked(feed, at_s=100.0):
    """What is asked for, by kind and name."""
    outcome = feed.reconciler.reconcile("", Moment(at_s, at_s))
    made = [each.message for each in outcome.commands]
    return {(type(each), each.name): each for each in made if isinstance(each, ApplyObject) or each.labels}


def carried_out(feed, command):
    """The quota as the API server has it after the command."""
    quota = state.ElasticQuota(
        namespace=command.namespace,
        name=command.name,
        uid="made",
        version=1,
        labels={**command.labels, names.LABEL_MANAGED_BY: MANAGER},
        annotations=command.annotations,
        min={
            key: int(float(value) * 1000) if key == "cpu" else int(value) for key, value in command.spec["min"].items()
        },
        max=dict.fromkeys(command.spec["max"], UNLIMITED),
    )
    feed.put(namespaced_key("elasticquota", command.namespace, command.name), quota)


def test_a_root_quota_follows_the_nodes_of_its_profile():
    feed = Feed()
    feed.node("n", 8000, labels=POOL_A, ready=True)
    feed.node("m", 4000, labels=POOL_A)
    feed.node("other", 1000, labels={"pool": "b"}, ready=True)
    feed.profile("p", "a")
    feed.complete()
    tree = made_tree("ns", "p")
    made = asked(feed)
    root = made[ApplyObject, "p-root"]
    assert root.namespace == "ns"
    assert root.spec["min"] == {"cpu": "12", "memory": "0"}
    assert root.labels == {
        names.LABEL_QUOTA_PROFILE: "p",
        names.LABEL_QUOTA_TREE: tree,
        names.LABEL_QUOTA_IS_ROOT: "true",
    }
    assert root.annotations == {
        names.ANNOTATION_QUOTA_TOTAL: '{"cpu":"12"}',
        names.ANNOTATION_QUOTA_UNSCHEDULABLE: '{"cpu":"4"}',
    }
    assert made[PatchObject, "p"].labels == {names.LABEL_QUOTA_TREE: tree}

    carried_out(feed, root)
    feed.profile("p", "a", labels={names.LABEL_QUOTA_TREE: tree})
    assert asked(feed, 101.0) == {}
    feed.node("m", 4000, labels={"pool": "b"})
    assert asked(feed, 105.0)[ApplyObject, "p-root"].spec["min"]["cpu"] == "8"
    assert asked(feed, 106.0) == {}, "the same is not asked for again at once"
    assert (ApplyObject, "p-root") in asked(feed, 140.0), "but where it had no effect"


def test_groups_of_the_tree_say_which_nodes_are_theirs():
    feed = Feed()
    feed.node("n", labels=POOL_A)
    feed.quota("root", tree_id="t", is_root="true")
    feed.quota("team", tree_id="t", parent="root")
    feed.quota("apart")
    feed.profile("p", "a", labels={names.LABEL_QUOTA_TREE: "t"})
    feed.complete()
    feed.reconciler.settle(1.0)
    written = feed.reconciler.writes(1000, ())
    wanted = [Requirement(key="pool", operator="In", values=["a"])]
    assert written[quota_key("t", "team")].nodes == wanted
    assert written[quota_key("t", "root")].nodes == wanted
    assert written[quota_key("", "apart")].nodes == []

    feed.delete(namespaced_key("elasticquotaprofile", "ns", "p"))
    feed.reconciler.settle(2.0)
    later = feed.reconciler.writes(2000, ())
    assert later[quota_key("t", "team")].nodes == []
    assert later[quota_key("t", "team")].revision > written[quota_key("t", "team")].revision


def test_a_quota_of_another_writer_is_left_alone_and_named():
    feed = Feed()
    feed.node("n", labels=POOL_A)
    feed.quota("p-root")
    feed.profile("p", "a", labels={names.LABEL_QUOTA_TREE: "t"})
    feed.complete()
    assert asked(feed) == {}
    assert [(each.object, each.field) for each in feed.reconciler.profile_problems] == [("ns/p", "spec.quotaName")]


def test_built_in_groups_are_made_once_and_where_their_namespace_is():
    feed = Feed(home="koordinator-system")
    feed.node("n")
    feed.quota(DEFAULT_GROUP)
    feed.complete()
    assert asked(feed) == {}
    feed.put(named_key("namespace", "koordinator-system"), state.Namespace(name="koordinator-system", version=1))
    made = asked(feed, 101.0)
    assert made.keys() == {(ApplyObject, ROOT_GROUP), (ApplyObject, SYSTEM_GROUP)}
    assert made[ApplyObject, ROOT_GROUP].labels[names.LABEL_QUOTA_IS_PARENT] == "true"
    assert made[ApplyObject, SYSTEM_GROUP].spec == {"max": {"cpu": "1844674407370955", "memory": "1844674407370955161"}}


def test_what_is_wrong_with_profiles_is_an_event_of_the_profile():
    feed = Feed()
    feed.node("n", labels=POOL_A)
    feed.profile("p", "a", ratio="1.5")
    feed.profile("q", "a", quota_name="p-root", labels={names.LABEL_QUOTA_TREE: made_tree("ns", "p")})
    feed.complete()
    outcome = feed.reconciler.reconcile("", Moment(1.0, 1.0))
    found = {event.message.name: {each.field for each in event.message.problems} for event in outcome.events}
    assert found == {
        "p": {"spec.resourceRatio", "spec.nodeSelector"},
        "q": {"spec.quotaName", TREE, "spec.nodeSelector"},
    }
    assert {event.message.kind for event in outcome.events} == {"ElasticQuotaProfile"}


LABELS = st.sampled_from(({}, POOL_A, {"pool": "b"}))
NODES = st.builds(
    NodeOfPool,
    labels=LABELS,
    allocatable=st.dictionaries(st.sampled_from(("cpu", "gpu")), st.integers(0, 3)),
    takes_pods=st.booleans(),
)


def profile_of(name, selector):
    return state.ElasticQuotaProfile(
        namespace="ns", name=name, uid="u", version=1, quota_name=name, selector=LabelSelector(match_labels=selector)
    )


@given(
    st.lists(st.tuples(st.sampled_from("nmo"), st.none() | NODES)), st.lists(st.tuples(st.sampled_from("pq"), LABELS))
)
def test_sums_are_those_of_the_nodes_that_are_there(nodes, profiles):
    grown, fresh = Profiles(), Profiles()
    for at in range(max(len(nodes), len(profiles))):
        for name, node in nodes[at : at + 1]:
            grown.remove_node(name) if node is None else grown.put_node(name, node)
        for name, selector in profiles[at : at + 1]:
            grown.put(name, profile_of(name, selector))
    for name, selector in dict(profiles).items():
        fresh.put(name, profile_of(name, selector))
    for name, node in dict(nodes).items():
        if node is not None:
            fresh.put_node(name, node)
    assert {root.profile.name: root.quota for root in grown.roots()} == {
        root.profile.name: root.quota for root in fresh.roots()
    }
    assert grown.problems() == fresh.problems()
    assert grown.requirements() == fresh.requirements()
