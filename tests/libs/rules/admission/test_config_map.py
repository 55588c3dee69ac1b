"""The ConfigMap of strategies, and labels of nodes."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from tests.libs.rules.admission.cluster import Json, ask, rules_of, views

from berth.contracts.kube import LabelSelector
from berth.rules.admission import gates as g
from berth.rules.admission.node_selectors import Named, NodeSelectors, overlapping
from berth.rules.admission.seam import Answer

ON = g.DEFAULT | {g.CONFIG_MAP_VALIDATING, g.NODE_VALIDATING}
NODES = [("n1", {"pool": "a", "gpu": "yes"}), ("n2", {"pool": "b"})]


def config(**data: Any) -> Json:
    texts = {
        f"{key.replace('_', '-')}-config": each if isinstance(each, str) else json.dumps(each)
        for key, each in data.items()
    }
    return {"metadata": {"name": "slo-controller-config"}, "data": texts}


def judged(item: Json, old: Json | None = None, **more: Any) -> Answer:
    known = views(nodes=lambda: NODES, **more)
    return ask("/validate-configmap", item, known, old=old, gates=ON, name="slo-controller-config")


def strategies(*selectors: Json, **more: Any) -> Json:
    return {"nodeStrategies": [{"name": f"s{at}", "nodeSelector": each, **more} for at, each in enumerate(selectors)]}


def test_all_keys_are_judged_at_once() -> None:
    item = config(
        resource_threshold={"clusterStrategy": {"cpuSuppressThresholdPercent": 101}},
        resource_qos="{",
        colocation={"cpuReclaimThresholdPercent": -1},
        host_application={"applications": [{"name": 5}]},
    )
    answer = judged(item)
    assert {each.field.split("]")[0][5:]: each.rule for each in answer.refusals} == {
        "resource-threshold-config": "ConfigParamInvalid",
        "resource-qos-config": "ParseConfigFail",
        "colocation-config": "ConfigParamInvalid",
        "host-application-config": "ConfigParamInvalid",
    }
    assert json.loads(answer.message)["reason"] == answer.refusals[0].rule
    assert judged(item, old=item).is_allowed


@pytest.mark.parametrize("text", ["[" * 5000, "[]", "null", '{"clusterStrategy": NaN}', "x" * (1 << 20)])
def test_texts_that_are_none_are_named(text: str) -> None:
    assert rules_of(judged(config(resource_qos=text))) == ["ParseConfigFail"]


def test_selectors_of_strategies() -> None:
    same = strategies({"matchLabels": {"pool": "a"}}, {"matchExpressions": [{"key": "pool", "operator": "Exists"}]})
    assert rules_of(judged(config(cpu_burst=same))) == ["NodeStrategiesOverlap", "ExistNodeConfict"]
    on_a_node = strategies({"matchLabels": {"pool": "a"}}, {"matchLabels": {"gpu": "yes"}})
    answer = judged(config(cpu_burst=on_a_node))
    assert rules_of(answer) == ["ExistNodeConfict"]
    assert "n1 (s0, s1)" in answer.message
    apart = strategies({"matchLabels": {"pool": "a"}}, {"matchLabels": {"pool": "b"}})
    assert judged(config(cpu_burst=apart)).is_allowed
    assert rules_of(judged(config(cpu_burst=strategies({})))) == ["ConfigParamInvalid"]
    bad = strategies({"matchExpressions": [{"key": "pool", "operator": "Near"}]})
    assert rules_of(judged(config(cpu_burst=bad))) == ["ConfigParamInvalid"]


def test_names_are_asked_for_on_demand() -> None:
    twice = strategies({"matchLabels": {"pool": "a"}}, {"matchLabels": {"pool": "b"}})
    for each in twice["nodeStrategies"]:
        each["name"] = "same"
    assert judged(config(cpu_burst=twice)).is_allowed
    assert rules_of(judged(config(cpu_burst=twice), strategy_names_required=True)) == ["ConfigParamInvalid"]


def test_promised_bandwidth_is_that_of_the_nodes() -> None:
    promised = {
        "lsClass": {"networkQOS": {"ingressRequest": "600M"}},
        "beClass": {"networkQOS": {"ingressRequest": "500M"}},
    }
    qos = {"clusterStrategy": promised}
    assert judged(config(resource_qos=qos)).is_allowed
    system = {"clusterStrategy": {"totalNetworkBandwidth": "1000M"}}
    assert rules_of(judged(config(resource_qos=qos, system=system))) == ["ConfigParamInvalid"]
    pool = {"matchLabels": {"pool": "a"}}
    more = {**system, **strategies(pool, totalNetworkBandwidth="2G")}
    assert judged(config(resource_qos=strategies(pool, **promised), system=more)).is_allowed


def test_other_config_maps_are_left_alone() -> None:
    item = {**config(resource_qos="{"), "metadata": {"name": "other"}}
    assert ask("/validate-configmap", item, views(), gates=ON, name="other").is_allowed


@pytest.mark.parametrize(
    ("first", "second", "meets"),
    [
        ({"In": ["a", "b"]}, {"NotIn": ["a"]}, True),
        ({"In": ["a"]}, {"NotIn": ["a"]}, False),
        ({"NotIn": ["a"]}, {"NotIn": ["b"]}, True),
        ({"Exists": []}, {"NotIn": ["a"]}, True),
        ({"In": ["a", "c"]}, {"In": ["b", "d"]}, False),
    ],
)
def test_overlap_is_exact(first: Json, second: Json, meets: bool) -> None:
    expressions = [
        {"key": "k", "operator": operator, "values": values}
        for each in (first, second)
        for operator, values in each.items()
    ]
    selectors = [msgspec.convert({"matchExpressions": [each]}, LabelSelector) for each in expressions]
    assert (overlapping(selectors) is not None) is meets


def test_labels_of_a_node_must_not_fit_two_strategies() -> None:
    selectors = NodeSelectors(
        {"cpu-burst-config": [Named(n, LabelSelector(match_labels={n: "1"})) for n in ("a", "b")]}
    )
    known = views(node_selectors=selectors)

    def node(**labels: str) -> Json:
        return {"metadata": {"name": "n", "labels": labels}}

    both = node(a="1", b="1")
    assert rules_of(ask("/validate-node", both, known, old=node(a="1"), gates=ON)) == ["ExistNodeConfict"]
    assert ask("/validate-node", node(a="1", b="1", c="1"), known, old=both, gates=ON).is_allowed
    assert ask("/validate-node", both, known, old=node(a="1")).is_allowed
