"""Reference cases: the spec of a node from the ConfigMap, and the ranges of every field."""

import json

import pytest

from berth.contracts.names import (
    ANNOTATION_AMPLIFICATION_RATIO,
    ANNOTATION_CPU_NORMALIZATION_RATIO,
    LABEL_CPU_NORMALIZATION_ENABLED,
)
from berth.contracts.state import Node
from berth.rules.node_strategies.config import DEFAULTS, KEYS, KINDS, OFFER_KIND, read_config
from berth.slo_manager.core.ratios import Ratios, ratios_of
from berth.slo_manager.core.render import render
from berth.testing.vectors import cases


@pytest.mark.parametrize("case", cases("overcommit/nodeslo_render"))
def test_rendering(case):
    given, expect = case["given"], case["expect"]
    before = read_config(given.get("previousConfigMapData", {}), {})
    config = read_config(given["configMapData"], before.sections)
    told = given.get("node", {})
    node = Node(name="n", uid="u", version=1, labels=told.get("labels", {}), annotations=told.get("annotations", {}))
    assert render(node, config, None).spec == expect["nodeSLOSpec"]
    assert list(config.unusable) == expect.get("unparsableKeys", [])
    assert bool(config.problems) == bool(config.unusable)


@pytest.mark.parametrize("case", cases("admission/config_strategy_ranges"))
@pytest.mark.parametrize("of", ["cluster", "node"])
def test_ranges(case, of):
    key, strategy = case["given"]["key"], case["given"]["strategy"]
    assert key in KEYS
    if key == OFFER_KIND.key:
        document = strategy if of == "cluster" else {OFFER_KIND.nodes: [{"name": "a", **strategy}]}
    else:
        document = {"clusterStrategy": strategy} if of == "cluster" else {"nodeStrategies": [{"name": "a", **strategy}]}
    config = read_config({key: json.dumps(document)}, DEFAULTS.sections)
    assert (not config.problems) == case["expect"]["valid"]
    assert bool(config.unusable) == (bool(config.problems) and (of == "cluster" or key != OFFER_KIND.key))
    assert all(problem.field.startswith(f"data[{key}]") for problem in config.problems)


@pytest.mark.parametrize("case", cases("node-qos/node-slo-merge"))
def test_a_section_over_its_defaults(case):
    """The blocks of classes are passed on as they are written: what they count for is worked out on the node."""
    given = case["given"]
    kind = next(kind for kind in KINDS if kind.section == given["section"])
    config = read_config({kind.key: json.dumps({"clusterStrategy": given["spec"]})}, {})
    is_passed_on = kind.section == "resourceQOSStrategy"
    assert config.sections[kind.section].cluster == (given["spec"] if is_passed_on else case["expect"]["merged"])


def ratios(key, document, *, labels=None, annotations=None, cpu=None) -> Ratios:
    """What a document under one key of the ConfigMap comes to on a node."""
    config = read_config({key: json.dumps(document)}, {})
    assert config.problems == ()
    node = Node(name="n", uid="u", version=1, labels=labels or {}, annotations=annotations or {})
    return ratios_of(node, cpu, config, {})


def enabled_by(label) -> dict[str, str]:
    return {} if label is None else {LABEL_CPU_NORMALIZATION_ENABLED: label}


def check_normalisation(found: Ratios, text: str | None) -> None:
    assert found.wanted.get(ANNOTATION_CPU_NORMALIZATION_RATIO) == text
    assert bool(found.problems) == (text is None)


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/cpu_normalization_annotation"))
def test_normalisation(case):
    given = case["given"]
    labels = {**given.get("nodeLabels", {}), **enabled_by(given.get("enabledLabel"))}
    document = {**given["cluster"], "nodeConfigs": given.get("nodeConfigs", [])}
    found = ratios("cpu-normalization-config", document, labels=labels, cpu=given["cpuBasicInfo"])
    check_normalisation(found, case["expect"].get("annotation"))


@pytest.mark.parametrize("case", cases("overcommit/cpu_normalization"))
def test_normalisation_by_model(case):
    given = case["given"]
    cpu = None if given["cpuInfo"] is None else json.dumps(given["cpuInfo"])
    labels = enabled_by(given.get("nodeLabel"))
    found = ratios("cpu-normalization-config", given["strategy"], labels=labels, cpu=cpu)
    check_normalisation(found, case["expect"].get("ratio"))


@pytest.mark.parametrize("case", cases("overcommit/resource_amplification"))
def test_amplification(case):
    given, expect = case["given"], case["expect"]
    text = given.get("cpuNormalizationRatio")
    annotations = {} if text is None else {ANNOTATION_CPU_NORMALIZATION_RATIO: text}
    found = ratios("resource-amplification-config", given["strategy"], annotations=annotations)
    assert bool(found.problems) == expect.get("error", False)
    if expect.get("error"):
        assert found.wanted == {}
        return
    expected = expect["annotation"]
    text = None if expected is None else ",".join(f'"{name}":{ratio}' for name, ratio in sorted(expected.items()))
    assert found.wanted[ANNOTATION_AMPLIFICATION_RATIO] == (None if text is None else "{" + text + "}")
