"""What messages of STATE mean."""

import msgspec
import pytest

from berth.contracts import names, state
from berth.contracts.base import Problem
from berth.contracts.codec import decode, encode
from berth.contracts.quota import QuotaRules
from berth.quota_manager.core.book import ClassKey
from berth.quota_manager.core.forest import build
from berth.quota_manager.core.objects import NodeView, PodView, read_pod, read_quota
from berth.resources.quantity import AMOUNT_MAX


def pod(**fields):
    labels = fields.pop("labels", {})
    template = state.PodTemplate(requests=fields.pop("requests", {"cpu": 100}), labels=labels)
    whole = state.Pod(namespace="ns", name="p", uid="u", version=1, template=template, **fields)
    return decode(encode(whole), PodView)


def test_a_pod_is_read_from_the_full_message():
    key, claim = read_pod(pod(requests={"memory": 5, "cpu": 100, "x": 0}, node="n"))
    assert key == ClassKey("", "ns")
    assert claim.amounts == (("cpu", 100), ("memory", 5))
    assert claim.is_assigned
    assert not claim.is_non_preemptible


def test_labels_name_the_group_and_forbid_preemption():
    labels = {names.LABEL_QUOTA_NAME: "team", names.LABEL_QUOTA_PREEMPTIBLE: "false", "other": "x"}
    key, claim = read_pod(pod(labels=labels))
    assert key == ClassKey("team")
    assert claim.is_non_preemptible
    assert not claim.is_assigned
    assert not read_pod(pod(labels=labels | {names.LABEL_QUOTA_PREEMPTIBLE: "False"}))[1].is_non_preemptible


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_counts_for_nothing(phase):
    assert read_pod(pod(phase=phase, node="n")) is None


def test_a_terminating_pod_counts_until_it_is_gone_unless_told_otherwise():
    assert read_pod(pod(deleting=True)) is not None
    assert read_pod(pod(deleting=True), QuotaRules(ignores_terminating=True)) is None


def test_who_paid_at_the_bind_is_read_of_bound_pods_and_overhead_is_charged_unless_told_otherwise():
    template = state.PodTemplate(
        requests={"cpu": 100}, overhead={"cpu": 30}, annotations={names.ANNOTATION_QUOTA: "tree/team"}
    )
    seen = state.Pod(namespace="ns", name="p", uid="u", version=1, template=template, node="n")
    view = decode(encode(seen), PodView)
    key, claim = read_pod(view)
    assert (key, claim.amounts) == (ClassKey("", "ns", "team"), (("cpu", 100),))
    assert read_pod(view, QuotaRules(ignores_overhead=True))[1].amounts == (("cpu", 70),)
    unbound = decode(encode(msgspec.structs.replace(seen, node="")), PodView)
    assert read_pod(unbound)[0] == ClassKey("", "ns")


def test_absurd_requests_are_held():
    _, claim = read_pod(pod(requests={"cpu": -5, "memory": 2**63 + 5}))
    assert claim.amounts == (("memory", AMOUNT_MAX),)


def test_a_node_is_read_from_the_full_message():
    whole = state.Node(name="n", uid="u", version=1, allocatable={"cpu": 4000}, ready=True, labels={"a": "b"})
    assert decode(encode(whole), NodeView).allocatable == {"cpu": 4000}


def quota(**fields):
    return state.ElasticQuota(namespace="ns", name="q", uid="u", version=1, **fields)


def test_a_quota_is_read():
    spec = read_quota(
        quota(
            labels={
                names.LABEL_QUOTA_PARENT: "p",
                names.LABEL_QUOTA_IS_PARENT: "true",
                names.LABEL_QUOTA_TREE: "t",
                names.LABEL_QUOTA_LENDS: "no",
                names.LABEL_QUOTA_IS_ROOT: "true",
            },
            annotations={
                names.ANNOTATION_QUOTA_WEIGHT: '{"cpu":"500m","memory":1024}',
                names.ANNOTATION_QUOTA_NAMESPACES: '["a","b"]',
                names.ANNOTATION_QUOTA_TOTAL: '{"cpu":"9","memory":"1Gi"}',
            },
            min={"cpu": 1},
            max={"cpu": 2},
        )
    )
    assert (spec.parent, spec.tree, spec.is_parent, spec.is_root) == ("p", "t", True, True)
    assert spec.lends, 'only "false" switches lending off'
    assert spec.weight == {"cpu": 500, "memory": 1024}
    assert spec.total == {"cpu": 9000, "memory": 2**30}
    assert spec.namespaces == ("a", "b")
    assert spec.problems == ()


@pytest.mark.parametrize("text", ["oops", "[1]", '{"cpu":"x"}', '{"cpu":-1}', '{"cpu":1e999}', "[" * 99_999, "\ud800"])
def test_an_unreadable_weight_is_named_and_the_max_used(text):
    spec = read_quota(quota(annotations={names.ANNOTATION_QUOTA_WEIGHT: text}, max={"cpu": 7}))
    assert spec.weight is None
    assert [field.partition("[quota")[0] for field, _ in spec.problems] == ["metadata.annotations"]
    assert build([spec]).groups["q"].weight == {"cpu": 7}


def test_all_zero_weights_count_as_not_given():
    annotations = {names.ANNOTATION_QUOTA_WEIGHT: '{"cpu":0,"memory":"0"}'}
    spec = read_quota(quota(annotations=annotations, max={"cpu": 96, "memory": 1000, "pods": 1000}))
    assert build([spec]).groups["q"].weight == {"cpu": 96, "memory": 1000, "pods": 1000}


def test_a_max_that_cannot_be_read_is_no_free_pass():
    problems = [
        Problem(field="spec.max[cpu]", message="'x' is not a quantity"),
        Problem(field="spec.max[memory]", message="is too large (at most 2**63 - 1)"),
        Problem(field="spec.min[cpu]", message="must not be negative"),
    ]
    spec = read_quota(quota(max={"gpu": 4}, problems=problems))
    assert spec.max == {"gpu": 4, "cpu": 0, "memory": AMOUNT_MAX}
    assert len(spec.problems) == 3


def test_pod_view_ignores_what_it_does_not_name():
    whole = msgspec.json.decode(
        encode(state.Pod(namespace="ns", name="p", uid="u", version=1, template=state.PodTemplate()))
    )
    whole["new_field"] = {"deep": [1]}
    assert decode(msgspec.json.encode(whole), PodView).namespace == "ns"
