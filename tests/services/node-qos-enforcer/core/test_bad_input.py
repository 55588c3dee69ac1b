"""What users wrote wrongly is named, and the rest goes on: in a specification, and in annotations of one pod."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
from tests.services.node_qos_all_on import COMPONENTS, PODS, snapshot_at, spec_of

from berth.contracts import names
from berth.node_qos_enforcer.core.compose import compose
from berth.node_qos_enforcer.core.strategies.batch_limits import BATCH_LIMITS
from berth.node_qos_enforcer.core.strategies.knobs import KNOBS, SCHEMATA, TASKS, THREADS
from berth.node_qos_enforcer.core.strategies.registry import STRATEGIES
from berth.node_qos_enforcer.core.strategies.round import Answer, Round
from berth.node_qos_enforcer.core.strategies.seam import Pod, Ref, Wanted

MIB = 1 << 20
FOUND = {
    Ref("fs/resctrl", SCHEMATA): "L3:0=fff\nMB:0=100",
    Ref("fs/resctrl/info/L3", "resctrl.cbm_mask"): "fff",
    Ref("kubepods/burstable/podn/c", THREADS): "7",
    Ref("fs/resctrl/LS", TASKS): "",
}


def answer(spec: Any, pods: tuple[Pod, ...] = PODS, version: int = 2) -> Answer:
    """One round. What is wanted can be put together."""
    rounds, snapshot = Round(STRATEGIES, COMPONENTS), snapshot_at(0.0, version)._replace(pods=pods, found=FOUND)
    tuple(rounds.reads(snapshot, spec))
    found = rounds.decide(snapshot, spec)
    composed = compose(snapshot, wanted_of(found))
    assert all(ref.knob in KNOBS for ref in (*composed.values, *composed.kept))
    return found


def wanted_of(found: Answer) -> list[Wanted]:
    return [each for part in found.parts for each in part]


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from leaves(each, (*path, key))
    elif not isinstance(value, list):
        yield path


def put(spec: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = json.loads(json.dumps(spec))
    where = changed
    for step in path[:-1]:
        where = where[step]
    where[path[-1]] = value
    return changed


@pytest.mark.parametrize("value", [math.nan, "NaN", 1e308, []], ids=str)
def test_one_bad_value_of_a_specification_stops_no_other_strategy(value: Any) -> None:
    """At any place of it. Who fails by it says so by name, and keeps what it wanted."""
    spec = spec_of(1)
    sound = {each.name for each in answer(spec, version=1).standings if each.wanted}
    for path in leaves(spec):
        found = answer(put(spec, path, value), version=1)
        wants = {each.name for each in found.standings if each.wanted}
        assert len(sound - wants) <= 3, (path, sound - wants)
        assert all(len(each.field) <= 300 and len(each.message) <= 300 for each in found.reports), path


ANNOTATIONS = {
    names.ANNOTATION_OOM_SCORE,
    names.ANNOTATION_OOM_SCORES,
    names.ANNOTATION_RESCTRL,
    names.ANNOTATION_BLKIO_QOS,
    names.ANNOTATION_CPU_QOS,
    names.ANNOTATION_NETWORK_QOS,
    names.ANNOTATION_EXTENDED_RESOURCE_SPEC,
}


@pytest.mark.parametrize("text", ["x" * MIB, "[" * 100_000, "NaN", '{"a": 1e999}'], ids=["1 MiB", "deep", "NaN", "inf"])
@pytest.mark.parametrize("name", sorted(ANNOTATIONS))
def test_a_bad_annotation_concerns_its_own_pod_alone(name: str, text: str) -> None:
    sound = answer(spec_of(1), version=1)
    of_ls, of_be = PODS
    bad = of_be if name == names.ANNOTATION_EXTENDED_RESOURCE_SPEC else of_ls
    worse = bad._replace(annotations={**bad.annotations, name: text})
    found = answer(spec_of(1), (worse, of_be) if bad is of_ls else (of_ls, worse), version=1)
    named = [each for each in found.reports if each.field.startswith(f"{bad.key}.")]
    assert named or text.startswith("{"), "an object without anything that is known asks for nothing"
    assert all(len(each.field) + len(each.message) <= 700 for each in named)
    own = (f"pod{bad.uid}", f"koordlet-{bad.uid}")
    others = {
        each for each in wanted_of(sound) if not each.group.isdigit() and not any(name in each.group for name in own)
    }
    sums = {"kubepods", "kubepods/burstable", "kubepods/besteffort", "var/lib/terway/qos"}
    assert {each for each in others if each.group not in sums} <= set(wanted_of(found))


def test_a_best_effort_pod_that_kubelet_put_elsewhere_is_named() -> None:
    [_, of_be] = PODS
    astray = of_be._replace(kube_qos="Burstable")
    found = BATCH_LIMITS.decide(snapshot_at(0.0, 2)._replace(pods=(astray,)), spec_of(2), None)
    assert [(each.field, each.message) for each in found.reports] == [
        (
            "pods[d/P].metadata.labels",
            "is of class BE, but kubelet has put it among Burstable pods: nothing holds it back",
        )
    ]
    assert found.wanted, "its own limits hold all the same"
