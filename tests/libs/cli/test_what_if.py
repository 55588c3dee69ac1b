"""What is supposed, from manifests and options, and how the answer is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.cli.commands.what_if import shown
from berth.cli.errors import CliError
from berth.cli.supposed import quotas_of, supposed
from berth.contracts.base import Problem, Reason
from berth.contracts.state import PriorityClass
from berth.contracts.what_if import WhatIfAnswer, WhatIfPod, WhatIfVictim
from berth.rules.admission.views import Views

MANIFESTS = """
apiVersion: v1
kind: Pod
metadata: {name: one, labels: {quota.scheduling.koordinator.sh/name: ml}}
spec:
  schedulerName: berth-scheduler
  priorityClassName: high
  containers: [{name: main, image: i, resources: {limits: {cpu: 100m}}}]
---
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: PodGroup
metadata: {name: train, namespace: team}
spec: {minMember: 2}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  template:
    metadata: {labels: {app: web}}
    spec:
      schedulerName: berth-scheduler
      containers: [{name: main, image: i, resources: {requests: {cpu: 2}}}]
---
apiVersion: batch/v1
kind: Job
metadata: {generateName: sum-}
spec:
  parallelism: 2
  template:
    spec:
      containers: [{name: main, image: i}]
"""
HIGH = Views()
HIGH.priority_classes = {"high": PriorityClass(name="high", version=1, value=1000, preemption_policy="Never")}


def test_manifests_are_read_as_the_watcher_would(tmp_path: Path) -> None:
    found = supposed([_file(tmp_path, MANIFESTS)], None, HIGH)
    one, web, job = found.pods
    assert (one.pod.namespace, one.pod.name, one.count) == ("default", "one", 1)
    template = one.pod.template
    assert (template.priority, template.preemption_policy, template.requests["cpu"]) == (1000, "Never", 100)
    assert (web.pod.name, web.count, web.pod.template.labels) == ("web", 3, {"app": "web"})
    assert (job.pod.name, job.count) == ("sum", 2)
    assert (found.gangs[0].namespace, found.gangs[0].min_member) == ("team", 2)


def _file(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "manifests.yaml"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: Service\nmetadata: {name: s}", "kind: 'Service' is none of Pod, PodGroup"),
        ("kind: Pod\nspec: {}", "metadata: is missing"),
        ("kind: Pod\nmetadata: {name: 7}", "metadata.name: is missing"),
        (f"kind: Pod\nmetadata: {{name: {'n' * (1 << 20)}}}", "metadata.name: has 1048576 characters"),
        (f"kind: {'K' * (1 << 20)}\nmetadata: {{name: n}}", "kind: 'KKK"),
        ("kind: Pod\nmetadata: {name: p, labels: [1]}", "metadata.labels: Expected `object | null`, got `array`"),
        ("kind: Pod\nmetadata: {name: p}\nspec: [1]", "spec: is no object"),
        ("kind: Job\nmetadata: {name: p}\nspec: {parallelism: .nan, template: {}}", "spec.parallelism: 'nan' is no"),
        ("kind: Deployment\nmetadata: {name: p}\nspec: {replicas: 1000000}", "spec.replicas: '1000000' is no number"),
        ("kind: Deployment\nmetadata: {name: p}\nspec: {template: 3}", "spec.template: is no object"),
        ("kind: Pod\nmetadata: {name: p}\nspec: {priorityClassName: none}", "spec.priorityClassName: there is no"),
        ("a: &a [1]\nb: [*a, *b", "-f "),
        ("[1, 2]", "is no object"),
        ("", "there is no manifest in it"),
    ],
)
def test_what_cannot_be_supposed_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(CliError) as caught:
        supposed([_file(tmp_path, text)], None, HIGH)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_quotas_are_read() -> None:
    (ml,) = quotas_of(["ml=max.cpu=200,min.cpu=1500m", "ml=max.koordinator.sh/gpu-core=300"])
    assert (ml.name, ml.max, ml.min) == ("ml", {"cpu": 200_000, "koordinator.sh/gpu-core": 300}, {"cpu": 1500})


@pytest.mark.parametrize(
    "text",
    [
        "ml",
        "=max.cpu=1",
        "ml=cpu=1",
        "ml=max.cpu=nan",
        "ml=max.cpu=inf",
        "ml=max.cpu=-1",
        "ml=max.cpu",
        "ml=max.=1",
        "m" * (1 << 20) + "=max.cpu=1",
        "ml=max." + "r" * (1 << 20) + "=1",
    ],
)
def test_a_quota_that_cannot_be_read_is_named(text: str) -> None:
    with pytest.raises(CliError, match=r"^--quota") as caught:
        quotas_of([text])
    assert len(str(caught.value)) < 200


def test_an_answer_is_a_table() -> None:
    reason = Reason(code="NodeResourcesFit", message="Insufficient cpu", nodes=2, repair="ask for less")
    answer = WhatIfAnswer(
        outcome="answered",
        at={"ledger": 7, "pods": 9},
        pods=[
            WhatIfPod(name="d/a", origin="asked", outcome="placed", node="n1", quota="/ml", victims=["d/old"]),
            WhatIfPod(name="d/b", origin="asked", outcome="refused", reasons=[reason]),
            WhatIfPod(name="d/c", origin="moved", outcome="refused", reasons=[reason]),
        ],
        victims=[WhatIfVictim(name="d/old", node="n1", beneficiaries=["d/a"])],
        rounds=3,
        took_ms=12,
        solver="s1",
        is_cut_off=True,
    )
    text = "\n".join(shown(answer, 100))
    for each in (
        "as of ledger 7, pods 9",
        "cut off",
        "n1  quota ml, after 1 left",
        "d/b, d/c: on 2 nodes: Insufficient cpu",
        "ask for less",
        "d/old",
    ):
        assert each in text


def test_a_question_that_is_refused_says_what_is_wrong() -> None:
    answer = WhatIfAnswer(outcome="refused", problems=[Problem(field="without_nodes[0]", message="there is no node x")])
    assert shown(answer, 100) == ["refused  without_nodes[0]: there is no node x"]
