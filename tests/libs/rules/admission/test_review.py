"""The way in: bytes, doors, gates, and what users may write."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.libs.rules.admission.cluster import ask, container, mutated, pod, profile, rules_of, views

from berth.contracts import names
from berth.contracts.base import Problem
from berth.rules.admission import gates as g
from berth.rules.admission.registry import DOORS
from berth.rules.admission.required_labels import read_required_labels
from berth.rules.admission.review import review
from berth.rules.admission.seam import Answer
from berth.rules.admission.wire import BYTES_MAX, read_review, write_answer

ALL = frozenset(g.DEFAULTS)
ON_NODES = g.DEFAULT | {g.NODE_MUTATING, g.NODE_VALIDATING}
BATCH = {"qosClass": "BE", "priorityClassName": "koord-batch"}
RATIO, RAW = names.ANNOTATION_AMPLIFICATION_RATIO, names.ANNOTATION_RAW_ALLOCATABLE


def body(item: Any, **more: Any) -> bytes:
    asked = {"uid": "u", "operation": "CREATE", "namespace": "d", "object": item} | more
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked})


def answered(data: bytes) -> dict[str, Any]:
    response: dict[str, Any] = json.loads(data)["response"]
    return response


def test_an_answer_is_a_review() -> None:
    known = views(profile("a", BATCH))
    request = read_review(body(pod(container(requests={"cpu": "1"}))))
    assert not isinstance(request, Problem)
    response = answered(write_answer(request.uid, review("/mutate-pod", request, known)))
    assert (response["uid"], response["allowed"], response["patchType"]) == ("u", True, "JSONPatch")
    operations = json.loads(base64.b64decode(response["patch"]))
    assert {"op": "add", "path": "/spec/priority", "value": 5000} in operations


def test_a_refusal_names_each_rule_for_machines() -> None:
    item = pod(container(requests={"kubernetes.io/batch-cpu": "1"}), labels={names.LABEL_QOS: "LSR"}, priority=7500)
    response = answered(write_answer("u", ask("/validate-pod", item, views())))
    assert response["allowed"] is False
    reasons = [cause["reason"] for cause in response["status"]["details"]["causes"]]
    assert reasons == ["batchRequiresBE", "qosPriorityConflict", "cpuRequired"]
    assert "must specify koordinator QoS BE" in response["status"]["message"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b'{"request": {}}',
        b'{"request": {"uid": "u", "operation": "CREATE", "object": {"a": NaN}}}',
        b'{"request": {"uid": "u", "operation": "CREATE", "object": ' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}}",
        b'{"request": {"uid": "\xff", "operation": "CREATE"}}',
        b" " * (BYTES_MAX + 1),
    ],
)
def test_what_is_no_review_is_a_problem(data: bytes) -> None:
    assert isinstance(read_review(data), Problem)


@pytest.mark.parametrize("path", [*DOORS, "/nowhere"])
def test_a_door_whose_gate_is_off_admits_everything(path: str) -> None:
    item = pod(container(requests={"kubernetes.io/batch-cpu": "1"}))
    assert ask(path, item, views(profile("a", BATCH)), gates=frozenset()) == Answer()


def test_gates_are_read_by_name() -> None:
    on, problems = g.read_gates("MultiQuotaTree=true, PodMutatingWebhook=False,Nope=true,EnableQuotaAdmission=maybe")
    assert on == (g.DEFAULT | {g.QUOTA_TREES}) - {g.POD_MUTATING}
    assert [problem.field for problem in problems] == ["Nope", "EnableQuotaAdmission"]
    assert g.read_gates("") == (g.DEFAULT, [])


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.sampled_from(["", "x", "NaN", "-1", "1e999", "cpu"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                (
                    *("metadata", "spec", "status", "labels", "annotations", "containers", "resources", "requests"),
                    *("limits", "cpu", "memory", "koordinator.sh/gpu", "min", "max", "data", "template", "allocatable"),
                    *(names.LABEL_QOS, names.ANNOTATION_PROFILES, names.ANNOTATION_QUOTA_WEIGHT),
                    *(RATIO, RAW, "resource-qos-config", "priority"),
                )
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    st.sampled_from(sorted(DOORS)),
    st.sampled_from(["CREATE", "UPDATE", "DELETE", "CONNECT"]),
    st.dictionaries(st.sampled_from(["metadata", "spec", "status", "data"]), JUNK),
    st.dictionaries(st.sampled_from(["metadata", "spec", "status", "data"]), JUNK),
)
def test_no_object_raises(path: str, operation: str, item: dict[str, Any], old: dict[str, Any]) -> None:
    known = views(profile("a", {**BATCH, "labelSuffixes": {"x": "y"}, "patch": {"spec": {"containers": []}}}))
    answer = ask(path, item, known, old=old, gates=ALL, operation=operation)
    json.loads(write_answer("u", answer))


LARGE = "x" * (1 << 20)
DEEP = "[" * 5000 + "]" * 5000


@pytest.mark.parametrize("text", [LARGE, DEEP, "{", '{"cpu": NaN}', '{"cpu": 1e999}', "null", "[]"])
@pytest.mark.parametrize("name", [RATIO, RAW])
def test_a_heartbeat_passes_with_a_broken_note(name: str, text: str) -> None:
    notes = {RATIO: '{"cpu": 1.5}', RAW: '{"cpu": "8"}'} | {name: text}
    item = {"metadata": {"name": "n", "annotations": notes}, "status": {"allocatable": {"cpu": "12"}}}
    answer = ask("/mutate-node-status", item, views(), old=item, gates=ON_NODES)
    assert answer.is_allowed
    assert [each["path"] for each in answer.patch] in (
        [],
        ["/metadata/annotations/node.koordinator.sh~1raw-allocatable"],
    )
    assert all(name in problem.field for problem in answer.problems)


def node(cpu: str, **annotations: str) -> dict[str, Any]:
    told = {name.replace("_", "-"): text for name, text in annotations.items()}
    notes = {RATIO: told["ratio"]} if "ratio" in told else {}
    return {
        "metadata": {"name": "n", "annotations": notes | ({RAW: told["raw"]} if "raw" in told else {})},
        "status": {"allocatable": {"cpu": cpu, "pods": "110"}},
    }


def test_a_node_is_amplified_once() -> None:
    known, ratio = views(), '{"cpu": 1.5}'
    first = mutated(node("8", ratio=ratio), known, "/mutate-node-status", old=node("8"), gates=ON_NODES)
    assert first["status"]["allocatable"] == {"cpu": "12", "pods": "110"}
    assert json.loads(first["metadata"]["annotations"][RAW]) == {"cpu": "8"}
    assert mutated(first, known, "/mutate-node-status", old=first, gates=ON_NODES) == first
    anew = mutated(node("10", ratio=ratio, raw='{"cpu":"8"}'), known, "/mutate-node-status", old=first, gates=ON_NODES)
    assert anew["status"]["allocatable"]["cpu"] == "15"
    plain = mutated(node("8", raw='{"cpu":"8"}'), known, "/mutate-node-status", old=first, gates=ON_NODES)
    assert plain == node("8")


def test_what_a_change_does_not_touch_is_not_refused() -> None:
    bad = pod(container(requests={"cpu": "1500m"}), labels={names.LABEL_QOS: "LSR"}, priority=9500)
    assert rules_of(ask("/validate-pod", bad, views())) == ["cpuNotInteger"]
    without_finalizer = {**bad, "metadata": {**bad["metadata"], "finalizers": []}}
    assert ask("/validate-pod", without_finalizer, views(), old=bad).is_allowed
    good = pod(container(requests={"cpu": "2"}), labels={names.LABEL_QOS: "LSR"}, priority=9500)
    assert rules_of(ask("/validate-pod", bad, views(), old=good, sub_resource="resize")) == ["cpuNotInteger"]


def test_a_sub_priority_may_fall() -> None:
    def at(number: str) -> dict[str, Any]:
        return pod(container(), labels={names.LABEL_PRIORITY: number})

    assert ask("/validate-pod", at("5"), views(), old=at("9")).is_allowed
    assert rules_of(ask("/validate-pod", at("9"), views(), old=at("5"))) == ["priorityImmutable"]
    assert ask("/validate-pod", at("9"), views(), old=at("5"), gates=g.DEFAULT | {g.FREE_SUB_PRIORITY}).is_allowed


def test_the_mark_of_a_reserve_pod_is_the_systems() -> None:
    item = pod(container())
    item["metadata"]["annotations"] = {names.ANNOTATION_RESERVE_POD: "true"}
    assert rules_of(ask("/validate-pod", item, views())) == ["forbiddenAnnotation"]


def test_a_users_resource_spec_is_written_over() -> None:
    note = names.ANNOTATION_EXTENDED_RESOURCE_SPEC
    item = pod(container(requests={"kubernetes.io/batch-cpu": "500"}))
    item["metadata"]["annotations"] = {note: '{"containers":{}}'}
    stored = mutated(item, views())
    assert json.loads(stored["metadata"]["annotations"][note]) == {
        "containers": {"main": {"requests": {"kubernetes.io/batch-cpu": "500"}}}
    }
    native = pod(container(requests={"cpu": "1"}))
    native["metadata"]["annotations"] = {note: "x"}
    assert note not in mutated(native, views())["metadata"]["annotations"]
    bad = ask("/mutate-pod", pod(container(requests={"kubernetes.io/batch-cpu": "-1"})), views())
    assert [each.field for each in bad.problems] == ["spec.containers[0].resources.requests[kubernetes.io/batch-cpu]"]


def test_the_resource_spec_of_a_bound_pod_is_the_binds() -> None:
    note = names.ANNOTATION_EXTENDED_RESOURCE_SPEC
    old = pod(container(requests={"kubernetes.io/batch-cpu": "500"}))
    old["spec"]["nodeName"] = "n"
    for written in ("as bound", None):
        old["metadata"]["annotations"] = {note: written} if written else {}
        forged = copy.deepcopy(old)
        forged["metadata"]["annotations"] = {
            note: '{"containers":{"main":{"limits":{"kubernetes.io/batch-cpu":"64k"}}}}'
        }
        assert mutated(forged, views(), old=old)["metadata"]["annotations"].get(note) == written


def test_labels_that_a_cluster_requires() -> None:
    rules = [{"name": "owner", "requiredLabels": ["team"], "namespaceWhitelist": ["free"]}]
    required, problem = read_required_labels({"enable": "true", "rules": json.dumps(rules)})
    assert problem is None
    known, on = views(required_labels=required), g.DEFAULT | {g.REQUIRES_LABELS}
    assert rules_of(ask("/validate-pod", pod(container()), known, gates=on)) == ["requiredLabel"]
    assert ask("/validate-pod", pod(container()), known).is_allowed
    assert ask("/validate-pod", pod(container()), known, gates=on, namespace="free").is_allowed
    skipping = pod(container(), labels={names.LABEL_SKIP_REQUIRED_LABELS: "true"})
    assert ask("/validate-pod", skipping, known, gates=on).is_allowed
    assert read_required_labels({"enable": "false", "rules": "["})[1] is None
    broken = read_required_labels({"enable": "true", "rules": "["})
    assert broken[1] is not None
    assert broken[1].field == "data[rules]"


def test_devices_are_expanded_and_judged() -> None:
    item = pod(container(requests={"koordinator.sh/gpu": "200"}, limits={"koordinator.sh/gpu": "200"}))
    stored = mutated(item, views())
    wanted = {
        "koordinator.sh/gpu-core": "200",
        "koordinator.sh/gpu-memory-ratio": "200",
        "koordinator.sh/gpu.shared": "2",
    }
    assert stored["spec"]["containers"][0]["resources"] == {"requests": wanted, "limits": wanted}
    assert mutated(stored, views()) == stored
    assert mutated(item, views(), gates=g.DEFAULT | {g.KEEPS_DEVICES}) == item
    zero = pod(container(requests={"koordinator.sh/gpu": "0"}))
    assert rules_of(ask("/validate-pod", zero, views(), gates=g.DEFAULT | {g.CHECKS_DEVICES})) == ["gpuZero"]
    assert ask("/validate-pod", zero, views()).is_allowed
