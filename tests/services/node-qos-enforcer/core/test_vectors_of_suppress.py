"""Reference cases of CPU suppress: the target, the quota's steps, the choice of CPUs."""

import json
from pathlib import Path

import pytest

from berth.node_qos_enforcer.core.choose import PinnedCpus, choose_cpus, choose_from_pool
from berth.node_qos_enforcer.core.cpuset import format_cpuset, parse_cpuset
from berth.node_qos_enforcer.core.suppress import HostApp, Pod, quota_step, suppress_target
from berth.node_qos_enforcer.core.topology import Processor

VECTORS = Path(__file__).parents[3] / "vectors" / "node-qos"


def cases(name: str):
    return [pytest.param(case, id=case["name"]) for case in json.loads((VECTORS / f"{name}.json").read_text())["cases"]]


@pytest.mark.parametrize("case", cases("suppress-target-cpu"))
def test_target(case):
    given = case["given"]
    target = suppress_target(
        capacity_milli=given["capacity_milli"],
        allocatable_milli=given.get("allocatable_milli"),
        annotation_reserved_milli=given.get("annotation_reserved_milli", 0),
        node_used_cores=given["node_used_cores"],
        pod_used_cores=given["pod_used_cores"],
        pods=[Pod(pod["uid"], pod.get("qos", ""), pod.get("kube_qos", "")) for pod in given["pods"]],
        host_app_used_cores=given.get("host_app_used_cores", {}),
        host_apps=[
            HostApp(app["name"], app.get("qos", ""), app.get("cgroup_base", "")) for app in given.get("host_apps", [])
        ],
        threshold_percent=given["threshold_percent"],
        min_percent=given.get("min_percent"),
    )
    assert target.target_milli == case["expect"]["target_milli"]


@pytest.mark.parametrize("case", cases("suppress-cfs-quota"))
def test_quota_step(case):
    given = case["given"]
    step = quota_step(
        target_milli=given["target_milli"], current_quota_us=given["current_quota"], node_cores=given["node_cores"]
    )
    assert step == case["expect"]["write"]


@pytest.mark.parametrize("case", cases("suppress-cpuset-choice"))
def test_choice_from_one_pool(case):
    pool = [Processor(*row) for row in case["given"]["processors"]]
    assert choose_from_pool(case["given"]["want"], pool) == case["expect"]["cpus"]


@pytest.mark.parametrize("case", cases("suppress-cpuset-pools"))
def test_choice_from_all_pools(case):
    given = case["given"]
    system = given.get("system_qos") or {}
    exclusive = parse_cpuset(system.get("cpuset", "")) if system.get("cpusetExclusive", True) else frozenset()
    cpus = choose_cpus(
        target_milli=given["target_milli"],
        processors=[Processor(*row) for row in given["processors"]],
        current=parse_cpuset(given["old_cpuset"]),
        pinned=[PinnedCpus(pod["qos"], parse_cpuset(pod["cpuset"])) for pod in given["pods"]],
        reserved=parse_cpuset(given.get("reserved_cpus") or ""),
        exclusive_system=exclusive,
    )
    assert cpus == case["expect"]["cpus"]
    assert (format_cpuset(cpus) if cpus else None) == case["expect"]["applied_cpuset"]
