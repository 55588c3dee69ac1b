"""The texts of the ConfigMap: overlays, what stays when a key is unusable, and what is said about it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.rules.node_strategies.config import (
    DEFAULTS,
    HOST_APPLICATION_KEY,
    HOST_APPLICATIONS,
    KEYS,
    KINDS,
    NODE_STRATEGIES_MAX,
    OFFER_KIND,
    RATIO_KINDS,
    THRESHOLD,
    read_config,
)
from berth.rules.node_strategies.overlay import overlay

KEY = "resource-threshold-config"


def read(document, previous=None, key=KEY):
    text = document if isinstance(document, str) else json.dumps(document)
    return read_config({key: text}, previous or {})


@pytest.mark.parametrize("of", ["clusterStrategy", "nodeStrategies[0]"])
@pytest.mark.parametrize(
    ("key", "strategy", "field"),
    [
        (KEY, {"cpuEvictBESatisfactionLowerPercent": 35}, "cpuEvictBESatisfactionLowerPercent"),
        (KEY, {"memoryAllocatableEvictLowerPercent": 35}, "memoryAllocatableEvictLowerPercent"),
        (KEY, {"cpuEvictLowerPercent": 1}, "cpuEvictLowerPercent"),
        (KEY, {"cpuAllocatableEvictLowerPercent": 1}, "cpuAllocatableEvictLowerPercent"),
        (
            "resource-qos-config",
            {"beClass": {"resctrlQOS": {"catRangeStartPercent": 10}}},
            "beClass.resctrlQOS.catRangeStartPercent",
        ),
    ],
)
def test_a_lower_value_without_its_upper_one_is_refused(key, strategy, field, of):
    config = read({of: strategy} if of == "clusterStrategy" else {"nodeStrategies": [strategy]}, key=key)
    (problem,) = config.problems
    assert problem.field == f"data[{key}].{of}.{field}"
    assert config.unusable == (key,)


@pytest.mark.parametrize(
    "document",
    [
        {"clusterStrategy": {"memoryEvictLowerPercent": 60}},
        {
            "clusterStrategy": {"cpuEvictThresholdPercent": 80},
            "nodeStrategies": [{"nodeSelector": {}, "cpuEvictLowerPercent": 70}],
        },
        {"clusterStrategy": {"cpuEvictBESatisfactionUpperPercent": 60}},
    ],
)
def test_an_upper_value_from_below_counts_and_one_alone_is_fine(document):
    assert read(document).problems == ()


def test_nothing_is_all_defaults():
    for data in ({}, {KEY: ""}, {KEY: "  \n"}, {"another-config": "{"}):
        assert read_config(data, {}) == DEFAULTS


def test_a_null_keeps_what_is_below():
    config = read({"clusterStrategy": {"cpuSuppressThresholdPercent": None, "enable": True}})
    assert config.sections[THRESHOLD].cluster["cpuSuppressThresholdPercent"] == 65
    assert config.sections[THRESHOLD].cluster["enable"] is True


def test_fields_of_newer_agents_are_carried():
    config = read({"clusterStrategy": {"later": {"x": 1}}, "nodeStrategies": [{"nodeSelector": {}, "more": [1]}]})
    section = config.sections[THRESHOLD]
    assert section.cluster["later"] == {"x": 1}
    assert (section.nodes[0].value["later"], section.nodes[0].value["more"]) == ({"x": 1}, [1])
    assert "nodeSelector" not in section.nodes[0].value


@pytest.mark.parametrize(
    ("document", "field", "words"),
    [
        ('{"clusterStrategy":', f"data[{KEY}]", "not JSON"),
        ("[1]", f"data[{KEY}]", "Expected `object`"),
        ('"' + "x" * 10, f"data[{KEY}]", "not JSON"),
        ('{"a":' * 5_000, f"data[{KEY}]", "not JSON"),
        ({"clusterStrategy": []}, f"data[{KEY}].clusterStrategy", "JSON object"),
        ({"nodeStrategies": {}}, f"data[{KEY}].nodeStrategies", "JSON list"),
        ({"nodeStrategies": [7]}, f"data[{KEY}].nodeStrategies[0]", "JSON object"),
        ({"nodeStrategies": [{}] * (NODE_STRATEGIES_MAX + 1)}, f"data[{KEY}].nodeStrategies", "more than 1000"),
        (
            {"clusterStrategy": {"cpuSuppressThresholdPercent": 101}},
            f"data[{KEY}].clusterStrategy.cpuSuppressThresholdPercent",
            "<= 100",
        ),
        (
            {"nodeStrategies": [{}, {"cpuSuppressPolicy": "cpu"}]},
            f"data[{KEY}].nodeStrategies[1].cpuSuppressPolicy",
            "Invalid enum value 'cpu'",
        ),
        ({"nodeStrategies": [{"nodeSelector": "a=b"}]}, f"data[{KEY}].nodeStrategies[0].nodeSelector", "object"),
        ({"nodeStrategies": [{"name": 7}]}, f"data[{KEY}].nodeStrategies[0].name", "str"),
        (
            {"clusterStrategy": {"cpuEvictBESatisfactionUpperPercent": "60"}},
            f"data[{KEY}].clusterStrategy.cpuEvictBESatisfactionUpperPercent",
            "Expected `int",
        ),
        (
            # The cluster's default threshold is 70: what counts is the strategy as a whole.
            {"nodeStrategies": [{"memoryEvictLowerPercent": 75}]},
            f"data[{KEY}].nodeStrategies[0].memoryEvictLowerPercent",
            "has to be below memoryEvictThresholdPercent: 75, 70",
        ),
    ],
)
def test_an_unusable_key_keeps_what_it_said_and_names_the_field(document, field, words):
    before = read({"clusterStrategy": {"cpuSuppressThresholdPercent": 30}})
    config = read(document, before.sections)
    assert config.unusable == (KEY,)
    (problem,) = config.problems
    assert problem.field == field
    assert words in problem.message
    assert config.sections[THRESHOLD] == before.sections[THRESHOLD]
    assert THRESHOLD not in read(document).sections, "never read: not known"


@pytest.mark.parametrize("key", [KEY, "resource-qos-config"])
@pytest.mark.parametrize("depth", [400, 800])
def test_a_text_that_is_nested_too_deeply_is_unusable(key, depth):
    deep = '{"a":' * depth + "1" + "}" * depth
    config = read('{"clusterStrategy":{"x":%s},"nodeStrategies":[{"x":%s}]}' % (deep, deep), key=key)  # noqa: UP031
    assert config.unusable == (key,)
    assert "nested too deeply" in config.problems[0].message


def test_a_class_is_checked_to_its_last_field():
    document = {"clusterStrategy": {"beClass": {"resctrlQOS": {"catRangeStartPercent": 30, "catRangeEndPercent": 30}}}}
    (problem,) = read(document, key="resource-qos-config").problems
    assert problem.field == "data[resource-qos-config].clusterStrategy.beClass.resctrlQOS.catRangeStartPercent"


@pytest.mark.parametrize("amount", ["fast", "", -1, "-5", True, "9" * 30])
def test_a_bandwidth_has_to_be_a_quantity(amount):
    (problem,) = read({"clusterStrategy": {"totalNetworkBandwidth": amount}}, key="system-config").problems
    assert problem.field == "data[system-config].clusterStrategy.totalNetworkBandwidth"


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"applications": {}}, "applications"),
        ({"applications": [{"name": 7}]}, "applications[0].name"),
        ({"nodeConfigs": [{"applications": [{"cgroupPath": {"base": []}}]}]}, "nodeConfigs[0].applications[0].cgroup"),
    ],
)
def test_host_applications_are_checked(document, field):
    (problem,) = read(document, key=HOST_APPLICATION_KEY).problems
    assert problem.field.startswith(f"data[{HOST_APPLICATION_KEY}].{field}")


def test_a_selector_that_means_nothing_matches_nothing_and_is_named():
    expression = {"key": "a", "operator": "Near", "values": ["b"]}
    config = read({"nodeStrategies": [{"nodeSelector": {"matchExpressions": [expression]}}]})
    assert config.unusable == ()
    (problem,) = config.problems
    assert problem.field.startswith(f"data[{KEY}].nodeStrategies[0].nodeSelector")
    assert not config.sections[THRESHOLD].nodes[0].matches({"a": "b"})


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-200, 200), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from(["a", "b", "c"]), values, max_size=3)


@given(objects, objects)
def test_an_overlay_shows_what_lies_on_top(base, over):
    merged = overlay(base, over)
    assert overlay(merged, over) == merged
    assert overlay(base, {}) == base
    for name, value in over.items():
        if value is not None and not (isinstance(value, dict) and isinstance(base.get(name), dict)):
            assert merged[name] == value
    assert merged.keys() == base.keys() | {name for name, value in over.items() if value is not None}


names = st.sampled_from(["clusterStrategy", "nodeStrategies", "applications", "nodeConfigs", "nodeSelector", "enable"])
documents = st.dictionaries(names, st.one_of(values, st.lists(st.dictionaries(names, values), max_size=2)), max_size=4)


@given(st.dictionaries(st.sampled_from(KEYS), st.one_of(st.text(max_size=30), documents.map(json.dumps))))
def test_no_text_does_more_than_be_refused(data):
    config = read_config(data, DEFAULTS.sections)
    assert config.sections.keys() == {kind.section for kind in (*KINDS, *RATIO_KINDS, OFFER_KIND)} | {HOST_APPLICATIONS}
    assert set(config.unusable) <= data.keys()
    for key in config.unusable:
        assert any(problem.field.startswith(f"data[{key}]") for problem in config.problems)
