"""Reference cases of what strategies decide by."""

import pytest

from berth.contracts.names import LABEL_QOS
from berth.node_qos_enforcer.core.cgroup_files import parse_bandwidth, parse_bandwidth_v1
from berth.node_qos_enforcer.core.knob_texts import first_pass, quota_of_milli, quota_value
from berth.node_qos_enforcer.core.malformed import Malformed
from berth.node_qos_enforcer.core.strategies import batch_law as batch
from berth.node_qos_enforcer.core.strategies import cpu_burst_law as burst
from berth.node_qos_enforcer.core.strategies import memory_law as memory
from berth.node_qos_enforcer.core.strategies.node_slo import effective_section
from berth.testing.vectors import cases


@pytest.mark.parametrize("case", cases("node-qos/node-slo-merge"))
def test_a_section_over_its_defaults(case):
    given = case["given"]
    assert effective_section(given["section"], given["spec"]) == case["expect"]["merged"]


@pytest.mark.parametrize("case", cases("node-qos/cpu-burst-config-merge"))
def test_what_holds_for_a_bursting_pod(case):
    assert burst.merged(case["given"]["node"], case["given"]["annotation"]) == case["expect"]["config"]


@pytest.mark.parametrize("case", cases("node-qos/cpu-burst-limiter"))
def test_credit(case):
    given, expect = case["given"], case["expect"]
    credit = burst.spent(
        given["period_seconds"],
        given["max_percent"],
        given["tokens"],
        given["elapsed_seconds"],
        given["usage_percent"],
    )
    assert (*credit, credit.is_allowed) == (expect["capacity"], expect["tokens"], expect["allowed"])


@pytest.mark.parametrize("case", cases("node-qos/cpu-burst-node-state"))
def test_state_of_the_shared_cpus(case):
    given = case["given"]
    pods = [burst.PoolPod(each["qos"], each["request_milli"], each.get("used_cores")) for each in given["pods"]]
    state = burst.node_state(given["node_used_cores"], given["node_cpus"], given["threshold_percent"], pods)
    assert state == case["expect"]["state"]


@pytest.mark.parametrize("case", cases("node-qos/cpu-burst-static"))
def test_what_the_kernel_lets_containers_save(case):
    given, expect = case["given"], case["expect"]
    found = {
        name: burst.kernel_burst_us(limit, given["policy"], given["cpu_burst_percent"])
        for name, limit in given["container_limit_milli"].items()
    }
    assert (found, sum(found.values())) == (expect["containers"], expect["pod"])


@pytest.mark.parametrize("case", cases("node-qos/cpu-burst-quota-step"))
def test_a_round_of_quota_burst(case):
    given, expect = case["given"], case["expect"]
    operations, before, after = {}, {}, {}
    for each in given["containers"]:
        name, limit = each["name"], each["limit_milli"]
        before[name] = after[name] = each["current_quota"]
        if limit is None:
            operations[name] = "Skip"
            continue
        operations[name] = burst.operation(
            given["policy"],
            given["node_state"],
            throttled=each["throttled_ratio"],
            is_allowed=each.get("limiter_allows", True),
        )
        after[name] = burst.next_quota(
            operations[name], quota_of_milli(limit), each["current_quota"], given["cfs_quota_burst_percent"]
        )
    pod = burst.pod_quota(given["pod_quota"], list(before.values()), list(after.values()))
    assert (operations, after, pod) == (expect["operations"], expect["container_quota"], expect["pod_quota"])


@pytest.mark.parametrize("case", cases("node-qos/batch-resource"))
def test_batch_limits(case):
    given = case["given"]
    spec = {name: batch.Sizes(each.get("requests", {}), each.get("limits", {})) for name, each in given["spec"].items()}
    found = batch.batch_limits(
        spec,
        qos=given["qos"],
        container=given.get("container"),
        has_quota=given.get("cfs_quota_enabled", True),
        ratio=given.get("ratio"),
    )
    assert ({} if found is None else found._asdict()) == case["expect"]


@pytest.mark.parametrize("case", cases("node-qos/memory-qos-merge"))
def test_what_holds_for_the_memory_of_a_pod(case):
    given = case["given"]
    labels = {LABEL_QOS: given["qos"]} if given["qos"] else {}
    assert memory.merged(labels, given["kube_qos"], given["node"], given["annotation"]) == case["expect"]["config"]


@pytest.mark.parametrize("case", cases("node-qos/memory-qos-container"))
def test_memory_of_a_container(case):
    given = case["given"]
    found = memory.container_values(
        given["config"], given.get("request") or 0, given.get("limit"), given["node_allocatable"]
    )
    assert found == case["expect"]


@pytest.mark.parametrize("case", cases("node-qos/memory-qos-qos-level"))
def test_memory_of_classes(case):
    pods = [
        memory.Protected(each["kube_qos"], each["request"], each.get("config") or {}) for each in case["given"]["pods"]
    ]
    assert memory.class_values(pods) == case["expect"]


@pytest.mark.parametrize("case", cases("node-qos/merge-condition"))
def test_the_first_pass_of_a_levelled_write(case):
    given, expect = case["given"], case["expect"]
    within = "union" if given["rule"] == "cpuset" else "smaller"

    def first() -> str | None:
        old, new = given["old"], given["new"]
        if given["rule"] == "cfs_quota":
            old = quota_value(parse_bandwidth(old) if given["version"] == 2 else parse_bandwidth_v1(old, "100000"))
        return first_pass(within, old, new)

    if "error" in expect:
        with pytest.raises(Malformed):
            first()
    else:
        assert first() == expect["write"]
