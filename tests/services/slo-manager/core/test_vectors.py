"""Reference cases: the spec of a node from the ConfigMap, and the ranges of every field."""

import json

import pytest

from berth.contracts.state import Node
from berth.slo_manager.core.config import DEFAULTS, KEYS, KINDS, read_config
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
    document = {"clusterStrategy": strategy} if of == "cluster" else {"nodeStrategies": [{"name": "a", **strategy}]}
    config = read_config({key: json.dumps(document)}, DEFAULTS.sections)
    assert (not config.unusable) == case["expect"]["valid"]
    assert all(problem.field.startswith(f"data[{key}]") for problem in config.problems)


@pytest.mark.parametrize("case", cases("node-qos/node-slo-merge"))
def test_a_section_over_its_defaults(case):
    kind = next(kind for kind in KINDS if kind.section == case["given"]["section"])
    config = read_config({kind.key: json.dumps({"clusterStrategy": case["given"]["spec"]})}, {})
    assert config.sections[kind.section].cluster == case["expect"]["merged"]
