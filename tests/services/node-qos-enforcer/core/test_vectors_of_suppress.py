"""Reference cases of CPU suppress: the target, the quota's steps, the choice of CPUs."""

import json

import pytest

from berth.contracts import names
from berth.contracts.state import Node
from berth.node_qos_enforcer.core.choose import choose_cpus, choose_from_pool
from berth.node_qos_enforcer.core.cpuset import parse_cpuset
from berth.node_qos_enforcer.core.laws.host_applications import is_best_effort
from berth.node_qos_enforcer.core.node_facts import facts_of
from berth.node_qos_enforcer.core.suppress import HostApp, Pod, quota_step, suppress_target
from berth.node_qos_enforcer.core.topology import Processor
from berth.rules.cpus.cpuset import format_cpuset
from berth.testing.vectors import cases


@pytest.mark.parametrize("case", cases("node-qos/suppress-target-cpu"))
def test_target(case):
    given = case["given"]
    target = suppress_target(
        capacity_milli=given["capacity_milli"],
        allocatable_milli=given.get("allocatable_milli"),
        annotation_reserved_milli=given.get("annotation_reserved_milli", 0),
        node_used_cores=given["node_used_cores"],
        pod_used_cores=given["pod_used_cores"],
        pods=[Pod(pod["uid"], pod.get("qos", ""), pod.get("kube_qos", "")) for pod in given["pods"]],
        threshold_percent=given["threshold_percent"],
        min_percent=given.get("min_percent"),
        host_apps=[
            HostApp(app["name"], is_best_effort(app.get("qos", ""), app.get("cgroup_base", "")))
            for app in given.get("host_apps", [])
        ],
        host_app_used_cores=given.get("host_app_used_cores"),
    )
    assert target.target_milli == case["expect"]["target_milli"]


@pytest.mark.parametrize("case", cases("node-qos/suppress-cfs-quota"))
def test_quota_step(case):
    given = case["given"]
    step = quota_step(
        target_milli=given["target_milli"], current_quota_us=given["current_quota"], node_cores=given["node_cores"]
    )
    assert step == case["expect"]["write"]


@pytest.mark.parametrize("case", cases("node-qos/suppress-cpuset-choice"))
def test_choice_from_one_pool(case):
    pool = [Processor(*row) for row in case["given"]["processors"]]
    assert choose_from_pool(case["given"]["want"], pool) == case["expect"]["cpus"]


@pytest.mark.parametrize("case", cases("node-qos/suppress-cpuset-pools"))
def test_choice_from_all_pools(case):
    given = case["given"]
    notes = {}
    if given.get("reserved_cpus"):
        notes[names.ANNOTATION_NODE_RESERVATION] = json.dumps({"reservedCPUs": given["reserved_cpus"]})
    if given.get("system_qos"):
        notes[names.ANNOTATION_NODE_SYSTEM_QOS] = json.dumps(given["system_qos"])
    held = {qos: [parse_cpuset(pod["cpuset"]) for pod in given["pods"] if pod["qos"] == qos] for qos in ("LSR", "LSE")}
    facts = facts_of(Node(name="n", uid="u", version=1, annotations=notes))
    cpus = choose_cpus(
        target_milli=given["target_milli"],
        processors=[Processor(*row) for row in given["processors"]],
        current=parse_cpuset(given["old_cpuset"]),
        reserved=facts.reserved_cpus,
        exclusive_system=facts.system_cpus,
        lsr=frozenset().union(*held["LSR"]),
        lse=frozenset().union(*held["LSE"]),
    )
    assert cpus == case["expect"]["cpus"]
    assert (format_cpuset(cpus) if cpus else None) == case["expect"]["applied_cpuset"]
