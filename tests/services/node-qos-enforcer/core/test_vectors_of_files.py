"""Reference cases of the parsers: /proc, control-group files and paths, what counts as used memory."""

import pytest

from berth.node_qos_enforcer.core import cgroup_files, cgroup_paths, proc
from berth.node_qos_enforcer.core.laws import cpu_values
from berth.node_qos_enforcer.core.malformed import Malformed
from berth.node_qos_enforcer.core.pressure import parse_pressure
from berth.testing.vectors import cases


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
    "pressure": pressure,
    "key-value": lambda text: {"map": proc.parse_key_values(text)},
    "/proc/cpuinfo vendor": lambda text: {"vendor": proc.parse_vendor(text)},
    "kernel cmdline rdt": lambda text: proc.parse_rdt(text)._asdict(),
}


@pytest.mark.parametrize("case", cases("node-qos/proc-parse"))
def test_proc(case):
    check(case, lambda: PROC[case["given"]["file"]](case["given"]["content"]))


def memory_stat(text, version):
    stat = cgroup_files.parse_memory_stat(text, version)
    return {**stat._asdict(), "usage_without_page_cache": stat.usage_without_page_cache}


def throttling(text, version):
    periods, throttled, throttled_ns = cgroup_files.parse_throttling(text, version)
    return {"nr_periods": periods, "nr_throttled": throttled, "throttled_ns": throttled_ns}


CGROUP = {
    "cpu.stat usage": lambda text, version: {"usage_ns": cgroup_files.parse_cpu_usage_ns(text, version)},
    "memory.stat": memory_stat,
    "cpu.stat": throttling,
}


@pytest.mark.parametrize("case", cases("node-qos/cgroup-file-parse"))
def test_cgroup_file(case):
    check(case, lambda: CGROUP[case["given"]["file"]](case["given"]["content"], case["given"]["version"]))


CONVERSIONS = {
    "cpu_max_to_quota": lambda value: cgroup_files.parse_bandwidth(value).quota_us,
    "milli_to_shares": cpu_values.milli_to_shares,
    "milli_to_quota": cpu_values.milli_to_quota_us,
    "shares_to_weight": cpu_values.shares_to_weight,
}


@pytest.mark.parametrize("case", cases("node-qos/cgroup-value-conversion"))
def test_value(case):
    given = case["given"]
    check(case, lambda: {"value": CONVERSIONS[given["conversion"]](given["value"])})


@pytest.mark.parametrize("case", cases("node-qos/cgroup-path"))
def test_path(case):
    given = case["given"]
    driver, qos = given["driver"], given["kube_qos"]
    pod = cgroup_paths.pod_dir(driver, qos, given["pod_uid"])
    assert pod == case["expect"]["pod_dir"]
    above, _, name = pod.rpartition("/")
    assert cgroup_paths.qos_dir(driver, qos) == above
    assert cgroup_paths.pod_uid_of(driver, name) == given["pod_uid"]


@pytest.mark.parametrize("case", cases("node-qos/cgroup-path-parse"))
def test_path_parse(case):
    given = case["given"]
    read = cgroup_paths.pod_id_of if given["kind"] == "pod" else cgroup_paths.container_id_of
    assert read(given["driver"], given["basename"]) == case["expect"]["id"]


def test_malformed_names_the_file():
    with pytest.raises(Malformed, match=r"^cpu\.stat: usage_usec is missing$"):
        cgroup_files.parse_cpu_usage_ns("nr_throttled 1\nthrottled_usec 2", 2)
