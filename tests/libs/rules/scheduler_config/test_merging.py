"""What a profile says of plugins and their points is merged with the defaults."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.libs.rules.scheduler_config.written import FILTERS, off, on, problems, profile, shape

from berth.rules.scheduler_config import DEFAULT, FitPlusArgs, PlusResource, ScarceArgs
from berth.rules.scheduler_config.plugins import DEFAULTS, POINTS, TOGETHER


def test_a_weight_given_at_multi_point_replaces_the_default_in_place() -> None:
    found = profile({"multiPoint": on(NodeResourcesFit=7)})
    assert found.points == DEFAULT.points
    assert found.weights == {**DEFAULT.weights, "NodeResourcesFit": 7}


def test_a_weight_of_the_point_goes_before_that_of_multi_point() -> None:
    found = profile({"multiPoint": on(ImageLocality=7), "score": on(ImageLocality=5)})
    assert found.weights["ImageLocality"] == 5


def test_what_a_point_names_comes_first() -> None:
    found = profile({"score": on("ImageLocality", "NodeAffinity"), "filter": on("NodePorts")})
    assert found.points["score"][:3] == ("ImageLocality", "NodeAffinity", "TaintToleration")
    assert found.points["filter"] == ("NodePorts", *(name for name in FILTERS if name != "NodePorts"))
    assert found.weights["NodeAffinity"] == 1, "a point that names no weight means 1, not the default"


def test_a_point_without_a_plugin() -> None:
    found = profile({"score": off("TaintToleration"), "filter": off("NodePorts", "NodeName")})
    assert "TaintToleration" not in found.weights
    assert "TaintToleration" in found.constraints
    assert found.constraints == tuple(name for name in FILTERS if name not in ("NodePorts", "NodeName"))


def test_a_point_with_only_what_it_names() -> None:
    found = profile({"score": on(NodeResourcesFit=4) | off("*")})
    assert found.weights == {"NodeResourcesFit": 4}
    assert found.points["filter"] == FILTERS


def test_multi_point_without_a_plugin() -> None:
    found = profile({"multiPoint": off("InterPodAffinity")})
    assert all("InterPodAffinity" not in plugins for plugins in found.points.values())


def test_multi_point_with_only_what_it_names() -> None:
    found = profile(
        {"multiPoint": on("DefaultBinder", "NodeResourcesFit", "PrioritySort", "SchedulingGates") | off("*")}
    )
    assert found.constraints == ("NodeResourcesFit",)
    assert found.weights == {"NodeResourcesFit": 1}
    assert found.points["postFilter"] == ()


def test_disabled_everywhere_and_enabled_at_a_point() -> None:
    found = profile({"multiPoint": off("NodeAffinity"), "filter": on("NodeAffinity"), "preFilter": on("NodeAffinity")})
    assert found.constraints == (*(name for name in FILTERS if name != "NodeAffinity"), "NodeAffinity")
    assert "NodeAffinity" not in found.weights


def test_plugins_of_koordinator_that_berth_has() -> None:
    names = ["Coscheduling", "Reservation", "ElasticQuota"]
    found = profile({"multiPoint": on(*names), "score": on(Reservation=5000)})
    assert found.points == DEFAULT.points
    assert found.weights == DEFAULT.weights


@pytest.mark.parametrize("name", ["NodeNUMAResource", "DeviceShare"])
def test_a_plugin_that_is_always_on_may_rate_as_well(name: str) -> None:
    found = profile({"multiPoint": on(name), "score": on(**{name: 3})})
    assert found.weights == {**DEFAULT.weights, name: 3}
    found = profile({"multiPoint": on(name), "score": off(name)})
    assert found.weights == DEFAULT.weights
    plugins = {"filter": off(name), "score": on(name)}
    assert list(problems({"profiles": [shape(plugins)]})) == ["profiles[0].plugins.filter.disabled[0].name"]


@pytest.mark.parametrize(
    ("plugins", "points"),
    [
        ({"multiPoint": off("VolumeBinding")}, {"preFilter", "filter", "reserve", "preBind", "preScore", "score"}),
        ({"multiPoint": off("DefaultPreemption")}, {"preEnqueue", "postFilter"}),
        ({"postFilter": off("DefaultPreemption")}, {"postFilter"}),
        ({"filter": off("NodePorts")}, {"filter"}),
        ({"score": off("InterPodAffinity")}, {"score"}),
        ({"preBind": off("DynamicResources")}, {"preBind"}),
    ],
)
def test_a_plugin_that_may_be_off_there(plugins: dict[str, Any], points: set[str]) -> None:
    (name,) = {each["name"] for those in plugins.values() for each in those["disabled"]}
    found = profile(plugins)
    assert {point for point in POINTS if name in DEFAULT.points[point] and name not in found.points[point]} == points


def test_koordinators_order_of_the_queue_is_berths() -> None:
    found = profile({"queueSort": on("Coscheduling") | off("*")})
    assert found.points["queueSort"] == ("Coscheduling",)


def test_plugins_that_no_default_has() -> None:
    plus = {"resources": {"nvidia.com/gpu": {"type": "MostAllocated", "weight": 2}, "cpu": {"weight": 0}}}
    scarce = {"resources": ["nvidia.com/gpu"]}
    found = profile(
        {"multiPoint": on(NodeResourcesFitPlus=2), "score": on("ScarceResourceAvoidance")},
        NodeResourcesFitPlus=plus,
        ScarceResourceAvoidance=scarce,
    )
    assert found.weights == {**DEFAULT.weights, "NodeResourcesFitPlus": 2, "ScarceResourceAvoidance": 1}
    assert found.args_of("NodeResourcesFitPlus", FitPlusArgs).resources == {
        "nvidia.com/gpu": PlusResource(type="MostAllocated", weight=2),
        "cpu": PlusResource(),
    }
    assert found.args_of("ScarceResourceAvoidance", ScarceArgs).resources == ("nvidia.com/gpu",)
    assert not {"NodeResourcesFitPlus", "ScarceResourceAvoidance"} & set(DEFAULT.weights)
    assert profile({"multiPoint": off("NodeResourcesFitPlus")}).weights == DEFAULT.weights


names = [plugin.name for plugin in DEFAULTS]
subsets = st.lists(st.sampled_from(names), unique=True)


@given(subsets, subsets)
def test_merging_keeps_each_plugin_at_the_points_it_has(multi_off: list[str], point_off: list[str]) -> None:
    """Nothing runs twice at a point, nothing where it has nothing, and what is off is off; PrioritySort and
    DefaultBinder stay."""
    multi = [name for name in multi_off if name not in ("PrioritySort", "DefaultBinder", "SchedulingGates")]
    point_off = [name for name in point_off if name not in TOGETHER]
    found = profile({"multiPoint": off(*multi), "filter": off(*point_off)})
    for point in POINTS:
        gone = set(multi) | (set(point_off) if point == "filter" else set())
        expected = [plugin.name for plugin in DEFAULTS if point in plugin.points and plugin.name not in gone]
        assert list(found.points[point]) == expected
    assert list(found.weights) == list(found.points["score"])
