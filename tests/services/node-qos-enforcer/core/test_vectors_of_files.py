"""Reference cases of the parsers: /proc, lscpu, control-group files and paths, policies, aggregations, classes."""

import json
from pathlib import Path

import pytest

from berth.node_qos_enforcer.core import cgroup_files, cgroup_paths, memory_policy, pod_class, proc
from berth.node_qos_enforcer.core.aggregate import Sample, aggregate
from berth.node_qos_enforcer.core.malformed import Malformed, counter
from berth.node_qos_enforcer.core.pressure import parse_pressure
from berth.node_qos_enforcer.core.topology import parse_lscpu

VECTORS = Path(__file__).parents[3] / "vectors" / "node-qos"


def cases(name: str):
    return [pytest.param(case, id=case["name"]) for case in json.loads((VECTORS / f"{name}.json").read_text())["cases"]]


def check(case, compute):
    """Compare what is computed with what is expected; a refusal counts as `error`."""
    if case["expect"].get("error"):
        with pytest.raises(ValueError, match=r"."):
            compute()
    else:
        got = compute()
        assert {key: got[key] for key in case["expect"]} == case["expect"]


def pressure(text):
    pair = parse_pressure(text)
    return {"full_supported": pair.full is not None, "some": list(pair.some), "full": pair.full and list(pair.full)}


PROC = {
    "/proc/stat total": lambda text: {"ticks": proc.parse_cpu_ticks(text)},
    "/proc/stat per-cpu": lambda text: {"ticks": proc.parse_per_cpu_ticks(text)},
    "/proc/pid/stat": lambda text: proc.parse_pid_stat(text)._asdict(),
    "pressure": pressure,
    "key-value": lambda text: {"map": proc.parse_key_values(text)},
    "/proc/cpuinfo vendor": lambda text: {"vendor": proc.parse_cpu_vendor(text)},
    "kernel cmdline rdt": lambda text: proc.parse_cmdline_rdt(text)._asdict(),
    "lscpu": lambda text: {"processors": [list(row) for row in parse_lscpu(text)]},
}


@pytest.mark.parametrize("case", cases("proc-parse"))
def test_proc(case):
    check(case, lambda: PROC[case["given"]["file"]](case["given"]["content"]))


def memory_stat(text, version):
    stat = cgroup_files.parse_memory_stat(text, version)
    return {**stat._asdict(), "usage_without_page_cache": stat.usage_without_page_cache}


CGROUP = {
    "cpu.stat": lambda text, version: cgroup_files.parse_throttling(text, version)._asdict(),
    "cpu.stat usage": lambda text, version: {"usage_ns": cgroup_files.parse_cpu_usage_ns(text, version)},
    "memory.stat": memory_stat,
    "memory.numa_stat": lambda text, version: {
        "pages": [list(item) for item in cgroup_files.parse_numa_pages(text, version).items()]
    },
}


@pytest.mark.parametrize("case", cases("cgroup-file-parse"))
def test_cgroup_file(case):
    check(case, lambda: CGROUP[case["given"]["file"]](case["given"]["content"], case["given"]["version"]))


CONVERSIONS = {
    "milli_to_shares": cgroup_files.shares_of_milli,
    "milli_to_quota": cgroup_files.quota_of_milli,
    "shares_to_weight": lambda text: cgroup_files.weight_of_shares(counter("cpu.shares", "shares", text)),
    "weight_to_shares": cgroup_files.shares_of_weight,
    "cpu_max_to_quota": lambda text: cgroup_files.parse_bandwidth(text).quota_us,
}


@pytest.mark.parametrize("case", cases("cgroup-value-conversion"))
def test_conversion(case):
    check(case, lambda: {"value": CONVERSIONS[case["given"]["conversion"]](case["given"]["value"])})


@pytest.mark.parametrize("case", cases("cgroup-path"))
def test_path(case):
    given, want = case["given"], case["expect"]
    assert cgroup_paths.pod_dir(given["driver"], given["kube_qos"], given["pod_uid"]) == want["pod_dir"]
    if "container_dir" in want:
        got = cgroup_paths.container_dir(given["driver"], given["kube_qos"], given["pod_uid"], given["container_id"])
        assert got == want["container_dir"]


@pytest.mark.parametrize("case", cases("cgroup-path-parse"))
def test_path_parse(case):
    given = case["given"]
    parse = cgroup_paths.pod_id_of if given["kind"] == "pod" else cgroup_paths.container_id_of
    assert parse(given["driver"], given["basename"]) == case["expect"]["id"]


@pytest.mark.parametrize("case", cases("host-app-path"))
def test_host_app_path(case):
    app = case["given"]["app"]
    if app is None:
        assert case["expect"]["path"] == ""
        return
    place = app.get("cgroupPath")
    where = {} if place is None else {"base": place["base"]}
    got = cgroup_paths.host_app_dir(
        case["given"].get("driver", "systemd"),
        app["name"],
        app.get("qos", ""),
        parent_dir=(place or {}).get("parentDir", ""),
        relative_path=(place or {}).get("relativePath", ""),
        **where,
    )
    assert got == case["expect"]["path"]


@pytest.mark.parametrize("case", cases("memory-collect-policy"))
def test_memory_policy(case):
    given = case["given"]

    def compute():
        if given["scope"] == "node":
            info = proc.parse_meminfo(given["content"])
            return {"bytes": memory_policy.node_memory_bytes(info, given["policy"], cold_bytes=given["cold_bytes"])}
        stat = cgroup_files.parse_memory_stat(given["content"], 1)
        return {"bytes": memory_policy.cgroup_memory_bytes(stat, given["policy"], cold_bytes=given["cold_bytes"])}

    check(case, compute)


@pytest.mark.parametrize("case", cases("metric-aggregation"))
def test_aggregation(case):
    samples = [Sample(*pair) for pair in case["given"]["samples"]]
    check(case, lambda: {"value": aggregate(samples, case["given"]["aggregation"])})


@pytest.mark.parametrize("case", cases("pod-request-by-class"))
def test_request_by_class(case):
    pod = case["given"]["pod"]
    kube_qos = pod_class.kube_qos_of_requests(pod["containers"])
    klass = pod_class.priority_class(
        label=pod.get("priority_class_label"),
        priority=pod.get("priority"),
        qos=pod_class.qos_with_default(pod.get("qos", ""), kube_qos),
    )
    name, amount = pod_class.class_request(pod["containers"], klass, case["given"]["resource"])
    assert {"resource": name, "amount": amount} == case["expect"]


def test_malformed_names_the_file():
    with pytest.raises(Malformed, match=r"^cpu\.stat: nr_periods is missing$"):
        cgroup_files.parse_throttling("nr_throttled 1\nthrottled_usec 2", 2)
