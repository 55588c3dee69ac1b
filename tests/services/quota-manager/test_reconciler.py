"""From entries of the buckets to what is written."""

import json

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.services.worlds.quota.feed import Feed

from berth.bus.port import Entry
from berth.contracts import names, state
from berth.contracts.base import Problem
from berth.contracts.codec import encode
from berth.contracts.event import ObjectRefused, QuotaChanged
from berth.contracts.subjects import named_key, namespaced_key, pod_key, quota_key
from berth.quota_manager.core.engine import Rules
from berth.rules.quota_of_pod import DEFAULT_GROUP, SYSTEM_GROUP
from berth.runtime import Moment


def written(reconciler, now_ms=1, present=()):
    reconciler.settle(now_ms / 1000)
    return reconciler.writes(now_ms, present)


def test_a_view_is_complete_when_every_kind_is():
    feed = Feed()
    assert not feed.reconciler.view.is_complete
    feed.complete("pods", "nodes")
    assert not feed.reconciler.view.is_complete
    assert feed.reconciler.view.missing == "waiting for elasticquotaprofiles, elasticquotas"
    feed.complete("elasticquotas", "elasticquotaprofiles")
    assert feed.reconciler.view.is_complete
    feed.reconciler.view.reset()
    assert not feed.reconciler.view.is_complete
    feed.reconciler.view.end(0)
    assert feed.reconciler.view.missing == "waiting for elasticquotaprofiles, elasticquotas, nodes, pods"


def test_everything_is_written_once_and_then_only_what_changed():
    feed = Feed()
    feed.node("n")
    feed.quota("a")
    feed.quota("b", tree_id="t")
    feed.pod("p", quota="a", cpu=700)
    feed.complete()
    reconciler = feed.reconciler
    first = written(reconciler, 1000)
    assert first.keys() == {
        quota_key("", "a"),
        quota_key("t", "b"),
        quota_key("", DEFAULT_GROUP),
        quota_key("", SYSTEM_GROUP),
    }
    assert first[quota_key("", "a")].runtime == {"cpu": 700}
    assert {message.revision for message in first.values()} == {1000}
    assert written(reconciler, 2000) == {}
    feed.pod("q", quota="a", cpu=300)
    second = written(reconciler, 3000)
    assert list(second) == [quota_key("", "a")]
    assert second[quota_key("", "a")].runtime == {"cpu": 1000}
    assert second[quota_key("", "a")].revision == 3000
    feed.delete(pod_key("ns", "q"))
    feed.delete(pod_key("ns", "q"))
    assert written(reconciler, 4000)[quota_key("", "a")].runtime == {"cpu": 700}
    feed.pod("p", quota="a", cpu=700, phase="Succeeded")
    assert written(reconciler, 5000)[quota_key("", "a")].runtime == {"cpu": 0}


def test_a_restart_writes_nothing_when_nothing_changed():
    feed = Feed()
    feed.node("n")
    feed.quota("a")
    feed.pod("p", quota="a")
    feed.complete()
    stored = written(feed.reconciler, 1000)
    again = Feed()
    for key, message in stored.items():
        again.reconciler.published.apply(Entry(key, encode(message), False, 1, 0, False, None))
    again.quota("a")
    again.pod("p", quota="a")
    again.node("n")
    again.complete()
    assert written(again.reconciler, 9000, stored) == {}


def test_groups_that_are_gone_are_deleted_and_their_pods_fall_back():
    feed = Feed()
    feed.node("n")
    feed.quota("a")
    feed.pod("p", quota="a", node="n")
    feed.complete()
    present = written(feed.reconciler, 1000)
    feed.delete(namespaced_key("elasticquota", "ns", "a"))
    changes = written(feed.reconciler, 2000, present)
    assert changes[quota_key("", "a")] is None
    assert feed.reconciler.engine.forest.groups[DEFAULT_GROUP].used == {"cpu": 1000}
    stale = quota_key("", "left-behind")
    feed.reconciler.reconsider()
    changes = written(feed.reconciler, 3000, [stale])
    assert changes.keys() == {stale, quota_key("", DEFAULT_GROUP)}, "a demand does not hurry"
    assert changes[stale] is None


def test_a_refused_write_is_decided_again():
    feed = Feed()
    feed.quota("a")
    feed.complete()
    key = quota_key("", "a")
    mine = written(feed.reconciler, 1000)[key]
    foreign = msgspec.structs.replace(mine, revision=500, runtime={"cpu": 1})
    feed.reconciler.published.apply(Entry(key, encode(foreign), False, 9, 0, False, None))
    assert written(feed.reconciler, 2000) == {}, "an older revision is an echo until the bus reports a conflict"
    feed.reconciler.reconsider(key)
    assert written(feed.reconciler, 3000)[key].revision == 3000


def test_a_lost_bucket_is_filled_again_with_higher_revisions():
    feed = Feed()
    feed.quota("a")
    feed.complete()
    written(feed.reconciler, 7000)
    feed.reconciler.published.reset()
    feed.reconciler.reconsider()
    assert written(feed.reconciler, 10)[quota_key("", "a")].revision == 7001


def test_limits_that_are_back_to_what_a_loss_left_get_a_revision_above_the_lost_one():
    """LEDGER names the revision that was lost: no solver plans on less."""
    feed = Feed()
    feed.quota("a")
    feed.complete()
    key = quota_key("", "a")
    left = written(feed.reconciler, 1000)[key]
    feed.quota("a", cpu=9000)
    written(feed.reconciler, 2000)
    feed.quota("a")
    used = written(feed.reconciler, 3000)[key]
    assert msgspec.structs.replace(used, revision=0) == msgspec.structs.replace(left, revision=0)
    feed.reconciler.published.reset()
    feed.reconciler.published.apply(Entry(key, encode(left), False, 1, 0, False, None))
    assert written(feed.reconciler, 10)[key].revision > used.revision
    assert written(feed.reconciler, 20) == {}, "once"


def test_groups_are_written_behind_those_above_them_and_the_default_group_last():
    feed = Feed()
    feed.quota("z", is_parent="true")
    feed.quota("y", parent="z", is_parent="true")
    feed.quota("a", parent="y")
    feed.quota("b", parent="z")
    feed.complete()
    order = [message.name for message in written(feed.reconciler, 1000).values()]
    assert order == [SYSTEM_GROUP, "z", "b", "y", "a", DEFAULT_GROUP]
    feed.reconciler.published.reset()
    feed.reconciler.reconsider()
    assert [message.name for message in written(feed.reconciler, 2000).values()] == order


def test_a_bucket_that_begins_anew_is_filled_in_order_though_a_change_comes_first():
    feed = Feed()
    feed.node("n")
    feed.quota("a")
    feed.complete()
    written(feed.reconciler, 1000)
    feed.reconciler.published.reset()
    feed.pod("p", cpu=100)  # a demand of the default group
    assert [message.name for message in written(feed.reconciler, 2000).values()] == ["a", SYSTEM_GROUP, DEFAULT_GROUP]


def test_namespaces_are_published_with_their_group():
    feed = Feed()
    feed.quota("a", annotations={names.ANNOTATION_QUOTA_NAMESPACES: '["x","y"]'})
    feed.quota("b", annotations={names.ANNOTATION_QUOTA_NAMESPACES: '["y","z"]'})
    feed.quota("ns")
    feed.pod("p", namespace="z")
    feed.complete()
    changes = written(feed.reconciler, 1)
    assert changes[quota_key("", "a")].namespaces == ["x", "y"]
    assert changes[quota_key("", "b")].namespaces == ["z"]
    assert changes[quota_key("", "ns")].namespaces == ["ns"]
    assert feed.reconciler.engine.forest.groups["b"].request == {"cpu": 1000}


def test_figures_are_written_back_at_intervals():
    feed = Feed(interval_s=2.0, retry_s=30.0)
    feed.node("n")
    feed.quota("a")
    feed.pod("p", quota="a", node="n", preemptible="x")
    feed.complete()
    reconciler = feed.reconciler
    reconciler.settle(100.0)
    (asked,) = reconciler.patches(100.0, 10)
    assert asked.uid == "uid-a"
    assert asked.status == {"used": {"cpu": "1"}}
    assert json.loads(asked.annotations[names.ANNOTATION_QUOTA_RUNTIME]) == {"cpu": "1"}
    for moment in range(10):
        feed.pod(f"more-{moment}", quota="a")
        reconciler.settle(100.1 + moment / 10)
        assert reconciler.patches(100.1 + moment / 10, 10) == []
    (asked,) = reconciler.patches(102.0, 10)
    assert json.loads(asked.annotations[names.ANNOTATION_QUOTA_REQUEST]) == {"cpu": "11"}
    reconciler.settle(131.9)
    assert reconciler.patches(131.9, 10) == []
    (repeated,) = reconciler.patches(132.0, 10)
    assert repeated == asked
    feed.quota("a", annotations=repeated.annotations, used={"cpu": 1000})
    reconciler.settle(133.0)
    assert reconciler.patches(200.0, 10) == [], "the object shows it now"
    feed.quota("a", annotations=repeated.annotations, used={"cpu": 9})
    reconciler.settle(201.0)
    assert len(reconciler.patches(203.0, 10)) == 1, "somebody else changed what it shows"


def test_our_own_write_back_is_no_change_of_the_tree():
    feed = Feed()
    feed.quota("a")
    feed.complete()
    written(feed.reconciler, 1)
    feed.quota("a", annotations={names.ANNOTATION_QUOTA_RUNTIME: '{"cpu":"1"}'}, used={"cpu": 3})
    assert written(feed.reconciler, 2) == {}


def test_demand_alone_is_published_at_the_pace_of_write_backs():
    feed = Feed(interval_s=2.0)
    feed.node("n", cpu=1000)
    feed.quota("a")
    feed.pod("p", quota="a", cpu=5000)
    feed.complete()
    reconciler = feed.reconciler
    key = quota_key("", "a")
    reconciler.settle(100.0)
    reconciler.patches(100.0, 100)
    first = reconciler.writes(100_000, ())[key]
    assert (first.runtime, first.request) == ({"cpu": 1000}, {"cpu": 5000})
    feed.pod("q", quota="a", cpu=700)
    reconciler.settle(100.5)
    reconciler.patches(100.5, 100)
    assert reconciler.writes(100_500, ()) == {}
    reconciler.settle(102.0)
    reconciler.patches(102.0, 100)
    second = reconciler.writes(102_000, ())[key]
    assert (second.request, second.revision) == ({"cpu": 5700}, first.revision)


def test_events_tell_of_bad_objects_and_of_overuse():
    feed = Feed(grace_s=5.0)
    feed.node("n")
    feed.quota("a", parent="gone")
    feed.quota("b", cpu=500)
    feed.pod("p", quota="b", cpu=800, node="n")
    feed.complete()
    reconciler = feed.reconciler
    reconciler.settle(0.0)
    (refused,) = reconciler.announcements(Moment(0.0, 0.0))
    assert isinstance(refused.message, ObjectRefused)
    assert (refused.message.namespace, refused.message.name) == ("ns", "a")
    assert refused.message.problems[0].field == f"metadata.labels[{names.LABEL_QUOTA_PARENT}]"
    assert refused.subject == "berth.v1.evt.object.refused.elasticquotas.ns.a"
    reconciler.settle(5.0)
    (over,) = reconciler.announcements(Moment(5.0, 5.0))
    assert isinstance(over.message, QuotaChanged)
    assert over.subject == "berth.v1.evt.quota.changed.exceeded.=.b"
    assert "cpu by 300m" in over.message.message
    assert reconciler.announcements(Moment(9.0, 9.0)) == []
    feed.delete(pod_key("ns", "p"))
    reconciler.settle(10.0)
    (back,) = reconciler.announcements(Moment(10.0, 10.0))
    assert back.text == "quota.recovered"


def test_problems_travel_with_the_group():
    feed = Feed()
    feed.quota("a", parent="gone")
    feed.complete()
    message = written(feed.reconciler, 1)[quota_key("", "a")]
    assert message.runtime == {"cpu": 0}
    assert "does not exist" in message.problems[0].message


def test_messages_that_cannot_be_read_are_counted_and_change_nothing():
    feed = Feed()
    feed.quota("a")
    feed.pod("p", quota="a")
    feed.complete()
    written(feed.reconciler, 1)
    for key in (pod_key("ns", "p"), namespaced_key("elasticquota", "ns", "a"), named_key("node", "n"), "synced.pods"):
        for junk in (b"", b"{", b"[]", b'{"type":"pod.seen.v1"}', b"\xff\xfe", b'{"namespace":5}', b"null"):
            feed.raw(key, junk)
    feed.raw("device.x", b"junk of kinds that do not concern us")
    feed.reconciler.published.apply(Entry(quota_key("", "b"), b"junk", False, 1, 0, False, None))
    assert written(feed.reconciler, 2) == {}
    assert feed.reconciler.view.invalid == 28
    feed.reconciler.reconsider()
    assert written(feed.reconciler, 3, [quota_key("", "a"), quota_key("", "b")]) == {quota_key("", "b"): None}


def test_an_object_that_became_unreadable_keeps_its_limits():
    feed = Feed()
    feed.node("n")
    feed.quota("a", cpu=700)
    feed.pod("p", quota="a", cpu=900)
    feed.complete()
    key = quota_key("", "a")
    assert written(feed.reconciler, 1)[key].runtime == {"cpu": 700}
    problem = Problem(field="spec.max", message="must be an object")
    broken = state.ElasticQuota(namespace="ns", name="a", uid="uid-a", version=2, problems=[problem])
    feed.put(namespaced_key("elasticquota", "ns", "a"), broken)
    message = written(feed.reconciler, 2)[key]
    assert (message.runtime, message.problems) == ({"cpu": 700}, [problem])
    assert message.revision == 1
    feed.quota("a", cpu=600)
    assert written(feed.reconciler, 3)[key].runtime == {"cpu": 600}


texts = st.text(max_size=12) | st.sampled_from(["a", "b", "true", "false", "", "koordinator-root-quota"])
lists = st.sampled_from(['{"cpu":"1"}', "oops", '{"cpu":-1}', '{"":1}', '["ns"]', "[1]", "[[", '{"cpu":{}}', "null"])
figures = st.dictionaries(st.sampled_from(["cpu", "gpu", ""]), st.integers(-(2**80), 2**80), max_size=3)
wild_quotas = st.builds(
    state.ElasticQuota,
    namespace=texts,
    name=texts,
    uid=texts,
    version=st.integers(0, 9),
    labels=st.dictionaries(
        st.sampled_from(
            [names.LABEL_QUOTA_PARENT, names.LABEL_QUOTA_TREE, names.LABEL_QUOTA_IS_ROOT, names.LABEL_QUOTA_LENDS]
        ),
        texts,
    ),
    annotations=st.dictionaries(
        st.sampled_from(
            [
                names.ANNOTATION_QUOTA_WEIGHT,
                names.ANNOTATION_QUOTA_NAMESPACES,
                names.ANNOTATION_QUOTA_TOTAL,
                names.ANNOTATION_QUOTA_RUNTIME,
            ]
        ),
        lists | texts,
    ),
    min=figures,
    max=figures,
    used=figures,
)


@given(st.lists(wild_quotas, max_size=6))
@settings(max_examples=100, deadline=None)
def test_no_object_stops_the_service(quotas):
    feed = Feed(interval_s=0.0, grace_s=0.0)
    feed.node("n")
    feed.pod("p", quota="a")
    for quota in quotas:
        encoded = msgspec.json.encode(msgspec.to_builtins(quota) | {field: {} for field in ("min", "max", "used")})
        whole = json.loads(encoded) | {"min": quota.min, "max": quota.max, "used": quota.used}
        feed.raw(namespaced_key("elasticquota", quota.namespace, quota.name), json.dumps(whole).encode())
    feed.complete()
    reconciler = feed.reconciler
    reconciler.settle(1.0)
    for patch in reconciler.patches(1.0, 100):
        encode(patch)
    for message in reconciler.writes(1000, ()).values():
        assert message is None or encode(message)
    for announcement in reconciler.announcements(Moment(2.0, 2.0)):
        encode(announcement.message)


def test_what_one_pod_changes_of_many_siblings_is_written_once_a_second() -> None:
    feed = Feed()
    feed.node("n")
    for number in range(30):
        feed.quota(f"g{number}")
        feed.pod(f"p{number}", quota=f"g{number}", cpu=8000)
    feed.complete()
    present = written(feed.reconciler, 1000)
    feed.node("n", cpu=50_000)
    assert written(feed.reconciler, 1500, present) == {}
    feed.quota("g1", cpu=7000)
    assert quota_key("", "g1") in written(feed.reconciler, 1600, present), "its object is another"
    assert len(written(feed.reconciler, 2000, present)) == 29


def test_since_when_a_group_is_over_its_runtime_is_published():
    """Once, under the revision that it has, also by whoever takes over; and that it came back."""
    feed = Feed()
    feed.node("n", cpu=1000)
    feed.quota("a", minimum=1000, cpu=1000)
    feed.quota("b", cpu=1000)
    feed.pod("p", quota="b", cpu=1000, node="n")
    feed.complete()
    first = written(feed.reconciler, 1000)
    assert {message.over_since_ms for message in first.values()} == {0}
    feed.pod("q", quota="a", cpu=600)
    second = written(feed.reconciler, 3000)
    assert second[quota_key("", "b")].runtime == {"cpu": 400}
    assert second[quota_key("", "b")].over_since_ms == 3000
    feed.pod("r", quota="a", cpu=100)
    third = written(feed.reconciler, 5000)
    assert third[quota_key("", "b")].over_since_ms == 3000, "since then"
    feed.reconciler.begin()
    fourth = written(feed.reconciler, 6000)
    assert fourth[quota_key("", "b")].over_since_ms == 3000
    feed.pod("p", quota="b", cpu=300, node="n")
    fifth = written(feed.reconciler, 8000)
    assert fifth[quota_key("", "b")].over_since_ms == 0


def test_where_runtimes_do_not_count_a_group_is_over_its_max():
    feed = Feed(Rules(uses_runtime=False))
    feed.node("n", cpu=1000)
    feed.quota("a", minimum=1000, cpu=1000)
    feed.quota("b", cpu=800)
    feed.pod("p", quota="b", cpu=800, node="n")
    feed.pod("q", quota="a", cpu=1000)
    feed.complete()
    key = quota_key("", "b")
    assert written(feed.reconciler, 1000)[key].over_since_ms == 0
    feed.pod("p", quota="b", cpu=900, node="n")
    assert written(feed.reconciler, 3000)[key].over_since_ms == 3000
    feed.pod("p", quota="b", cpu=700, node="n")
    assert written(feed.reconciler, 5000)[key].over_since_ms == 0
