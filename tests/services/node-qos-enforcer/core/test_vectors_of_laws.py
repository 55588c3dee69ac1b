"""Reference cases of what strategies come to: caches, cores, disks, the network, memory, kernel settings."""

import msgspec
import pytest

from berth.contracts import names
from berth.contracts.base import Problem
from berth.node_qos_enforcer.core.cgroup_files import parse_memory_stat
from berth.node_qos_enforcer.core.knob_texts import is_same
from berth.node_qos_enforcer.core.laws import (
    bandwidth,
    block_io,
    cold_memory,
    core_scheduling,
    disks,
    group_identity,
    host_applications,
    kernel,
    oom_scores,
    page_cache,
    resctrl,
)
from berth.node_qos_enforcer.core.malformed import Malformed
from berth.node_qos_enforcer.core.proc import parse_meminfo
from berth.node_qos_enforcer.core.strategies.knobs import KNOBS, SCHED_FEATURES
from berth.testing.vectors import cases


def annotated(name, text):
    return {} if text is None else {name: text}


# --- caches and memory bandwidth ---


@pytest.mark.parametrize("case", cases("node-qos/resctrl-l3-mask"))
def test_cache_mask(case):
    given, expected = case["given"], case["expect"]["mask"]
    if expected is None:
        with pytest.raises(Malformed):
            resctrl.cache_mask(given["cbm"], given["start_percent"], given["end_percent"])
    else:
        assert f"{resctrl.cache_mask(given['cbm'], given['start_percent'], given['end_percent']):x}" == expected


@pytest.mark.parametrize("case", cases("node-qos/resctrl-mba"))
def test_memory_bandwidth(case):
    value = resctrl.class_bandwidth(case["given"]["vendor"], case["given"]["percent"])
    assert (None if value is None else str(value)) == case["expect"]["value"]


@pytest.mark.parametrize("case", cases("node-qos/resctrl-class-schemata"))
def test_schemata_of_a_class(case):
    given = case["given"]
    lines = resctrl.class_lines(
        cache_ids=given["cache_ids"],
        ways=given["cbm"],
        vendor=given["vendor"],
        start_percent=given["start_percent"],
        end_percent=given["end_percent"],
        bandwidth_percent=given["mba_percent"],
    )
    assert lines == (case["expect"]["l3"], case["expect"]["mb"])


@pytest.mark.parametrize("case", cases("node-qos/resctrl-pod-annotation"))
def test_schemata_of_a_pod(case):
    given = case["given"]
    request = resctrl.request_of({names.ANNOTATION_RESCTRL: given["annotation"]})
    assert isinstance(request, resctrl.Request)
    lines = resctrl.pod_lines(request, cache_ids=given["cache_ids"], ways=given["cbm"], vendor=given["vendor"])
    assert lines == (case["expect"]["l3"], case["expect"]["mb"])


@pytest.mark.parametrize("case", cases("node-qos/resctrl-schemata-parse"))
def test_schemata_read(case):
    lines = resctrl.parse_schemata(case["given"]["content"])
    assert {prefix: {str(cache): text for cache, text in values.items()} for prefix, values in lines.items()} == (
        case["expect"]["lines"]
    )


# --- cores ---


def core_rule(raw):
    parts = (
        {name: core_scheduling.ClassRule(**value) for name, value in raw[part].items()}
        for part in ("pod_by_label", "pod_by_kube_qos")
    )
    return core_scheduling.Rule(raw["enabled"], *parts)


@pytest.mark.parametrize("case", cases("node-qos/core-sched-rule"))
def test_rule_of_core_scheduling(case):
    given = case["given"]
    classes = {
        name.lower(): core_scheduling.ClassRule(
            given[name]["enable"], given[name]["coreExpeller"], given[name]["schedIdle"] == 1
        )
        for name in ("LSR", "LS", "BE")
    }
    assert core_scheduling.rule_of(given["policy"], **classes) == core_rule(case["expect"])


@pytest.mark.parametrize("case", cases("node-qos/core-sched-group"))
def test_group_of_core_scheduling(case):
    given = case["given"]
    group = core_scheduling.group_of(
        core_rule(given["rule"]), labels=given["labels"] or {}, kube_qos=given["kube_qos"], uid=given["uid"]
    )
    assert group == (case["expect"]["enabled"], case["expect"]["group"])


@pytest.mark.parametrize("case", cases("node-qos/group-identity-rule"))
def test_rule_of_identities(case):
    given = case["given"]
    classes = {name.lower(): group_identity.ClassRule(**_identity(given[name])) for name in ("LSR", "LS", "BE")}
    assert group_identity.rule_of(given["policy"] or "", **classes)._asdict() == case["expect"]


def _identity(raw):
    return {"enabled": raw["enable"], "value": raw["value"]}


@pytest.mark.parametrize("case", cases("node-qos/group-identity-pod"))
def test_identity_of_a_pod(case):
    given = case["given"]
    rule = given["rule"]
    if rule is None:
        assert case["expect"]["bvt"] is None  # without a rule nobody asks
        return
    parts = {"enabled": True, "pod_by_label": {}, "group_dir": {}, "pod_by_kube_qos": {}}
    value = group_identity.identity_of(
        group_identity.Rule(**{**parts, **rule}),
        qos=given["qos"],
        kube_qos=given["kube_qos"],
        annotations=annotated(names.ANNOTATION_CPU_QOS, given["annotation"]),
    )
    assert (None if isinstance(value, Problem) else value) == case["expect"]["bvt"]


# --- disks ---


@pytest.mark.parametrize("case", cases("node-qos/storage-scan"))
def test_storage(case):
    given, expected = case["given"], dict(case["expect"])
    known = given.get("known") or {}

    def read():
        if given["tool"] == "lsblk":
            return dict(zip(("disk_number", "partition_disk"), disks.read_lsblk(given["output"]), strict=True))
        if given["tool"] == "vgs":
            found = (known.get("disk_number", {}), known.get("partition_disk", {}))
            return {"vg_disk": disks.read_vgs(given["output"], lambda name: disks.disk_of_device(*found, name))}
        if given["tool"] == "lvs":
            return {"lv_vg": disks.read_lvs(given["output"])}
        return {"mount_device": disks.read_findmnt(given["output"])}

    if expected.get("error"):
        with pytest.raises(Malformed):
            read()
    else:
        assert read() == expected


@pytest.mark.parametrize("case", cases("node-qos/blkio-disk-lookup"))
def test_disk(case):
    given = case["given"]
    number = disks.number_of(
        disks.Disks(**given["maps"]),
        given["block"]["type"],
        given["block"]["name"],
        kubelet_root=given["kubelet_root"],
        pod_uid=given["pod_uid"],
        volume=given["volume"],
    )
    assert number == case["expect"]["disk"]


@pytest.mark.parametrize("case", cases("node-qos/blkio-lines"))
def test_lines_of_a_disk(case):
    given = case["given"]
    limits = None if given.get("remove") else msgspec.convert(given["iocfg"], block_io.Limits)
    if given["target"] == "root":
        assert block_io.root_lines(given["disk"], limits) == case["expect"]
    else:
        assert block_io.group_lines(given["disk"], limits or block_io.FREE) == case["expect"]


@pytest.mark.parametrize("case", cases("node-qos/blkio-need-update"))
def test_need_of_a_write(case):
    assert block_io.needs_write(case["given"]["current"], case["given"]["new"]) == case["expect"]["write"]


# --- the network ---


@pytest.mark.parametrize("case", cases("node-qos/tc-bandwidth"))
def test_bits(case):
    assert bandwidth.bits_of(case["given"]["total"], case["given"]["value"]) == case["expect"]["bps"]


@pytest.mark.parametrize("case", cases("node-qos/tc-class-id"))
def test_class_id(case):
    assert bandwidth.class_id(case["given"]["major"], case["given"]["minor"]) == case["expect"]["classid"]


@pytest.mark.parametrize("case", cases("node-qos/terway-node-config"))
def test_bandwidth_of_the_node(case):
    given = case["given"]
    total = bandwidth.bits_of(0, given["total_bandwidth"])
    levels = [bandwidth.level_in_bytes(total, given.get(name) or {}, name) for name in ("LS", "BE")]
    if case["expect"].get("error"):
        assert any(isinstance(level, Problem) for level in levels)
    else:
        assert bandwidth.terway_node_text(total, *levels) == case["expect"]["file"]


@pytest.mark.parametrize("case", cases("node-qos/terway-pod-entry"))
def test_bandwidth_of_a_pod(case):
    given = case["given"]
    limits = bandwidth.pod_limits(annotated(names.ANNOTATION_NETWORK_QOS, given["annotation"]))
    if case["expect"].get("error"):
        assert isinstance(limits, Problem)
        return
    entry = bandwidth.terway_pod(
        name="p",
        namespace="d",
        uid="u",
        level=bandwidth.level_of_pod(given["qos"], given["kube_qos"]),
        cgroup_dir="",
        limits=limits,
    )
    assert {"prio": entry["prio"], **entry["qosConfig"]} == case["expect"]


# --- memory ---


@pytest.mark.parametrize("case", cases("node-qos/oom-score-adj"))
def test_oom_score(case):
    score = oom_scores.score_of(case["given"]["annotations"] or {}, case["given"]["container"])
    if case["expect"].get("error"):
        assert isinstance(score, Problem)
    else:
        assert score == case["expect"]["oom_score_adj"]


@pytest.mark.parametrize("case", cases("node-qos/page-cache-limit"))
def test_page_cache(case):
    config = case["given"]["config"]
    limit = page_cache.page_cache_limit(
        size=config.get("pageCacheLimitSize"),
        percent=config.get("pageCacheLimitPercent"),
        enable=config.get("pageCacheEnable"),
        reclaim_sync=config.get("pageCacheReclaimSync"),
        memory_limit=case["given"].get("memory_limit", -1),
    )
    assert {name: value for name, value in limit._asdict().items() if value is not None} == case["expect"]


@pytest.mark.parametrize("case", cases("node-qos/idle-page-stats"))
def test_idle_pages(case):
    if case["expect"].get("error"):
        with pytest.raises(Malformed):
            cold_memory.parse_idle_pages(case["given"]["content"])
        return
    pages = cold_memory.parse_idle_pages(case["given"]["content"])
    rows = {name: list(values) for name, values in pages.rows.items()}
    got = {**pages._asdict(), **rows, "buckets": list(pages.buckets), "cold_bytes": pages.cold_bytes}
    assert {name: got[name] for name in case["expect"]} == case["expect"]


@pytest.mark.parametrize("case", cases("node-qos/memory-collect-policy"))
def test_used_memory(case):
    given = case["given"]

    def used():
        if given["scope"] == "node":
            return cold_memory.node_usage(given["policy"], parse_meminfo(given["content"]), given["cold_bytes"])
        return cold_memory.group_usage(given["policy"], parse_memory_stat(given["content"], 1), given["cold_bytes"])

    if case["expect"].get("error"):
        with pytest.raises(Malformed):
            used()
    else:
        assert used() == case["expect"]["bytes"]


# --- the kernel, and what is outside of pods ---


@pytest.mark.parametrize("case", cases("node-qos/system-config"))
def test_kernel_settings(case):
    settings = kernel.settings_of(case["given"]["strategy"], case["given"]["node_memory_bytes"])
    assert {path.rpartition("/")[2]: text for path, text in settings.items()} == case["expect"]


@pytest.mark.parametrize("case", cases("node-qos/sched-features"))
def test_scheduler_features(case):
    words = kernel.feature_words(case["given"]["want"]).values()
    current = case["given"]["current"]
    assert [each for each in words if not is_same(KNOBS[SCHED_FEATURES], current, each)] == case["expect"]["writes"]


@pytest.mark.parametrize("case", cases("node-qos/host-app-path"))
def test_group_of_a_host_application(case):
    app = case["given"]["app"]
    if app is None:
        assert case["expect"]["path"] == ""  # there is none to read
        return
    found = host_applications.application_of(app, case["given"].get("driver", "systemd"), "hostApplications[0]")
    assert found.group == case["expect"]["path"]
