"""A KubeSchedulerConfiguration that says little, and what is kube-scheduler's own in it."""

from __future__ import annotations

import json

from tests.libs.rules.scheduler_config.written import FILTERS, HEAD, config, problems, profile

from berth.rules.scheduler_config import DEFAULT, FitArgs, SchedulerConfig, read_scheduler_config


def test_the_defaults_are_kube_schedulers() -> None:
    assert DEFAULT.constraints == FILTERS
    assert DEFAULT.weights == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "VolumeBinding": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }
    assert DEFAULT.decides == "native"
    assert DEFAULT.scheduler_name == "berth-scheduler"
    assert DEFAULT.points["postFilter"] == ("DynamicResources", "DefaultPreemption")


def test_a_text_without_profiles_has_the_default_one() -> None:
    found = config()
    assert list(found.profiles) == ["default-scheduler"]
    assert found.profiles["default-scheduler"] == DEFAULT._replace(scheduler_name="default-scheduler")
    assert (found.initial_back_off_s, found.max_back_off_s) == (1, 10)


def test_what_is_kube_schedulers_own_is_accepted() -> None:
    found = config(
        parallelism=16,
        leaderElection={"leaderElect": False, "leaseDuration": "15s", "resourceName": "x"},
        clientConnection={"kubeconfig": "/etc/k", "qps": 50, "burst": 100},
        enableProfiling=True,
        enableContentionProfiling=False,
        delayCacheUntilActive=True,
        percentageOfNodesToScore=30,
        podInitialBackoffSeconds=2,
        podMaxBackoffSeconds=20,
        extenders=[],
        profiles=[{"schedulerName": "a", "percentageOfNodesToScore": 100}, {"schedulerName": "b"}],
    )
    assert list(found.profiles) == ["a", "b"]
    assert (found.initial_back_off_s, found.max_back_off_s) == (2, 20)


def test_json_is_read_as_well() -> None:
    found = read_scheduler_config(json.dumps(HEAD))
    assert isinstance(found, SchedulerConfig)


def test_numbers_are_those_of_kube_schedulers_parser() -> None:
    """Base 60, and dates, are of an older YAML: there they are texts."""
    head = f"apiVersion: {HEAD['apiVersion']}\nkind: {HEAD['kind']}\n"
    for text in ("1:30", "2020-01-01", "1:30.5", "59:" * 20_000 + "59"):
        found = read_scheduler_config(f"{head}profiles: [{{schedulerName: {text[:200]}}}]")
        assert isinstance(found, SchedulerConfig), found
        assert list(found.profiles) == [text[:200]]
        assert "1:30" not in problems(f"{head}parallelism: {text}")["parallelism"]
    assert isinstance(read_scheduler_config(f"{head}parallelism: 1_6\nclientConnection: {{qps: 5e1}}"), SchedulerConfig)


def test_null_and_empty_mean_the_default() -> None:
    found = profile(None, NodeResourcesFit={"scoringStrategy": {"type": "MostAllocated", "resources": []}})
    assert (
        found.args_of("NodeResourcesFit", FitArgs).scoring_strategy.resources
        == DEFAULT.args_of("NodeResourcesFit", FitArgs).scoring_strategy.resources
    )
    assert profile(None, VolumeBinding={"bindTimeoutSeconds": None}) == profile()
