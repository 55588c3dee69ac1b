"""Arguments of LoadAwareScheduling, which is off until a profile lists it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.libs.rules.scheduler_config.written import on, problems, profile, shape

from berth.rules.scheduler_config import DEFAULT, LoadAwareArgs

EVERY_LOAD_AWARE_OPTION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "LoadAwareSchedulingArgs",
    "filterExpiredNodeMetrics": False,
    "enableScheduleWhenNodeMetricsExpired": True,
    "nodeMetricExpirationSeconds": 300,
    "usageThresholds": {"cpu": 80},
    "prodUsageThresholds": {"cpu": 55},
    "prodUsageIncludeSys": True,
    "scoreAccordingProdUsage": True,
    "aggregated": {
        "usageThresholds": {"cpu": 70},
        "usageAggregationType": "p95",
        "usageAggregatedDuration": "5m0s",
        "scoreAggregationType": "p99",
        "scoreAggregatedDuration": "10m0s",
    },
    "resourceWeights": {"cpu": 1, "memory": 1},
    "dominantResourceWeight": 1,
    "estimator": "defaultEstimator",
    "estimatedScalingFactors": {"cpu": 80},
    "estimatedSecondsAfterPodScheduled": 60,
    "estimatedSecondsAfterInitialized": 30,
    "allowCustomizeEstimation": True,
    "supportedResources": ["nvidia.com/gpu"],
}


def test_load_aware_scheduling_is_off_until_a_profile_lists_it() -> None:
    name = "LoadAwareScheduling"
    assert name not in DEFAULT.constraints
    assert name not in DEFAULT.weights
    only_args = profile({}, LoadAwareScheduling=EVERY_LOAD_AWARE_OPTION)
    assert name not in only_args.constraints
    points = {point: on(name) for point in ("preFilter", "filter", "score", "reserve")}
    found = profile(points, LoadAwareScheduling=EVERY_LOAD_AWARE_OPTION)
    assert name in found.constraints
    assert found.weights[name] == 1
    args = found.args_of(name, LoadAwareArgs)
    assert args.usage_thresholds == {"cpu": 80}
    assert args.estimated_scaling_factors == {"cpu": 80, "memory": 70}
    assert args.aggregated.score_aggregated_duration == "10m0s"


def test_defaults_of_load_aware_scheduling_depend_on_what_is_said() -> None:
    for found in (profile({"filter": on("LoadAwareScheduling")}), DEFAULT):
        args = found.args_of("LoadAwareScheduling", LoadAwareArgs)
        assert args.usage_thresholds == {"cpu": 65, "memory": 95}
        assert args.resource_weights == {"cpu": 1, "memory": 1}


@pytest.mark.parametrize(
    ("args", "word"),
    [({"usageThreshold": {}}, "usageThreshold"), ({"aggregated": {"usageType": "p95"}}, "usageType")],
)
def test_an_unknown_option_of_load_aware_scheduling_is_named(args: dict[str, Any], word: str) -> None:
    assert f"`{word}`" in " ".join(problems({"profiles": [shape(LoadAwareScheduling=args)]}).values())
