"""Kubelet's configuration and its list of pods."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts.base import Problem
from berth.kubelet.core.configz import KubeletConfig, read_config_file, read_configz
from berth.kubelet.core.pod_list import PodList, pods_now, read_pods


def config(**fields: Any) -> KubeletConfig:
    read = read_configz(json.dumps({"kubeletconfig": fields}))
    assert isinstance(read, KubeletConfig)
    return read


def test_a_configuration() -> None:
    read = config(
        cpuManagerPolicy="static",
        cpuManagerPolicyOptions={"full-pcpus-only": "true"},
        cpuManagerReconcilePeriod="10s",
        reservedSystemCPUs="0-1",
        kubeReserved={"cpu": "500m", "memory": "1Gi", "pid": "1000"},
        systemReserved={"cpu": "1200m"},
        evictionHard={"memory.available": "100Mi"},
        topologyManagerPolicy="single-numa-node",
        topologyManagerScope="pod",
        topologyManagerPolicyOptions={"max-allowable-numa-nodes": "16"},
        memoryManagerPolicy="None",
        cgroupDriver="systemd",
        featureGates={"KubeletPodResourcesGet": True},
        logging={"flushFrequency": 5000000000},
    )
    assert not read.problems
    assert (read.cpu_manager_policy, read.reserved_system_cpus, read.cgroup_driver) == ("static", "0-1", "systemd")
    assert (read.topology_manager_policy, read.topology_manager_scope) == ("single-numa-node", "pod")
    assert read.kube_reserved["cpu"] == 500
    assert read.kube_reserved["memory"] == 1 << 30
    assert read.reserved_cpu_count == 2
    assert read.feature_gates == {"KubeletPodResourcesGet": True}
    assert read.eviction_hard == {"memory.available": "100Mi"}


def test_an_empty_one_says_nothing() -> None:
    assert config() == KubeletConfig()
    assert config(cpuManagerPolicy=None, kubeReserved=None, featureGates=None) == KubeletConfig()
    assert KubeletConfig().reserved_cpu_count == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cpuManagerPolicy", 7),
        ("featureGates", {"x": "yes"}),
        ("evictionHard", []),
        ("kubeReserved", {"cpu": "much"}),
        ("systemReserved", "1"),
        ("cpuManagerPolicyOptions", {"a": 1}),
    ],
)
def test_an_odd_field_costs_only_itself(field: str, value: Any) -> None:
    read = config(**{field: value, "cgroupDriver": "systemd"})
    assert read.cgroup_driver == "systemd"
    (problem,) = read.problems
    assert problem.field.startswith(f"kubeletconfig.{field}")


@pytest.mark.parametrize("text", ["kind: KubeletConfiguration\n", '{"kind": "KubeletConfiguration"}'])
def test_a_file_is_yaml_or_json(text: str) -> None:
    assert read_config_file(text) == KubeletConfig()


def test_an_odd_field_of_a_file_costs_only_itself() -> None:
    read = read_config_file("kind: KubeletConfiguration\ntopologyManagerPolicy: [1]\ncpuManagerPolicy: static\n")
    assert isinstance(read, KubeletConfig)
    assert (read.cpu_manager_policy, [each.field for each in read.problems]) == (
        "static",
        ["kubelet.config.topologyManagerPolicy"],
    )


@pytest.mark.parametrize("body", ["", "{}", "[]", "null", '{"kubeletconfig": 3}', "[" * 100_000, " " * (2 << 20)])
def test_what_is_no_configuration_is_named(body: str) -> None:
    read = read_configz(body)
    assert isinstance(read, Problem)
    assert read.field == "configz"


@given(
    st.text(max_size=30)
    | st.dictionaries(st.sampled_from(["kubeletconfig", "x"]), st.none() | st.integers()).map(json.dumps)
)
def test_no_body_breaks_a_reading(body: str) -> None:
    assert isinstance(read_configz(body), KubeletConfig | Problem)
    assert isinstance(read_pods(body), PodList | Problem)


def pods_of(*items: Any) -> PodList:
    read = read_pods(json.dumps({"kind": "PodList", "items": items}))
    assert isinstance(read, PodList)
    return read


def a_pod(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "d", "uid": f"uid-{name}"}, **more}


def test_the_pods_of_a_node() -> None:
    static = a_pod("static-n", spec={"containers": [{"name": "c"}]})
    static["metadata"]["annotations"] = {"kubernetes.io/config.source": "file"}
    read = pods_of(static, a_pod("b", status={"phase": "Running"}))
    assert not read.problems
    assert [(pod.metadata.uid, pod.status.phase) for pod in read.pods] == [("uid-static-n", ""), ("uid-b", "Running")]
    assert read.pods[0].spec.containers[0].name == "c"


def test_a_pod_that_cannot_be_read_costs_only_itself() -> None:
    read = pods_of(a_pod("a"), {"metadata": 7}, a_pod("c", spec={"nodeName": 7, "schedulerName": "s"}))
    assert [pod.metadata.name for pod in read.pods] == ["a", "c"]
    assert read.pods[1].spec.scheduler_name == "s"
    assert [each.field for each in read.problems] == ["pods.items[1]", "pods.items[2].spec.nodeName"]


def test_a_kubelet_that_has_just_started_empties_nothing() -> None:
    before = pods_of(a_pod("a")).pods
    after = pods_of(a_pod("b"))
    broken = read_pods("[")
    assert pods_now(before, PodList()) == before
    assert pods_now(before, broken) == before
    assert pods_now(before, after) == after.pods
    assert isinstance(broken, Problem)
