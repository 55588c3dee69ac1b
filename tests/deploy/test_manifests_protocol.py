"""The policy of the protocol, in force on a real API server: what contradicts it is refused, whoever is away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from tests.deploy.manifests import Json
from tests.deploy.real_api import PODS, call

from berth.contracts import names
from berth.testing.kube_server import KubeServer

pytestmark = pytest.mark.e2e

BATCH = {"kubernetes.io/batch-cpu": "1k", "kubernetes.io/batch-memory": "1Gi"}
PROD, MID, BATCH_CLASS, FREE = "koord-prod", "koord-mid", "koord-batch", "koord-free"
QOS, CLASS = names.LABEL_QOS, names.LABEL_PRIORITY_CLASS


def pod(
    name: str,
    qos: str = "",
    class_: str = "",
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    requests: Sequence[Mapping[str, str]] = ({"cpu": "1", "memory": "1Gi"},),
    init: Sequence[Json] = (),
    **spec: object,
) -> Json:
    marks = {QOS: qos, CLASS: class_}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {**{key: text for key, text in marks.items() if text}, **(labels or {})},
            "annotations": dict(annotations or {}),
        },
        "spec": {
            "containers": [
                {"name": f"c{number}", "image": "i", "resources": {"requests": each, "limits": each}}
                for number, each in enumerate(requests)
            ],
            "initContainers": list(init),
            **spec,
        },
    }


COMBINED = "cannot be used in combination"
INTEGER = "must be integer"
REFUSED: dict[str, tuple[Json, str]] = {
    "BE and prod": (pod("x", "BE", PROD), f"{QOS}=BE and priorityClass={PROD} {COMBINED}"),
    "BE and no class": (pod("x", "BE"), COMBINED),
    "BE and a class that nobody knows": (pod("x", "BE", "gold"), COMBINED),
    "LSR and mid": (pod("x", "LSR", MID), COMBINED),
    "LSR and batch": (pod("x", "LSR", BATCH_CLASS), COMBINED),
    "LSR and free": (pod("x", "LSR", FREE), COMBINED),
    "LSR and no class": (pod("x", "LSR"), COMBINED),
    "the class by its number": (pod("x", "BE", priorityClassName=PROD), COMBINED),
    "half a core of LSR": (pod("x", "LSR", PROD, requests=[{"cpu": "1500m"}]), f"LSR Pod {INTEGER}"),
    "no core of LSE": (pod("x", "LSE", requests=[{"memory": "1Gi"}]), f"LSE Pod {INTEGER}"),
    "a sidecar's half": (
        pod(
            "x",
            "LSR",
            PROD,
            init=[{"name": "s", "image": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}}],
        ),
        INTEGER,
    ),
    "batch without BE": (pod("x", "LS", BATCH_CLASS, requests=[BATCH]), "must specify koordinator QoS BE"),
    "batch without a label": (pod("x", requests=[BATCH]), "must specify koordinator QoS BE"),
    "batch of an init container": (
        pod("x", init=[{"name": "s", "image": "i", "resources": {"requests": BATCH, "limits": BATCH}}]),
        "must specify koordinator QoS BE",
    ),
    "a pod that says it is a Reservation": (
        pod("x", annotations={"scheduling.koordinator.sh/reserve-pod": "true"}),
        "reserve-pod",
    ),
}
TAKEN: dict[str, Json] = {
    "nothing said": pod("x"),
    "BE and batch": pod("x", "BE", BATCH_CLASS, requests=[BATCH]),
    "BE and mid": pod("x", "BE", MID),
    "BE and free": pod("x", "BE", FREE),
    "LSR and prod": pod("x", "LSR", PROD),
    "halves that are a whole": pod("x", "LSR", PROD, requests=[{"cpu": "500m"}, {"cpu": "1500m"}]),
    "LSE and mid": pod("x", "LSE", MID),
    "SYSTEM": pod("x", "SYSTEM"),
    "a quality that nobody knows": pod("x", "GOLD", BATCH_CLASS),
    "the class by its number": pod("x", "BE", priorityClassName=BATCH_CLASS),
    "no batch at all": pod("x", requests=[{"kubernetes.io/batch-cpu": "0"}]),
}


@pytest.fixture
def classes(api: KubeServer) -> None:
    for name, value in ((PROD, 9000), (MID, 7000), (BATCH_CLASS, 5000), (FREE, 3000)):
        made = {"metadata": {"name": name}, "value": value}
        answer = call(api, "POST", "/apis/scheduling.k8s.io/v1/priorityclasses", made)
        assert answer.status in (201, 409), answer


def test_what_contradicts_the_protocol_is_refused(api: KubeServer, classes: None) -> None:
    for what, (body, text) in REFUSED.items():
        refused = call(api, "POST", f"{PODS}?dryRun=All", body)
        assert refused.status == 422, (what, refused)
        assert text in refused.body["message"], what


def test_the_rest_is_taken(api: KubeServer, classes: None) -> None:
    for what, body in TAKEN.items():
        answer = call(api, "POST", f"{PODS}?dryRun=All", body)
        assert answer.status == 201, (what, answer)


def change(api: KubeServer, name: str, key: str, value: str | None) -> int:
    return call(api, "PATCH", f"{PODS}/{name}", {"metadata": {"labels": {key: value}}}).status


def test_classes_stay_and_a_sub_priority_may_be_lowered(api: KubeServer) -> None:
    labels = {names.LABEL_PRIORITY: "100", names.LABEL_QUOTA_PREEMPTIBLE: "false"}
    assert call(api, "POST", PODS, pod("stays", "LS", PROD, labels=labels)).status == 201
    for key, value in (
        (QOS, "BE"),
        (QOS, None),
        (CLASS, MID),
        (CLASS, None),
        (names.LABEL_PRIORITY, "101"),
        (names.LABEL_PRIORITY, None),
        (names.LABEL_PRIORITY, "high"),
        (names.LABEL_QUOTA_PREEMPTIBLE, "true"),
        (names.LABEL_QUOTA_PREEMPTIBLE, None),
    ):
        assert change(api, "stays", key, value) == 422, (key, value)
    assert change(api, "stays", names.LABEL_PRIORITY, "99") == 200
    assert change(api, "stays", "app", "other") == 200
    call(api, "DELETE", f"{PODS}/stays?gracePeriodSeconds=0")


def test_an_unmarked_pod_gets_no_marks_afterwards(api: KubeServer) -> None:
    assert call(api, "POST", PODS, pod("plain")).status == 201
    assert change(api, "plain", QOS, "BE") == 422
    assert change(api, "plain", QOS, "GOLD") == 200
    call(api, "DELETE", f"{PODS}/plain?gracePeriodSeconds=0")


def test_cores_stay_whole_when_a_pod_is_resized(api: KubeServer) -> None:
    assert call(api, "POST", PODS, pod("whole", "LSR", PROD)).status == 201

    def resize(cpu: str) -> tuple[int, str]:
        amounts = {"cpu": cpu, "memory": "1Gi"}
        body = {
            "spec": {
                "containers": [
                    {"name": "c0", "image": "i", "resources": dict.fromkeys(("requests", "limits"), amounts)}
                ]
            }
        }
        answer = call(api, "PATCH", f"{PODS}/whole/resize", body)
        return answer.status, answer.body.get("message", "")

    status, text = resize("1500m")
    assert (status, INTEGER in text) == (422, True), text
    assert resize("2")[0] == 200
    call(api, "DELETE", f"{PODS}/whole?gracePeriodSeconds=0")


def test_a_pod_that_was_let_in_before_may_still_be_let_go(api: KubeServer) -> None:
    """Its finalizer is taken off, whatever it says: a policy that came later must not keep it for ever."""
    paths = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
    body = call(api, "GET", f"{paths}/berth-protocol").body
    assert body["spec"]["validationActions"] == ["Deny"]
    made = pod("held", "LS", PROD, annotations={"example.org/x": "y"})
    made["metadata"]["finalizers"] = ["example.org/kept"]
    assert call(api, "POST", PODS, made).status == 201
    call(api, "DELETE", f"{PODS}/held?gracePeriodSeconds=0")
    assert call(api, "PATCH", f"{PODS}/held", {"metadata": {"finalizers": None}}).status == 200
