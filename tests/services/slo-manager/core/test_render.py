"""The strategy of one node beyond the reference cases: what is told, and what stays when nothing can be read."""

import json

import pytest

from berth.contracts import names
from berth.contracts.slo import CpuSuppress
from berth.contracts.state import Node
from berth.rules.node_strategies.config import DEFAULTS, SYSTEM, THRESHOLD, read_config
from berth.slo_manager.core.render import render

KEY = "resource-threshold-config"


def node(labels=None, bandwidth=None) -> Node:
    annotations = {} if bandwidth is None else {names.ANNOTATION_NODE_BANDWIDTH: bandwidth}
    return Node(name="n", uid="u", version=1, labels=labels or {}, annotations=annotations)


def config(cluster=None, *nodes, previous=None):
    text = json.dumps({"clusterStrategy": cluster or {}, "nodeStrategies": list(nodes)})
    return read_config({KEY: text}, previous or {})


def pool(name, **fields):
    return {"name": name, "nodeSelector": {"matchLabels": {"pool": name}}, **fields}


def test_the_rule_for_best_effort_cpu_is_told_typed():
    strategy = {"enable": True, "cpuSuppressMinPercent": 5, "cpuSuppressPolicy": "cfsQuota"}
    got = render(node(), config(strategy), None)
    assert got.cpu_suppress == CpuSuppress(enabled=True, threshold_percent=65, min_percent=5, policy="cfsQuota")
    assert (got.node, got.uid) == ("n", "u")
    assert render(node(), DEFAULTS, None).cpu_suppress == CpuSuppress()


def test_the_strategy_that_won_is_named():
    both = config({}, pool("a", enable=True), {"nodeSelector": {}, "enable": False})
    won = render(node({"pool": "a"}), both, None)
    assert won.strategies == {THRESHOLD: "a"}
    assert won.cpu_suppress.enabled
    (problem,) = won.problems
    assert problem.field == THRESHOLD
    assert problem.message == "a counts; these match, too: nodeStrategies[1]"
    other = render(node({"pool": "b"}), both, None)
    assert (other.strategies, other.problems) == ({THRESHOLD: "nodeStrategies[1]"}, [])
    assert render(node({"pool": "b"}), config({}, pool("a")), None).strategies == {}


@pytest.mark.parametrize("bandwidth", ["", "fast", "-1", "1" * 300])
def test_a_bandwidth_that_cannot_be_read_leaves_the_section_out(bandwidth):
    got = render(node(bandwidth=bandwidth), DEFAULTS, None)
    assert SYSTEM not in got.spec
    assert [problem.field for problem in got.problems] == [f"metadata.annotations[{names.ANNOTATION_NODE_BANDWIDTH}]"]


def test_what_could_never_be_read_stays_as_it_was_published():
    published = render(node({"pool": "a"}), config({}, pool("a", enable=True)), None)
    unusable = read_config({KEY: "{"}, {})
    again = render(node({"pool": "a"}), unusable, published)
    assert (again.spec, again.strategies, again.cpu_suppress) == (
        published.spec,
        published.strategies,
        published.cpu_suppress,
    )
    fresh = render(node(), unusable, None)
    assert fresh.spec[THRESHOLD] == DEFAULTS.sections[THRESHOLD].cluster


def test_a_published_section_that_is_unsound_is_not_kept():
    published = render(node(), config({"enable": True}), None)
    published.spec[THRESHOLD]["cpuSuppressThresholdPercent"] = 400
    again = render(node(), read_config({KEY: "{"}, {}), published)
    assert again.spec[THRESHOLD] == DEFAULTS.sections[THRESHOLD].cluster


def test_rendering_leaves_the_strategies_alone():
    strategies = config({})
    render(node(bandwidth="5G"), strategies, None)
    assert strategies.sections[SYSTEM].cluster == {"totalNetworkBandwidth": "0"}
    assert render(node(), strategies, None).spec[SYSTEM] == {"totalNetworkBandwidth": "0"}
