"""Generators: deterministic, accepted by the API, with the promised mix."""

from collections import Counter

import pytest

from berth.simcluster import SimCluster, SimSettings
from berth.simcluster.generate import ClusterShape, WorkloadShape, generate_cluster, generate_workload
from berth.simcluster.generate.shares import NODE_CLASSES, POD_CLASSES

FULL = WorkloadShape(pods=200, gangs=4, gang_members=3, reservations=2, quota_groups=3, mean_duration_s=60)


def test_the_same_seed_makes_the_same():
    assert generate_cluster(ClusterShape(), seed=1) == generate_cluster(ClusterShape(), seed=1)
    assert generate_cluster(ClusterShape(), seed=1) != generate_cluster(ClusterShape(), seed=2)
    assert generate_workload(FULL, seed=1) == generate_workload(FULL, seed=1)
    assert generate_workload(FULL, seed=1) != generate_workload(FULL, seed=2)


def test_the_table_is_the_published_trace():
    assert sum(each.weight for each in NODE_CLASSES) == 1213
    assert sum(each.weight * each.gpus for each in NODE_CLASSES) == 6212
    assert sum(each.weight for each in POD_CLASSES) == 8152


def test_a_cluster_has_the_mix_of_the_trace():
    manifests = generate_cluster(ClusterShape(nodes=1213), seed=3)
    nodes = [each for each in manifests if each["kind"] == "Node"]
    devices = {each["metadata"]["name"]: each for each in manifests if each["kind"] == "Device"}
    models = Counter(node["metadata"]["labels"]["node.koordinator.sh/gpu-model"] for node in nodes)
    assert models == {"G2": 549, "T4": 404, "P100": 134, "V100M16": 55, "G3": 39, "V100M32": 30, "A10": 2}
    assert set(devices) == {node["metadata"]["name"] for node in nodes}
    assert sum(len(device["spec"]["devices"]) for device in devices.values()) == 6212


def test_devices_are_distinct_and_spread_over_numa_nodes():
    shape = ClusterShape(nodes=5, classes=(NODE_CLASSES[0],), rdma=True)
    device = generate_cluster(shape)[-1]
    gpus = [each for each in device["spec"]["devices"] if each["type"] == "gpu"]
    nics = [each for each in device["spec"]["devices"] if each["type"] == "rdma"]
    assert [gpu["minor"] for gpu in gpus] == list(range(8))
    assert len({gpu["id"] for gpu in gpus}) == len({gpu["topology"]["busID"] for gpu in gpus}) == 8
    assert Counter(gpu["topology"]["nodeID"] for gpu in gpus) == {0: 4, 1: 4}
    assert {gpu["topology"]["pcieID"] for gpu in gpus} == {nic["topology"]["pcieID"] for nic in nics}


def test_cpu_only_nodes_have_no_devices():
    manifests = generate_cluster(ClusterShape(nodes=10, cpu_only_share=0.3))
    assert Counter(each["kind"] for each in manifests) == {"Node": 10, "Device": 7}


def test_pods_follow_the_shares():
    pods = generate_workload(WorkloadShape(pods=8152), seed=5)
    asked = Counter(
        pod["spec"]["containers"][0]["resources"]["requests"].get("koordinator.sh/gpu-core") for pod in pods
    )
    assert abs(asked["100"] - 3911) < 250
    assert abs(asked["81"] - 1078) < 150
    assert abs(asked[None] - 1088) < 150
    qos = Counter(pod["metadata"]["labels"]["koordinator.sh/qosClass"] for pod in pods)
    assert abs(qos["BE"] - 3398) < 250
    assert {pod["spec"]["schedulerName"] for pod in pods} == {"berth-scheduler"}


def test_gangs_in_both_ways_and_quotas_that_compete():
    manifests = generate_workload(FULL, seed=1)
    kinds = Counter(each["kind"] for each in manifests)
    assert kinds == {"Pod": 200 + 12 + 2, "PodGroup": 2, "Reservation": 2, "ElasticQuota": 4}
    pods = [each for each in manifests if each["kind"] == "Pod"]
    by_label = Counter(pod["metadata"]["labels"].get("pod-group.scheduling.sigs.k8s.io") for pod in pods)
    assert (by_label["gang-0000"], by_label["gang-0002"]) == (3, 3)
    named = Counter(pod["metadata"].get("annotations", {}).get("gang.scheduling.koordinator.sh/name") for pod in pods)
    assert (named["gang-0001"], named["gang-0003"]) == (3, 3)
    groups = Counter(pod["metadata"]["labels"]["quota.scheduling.koordinator.sh/name"] for pod in pods)
    quotas = {q["metadata"]["name"]: q["spec"] for q in manifests if q["kind"] == "ElasticQuota"}
    assert set(groups) <= set(quotas)
    asked = sum(
        int(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"][:-1])
        for pod in pods
        if pod["metadata"]["labels"]["quota.scheduling.koordinator.sh/name"] == "team-0"
    )
    assert asked > int(quotas["team-0"]["min"]["cpu"][:-1])


def test_the_api_accepts_everything():
    sim = SimCluster(SimSettings())
    shape = WorkloadShape(pods=50, gangs=2, reservations=2, quota_groups=2, priority_classes=True, namespace="team")
    manifests = [*generate_cluster(ClusterShape(nodes=20, rdma=True)), *generate_workload(shape)]
    assert sim.load(manifests) == len(manifests)
    with pytest.raises(ValueError, match="already exists"):
        sim.load(manifests)


@pytest.mark.parametrize(
    ("shape", "field"),
    [
        (ClusterShape(nodes=-1), "nodes"),
        (ClusterShape(nodes=10**9), "nodes"),
        (ClusterShape(cpu_only_share=float("nan")), "cpu_only_share"),
        (ClusterShape(classes=()), "classes"),
        (ClusterShape(zones=0), "zones"),
    ],
)
def test_senseless_clusters_are_refused(shape, field):
    with pytest.raises(ValueError, match=field):
        generate_cluster(shape)


@pytest.mark.parametrize(
    ("shape", "field"),
    [
        (WorkloadShape(pods=-1), "pods"),
        (WorkloadShape(gang_members=0), "gang_members"),
        (WorkloadShape(mean_duration_s=float("nan")), "mean_duration_s"),
        (WorkloadShape(classes=()), "classes"),
    ],
)
def test_senseless_workloads_are_refused(shape, field):
    with pytest.raises(ValueError, match=field):
        generate_workload(shape)
