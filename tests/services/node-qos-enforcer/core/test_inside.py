"""What a container is to have, from a pod's annotations and the node's facts."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.libs.vendors.fake_probe import FakeProbe
from tests.services.node_qos_builders import (
    BEST_EFFORT,
    FACTS,
    GPU,
    LAYOUT,
    container,
    gpu,
    inventory,
    pod,
)

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.grants import CPU, device, one
from berth.contracts.inventory import DeviceSlot, NodeInventory
from berth.contracts.state import DeviceContainer, DeviceFunction, PodTemplate
from berth.node_qos_enforcer.core.inside.board import RETRY_S, Board
from berth.node_qos_enforcer.core.inside.cpus import Wanted, wanted_limits
from berth.node_qos_enforcer.core.inside.creation import adjustment
from berth.node_qos_enforcer.core.inside.devices import device_edits
from berth.node_qos_enforcer.core.inside.facts import InsideFacts
from berth.node_qos_enforcer.core.inside.findings import FINDINGS_MAX, Findings, Key
from berth.node_qos_enforcer.core.inside.groups import pod_group
from berth.node_qos_enforcer.core.inside.lacking import lacking
from berth.node_qos_enforcer.core.inside.seen import BEFORE, Limits, container_seen, pod_seen
from berth.node_qos_enforcer.core.node_facts import NodeFacts
from berth.nri import api_pb2 as api
from berth.rules.cpus.cpuset import format_cpuset
from berth.rules.cpus.kubelet import Checkpoint, HeldCpus, NodePod
from berth.rules.cpus.layout import Cpu, CpuLayout
from berth.rules.cpus.shared_pools import Pool, SharedPools, shared_pools
from berth.rules.records.binds import annotations_of
from berth.rules.records.seam import Bound
from berth.testing.vectors import cases
from berth.vendors.vendor import Edits

POOLS = shared_pools(LAYOUT)
NO_LIMITS = Limits()


def wanted(
    of: api.PodSandbox, facts: InsideFacts = FACTS, base: Limits = NO_LIMITS, pools: SharedPools = POOLS
) -> Wanted:
    return wanted_limits(pod_seen(of), base, pools, facts)


# --- CPUs and quota ---------------------------------------------------------------------------------------------------


def test_a_pod_with_cpus_of_its_own_has_them_and_no_quota() -> None:
    assert wanted(pod(qos="LSR", cpus="2-3"), base=Limits("", 200_000)) == Wanted("2-3", -1)


def test_others_have_what_is_left() -> None:
    pools = shared_pools(LAYOUT, pods=[NodePod("a", "LSR", frozenset({2, 3}))])
    assert wanted(pod(qos="LS"), pools=pools).cpus == "0-1,4-7"
    assert wanted(pod(), pools=pools).cpus == "0-1,4-7"
    assert wanted(pod(parent=BEST_EFFORT), pools=pools) == Wanted()


def test_cpus_of_system_pods_are_theirs_also_where_they_share_them() -> None:
    facts = replace(FACTS, node=NodeFacts(system_pod_cpus=frozenset({6, 7})))
    assert wanted(pod(qos="SYSTEM"), facts).cpus == "6-7"


def test_kubelets_own_choice_is_left_alone() -> None:
    facts = replace(FACTS, checkpoint=Checkpoint("static"))
    assert wanted(pod(), facts) == Wanted()
    assert wanted(pod(qos="LS"), facts).cpus == "0-3,4-7"


@pytest.mark.parametrize(
    ("record", "field"),
    [
        ("{", ""),
        ('{"cpuset":"0-99999999"}', ".cpuset"),
        ('{"cpuset":"3-1"}', ".cpuset"),
        ('{"numaNodeResources":[{"node":-1}]}', ""),
        ('{"numaNodeResources":[{"node":0,"resources":{"cpu":"x"}}]}', ".numaNodeResources[0].resources"),
        ("[" * 100_000, ""),
    ],
)
def test_a_record_that_cannot_be_read_leaves_the_container_alone(record: str, field: str) -> None:
    found = wanted(pod(annotations={names.ANNOTATION_RESOURCE_STATUS: record}))
    assert (found.cpus, found.quota_us) == (None, None)
    assert found.problem is not None
    expected = f"pods[work/web].metadata.annotations[{names.ANNOTATION_RESOURCE_STATUS}]{field}"
    assert found.problem.field.startswith(expected)


def test_cpus_that_are_not_there_are_named_and_the_others_given() -> None:
    some = wanted(pod(qos="LSR", cpus="6-9"))
    assert (some.cpus, some.quota_us) == ("6-7", -1)
    assert some.problem is not None
    assert "CPUs 8-9 are not online" in some.problem.message
    none = wanted(pod(qos="LSR", cpus="8-9"))
    assert (none.cpus, none.quota_us, none.problem is not None) == (None, None, True)
    assert wanted(pod(qos="LSR", cpus="8-9"), InsideFacts()) == Wanted("8-9", -1), "nothing is known of the node"


def test_no_cpu_left_in_a_zone_is_told() -> None:
    record = json.dumps({"numaNodeResources": [{"node": 1, "resources": {"cpu": "2"}}]})
    pools = shared_pools(LAYOUT, pods=[NodePod("a", "LSR", frozenset({4, 5, 6, 7}))])
    found = wanted(pod(annotations={names.ANNOTATION_RESOURCE_STATUS: record}), pools=pools)
    assert found.cpus is None
    assert found.problem is not None
    assert "NUMA node 1" in found.problem.message


def test_a_quota_means_the_same_work_on_every_node() -> None:
    facts = replace(FACTS, node=NodeFacts(cpu_ratio=1.2))
    assert wanted(pod(qos="LS"), facts, Limits("", 100_000)).quota_us == 83_334
    assert wanted(pod(qos="LS"), facts, Limits("", -1)).quota_us is None
    assert wanted(pod(qos="BE"), facts, Limits("", 100_000)).quota_us is None
    assert wanted(pod(qos="LSR", cpus="1"), facts, Limits("", 100_000)).quota_us == -1
    assert wanted(pod(qos="LS"), replace(facts, node=NodeFacts(cpu_ratio=1.0)), Limits("", 100_000)).quota_us == 100_000


@pytest.mark.parametrize("case", cases("node-qos/cpuset-hook"))
def test_cpuset_hook(case: dict[str, Any]) -> None:
    told, expect = case["given"], case["expect"]

    def pools(listed: Any) -> tuple[Pool, ...]:
        return tuple(Pool(each["socket"], each["node"], cpu_list(each["cpuset"])) for each in listed or ())

    record = told.get("resource_status")
    of = pod(
        qos=told["qos"],
        annotations={} if record is None else {names.ANNOTATION_RESOURCE_STATUS: record},
        parent=told["cgroup_parent"],
    )
    facts = InsideFacts(
        node=NodeFacts(system_pod_cpus=cpu_list(told.get("system_cpuset", ""))),
        checkpoint=Checkpoint(told.get("kubelet_policy", "")),
    )
    found = wanted(of, facts, pools=SharedPools(pools(told["pools"]), pools(told.get("be_pools"))))
    assert (found.problem is not None) is expect.get("error", False)
    if not told.get("be_cpu_manager", False):
        # An empty list says the same to a runtime as none.
        assert (found.cpus or "") == (expect.get("cpuset") or "")


def cpu_list(text: str) -> frozenset[int]:
    from berth.rules.cpus.cpuset import read_cpuset

    found = read_cpuset(text, "case")
    assert not isinstance(found, Problem)
    return found


# --- devices ----------------------------------------------------------------------------------------------------------

KNOWN = replace(FACTS, inventory=inventory(*range(8)))


def edits_of(of: api.PodSandbox, name: str = "main", facts: InsideFacts = KNOWN, probe: Any = None) -> Edits | Problem:
    return device_edits(pod_seen(of), name, facts, probe or FakeProbe())


def env_of(of: api.PodSandbox, name: str = "main", facts: InsideFacts = KNOWN) -> dict[str, str]:
    found = edits_of(of, name, facts)
    assert isinstance(found, Edits), found
    return dict(found.env)


def test_every_container_has_all_devices_unless_something_else_is_said() -> None:
    both = {"gpu": [gpu(0), gpu(1)]}
    assert env_of(pod(devices=both)) == {"NVIDIA_VISIBLE_DEVICES": f"{GPU}0,{GPU}1"}
    assert env_of(pod(devices=both, containers={})) == {"NVIDIA_VISIBLE_DEVICES": f"{GPU}0,{GPU}1"}
    shared = pod(devices=both, containers={"init": {"gpu": [gpu(0), gpu(1)]}, "train": {"gpu": [{"minor": 1}]}})
    assert env_of(shared, "init") == {"NVIDIA_VISIBLE_DEVICES": f"{GPU}0,{GPU}1"}
    assert env_of(shared, "train") == {"NVIDIA_VISIBLE_DEVICES": f"{GPU}1"}
    assert env_of(shared, "sidecar") == {}


def test_a_part_of_a_part_has_limits_of_its_own() -> None:
    label = {names.LABEL_GPU_ISOLATION: "hami-core"}
    of = pod(devices={"gpu": [gpu(0, ratio=60)]}, containers={"main": {"gpu": [gpu(0, ratio=20)]}}, labels=label)
    env = env_of(of)
    assert env["CUDA_DEVICE_MEMORY_LIMIT"] == str(20 << 20)
    assert env["CUDA_DEVICE_SM_LIMIT"] == "20"


def test_each_container_has_what_the_bind_wrote_for_it_and_the_cpus_of_its_pod() -> None:
    asks: dict[str, dict[str, int]] = {
        "train": {names.GPU_CORE: 30, names.GPU_MEMORY_RATIO: 30},
        "serve": {names.GPU_CORE: 70, names.GPU_MEMORY_RATIO: 70},
        "log": {},
    }
    containers = [DeviceContainer(name=name, requests=requests) for name, requests in asks.items()]
    template = PodTemplate(
        requests={names.GPU_CORE: 100, names.GPU_MEMORY_RATIO: 100},
        device_containers=[*containers, DeviceContainer(name="init", init=True)],
    )
    card = device("gpu", 1, {names.GPU_CORE: 100, names.GPU_MEMORY_RATIO: 100, names.GPU_MEMORY: 100 << 20})
    grants = (card, one(CPU, "2"), one(CPU, "3"))
    notes = annotations_of(Bound("p", grants, template=template, uuids={("gpu", "1"): f"{GPU}1"}))
    of = pod(qos="LSR", annotations=notes, labels={names.LABEL_GPU_ISOLATION: "hami-core"})
    facts = replace(FACTS, inventory=inventory(0, 1))
    found = {name: env_of(of, name, facts) for name in (*asks, "init")}
    limits = {
        name: (env["CUDA_DEVICE_MEMORY_LIMIT"], env["CUDA_DEVICE_SM_LIMIT"])
        for name, env in found.items()
        if len(env) > 1
    }
    assert limits == {"train": (str(30 << 20), "30"), "serve": (str(70 << 20), "70")}
    assert found["log"] == {}
    assert found["init"] == {"NVIDIA_VISIBLE_DEVICES": f"{GPU}1"}
    assert wanted(of, facts) == Wanted("2-3", -1)


@pytest.mark.parametrize(
    ("devices", "containers", "field"),
    [
        ("{", None, "[scheduling.koordinator.sh/device-allocated]"),
        ({"gpu": [{"minor": -1}]}, None, "[scheduling.koordinator.sh/device-allocated]"),
        ({"gpu": [gpu(0)]}, "{", "[scheduling.berth.sh/container-devices]"),
        (
            {"gpu": [gpu(0)]},
            {"main": {"gpu": [{"minor": 1}]}},
            "[scheduling.berth.sh/container-devices].main.gpu[minor 1]",
        ),
        ({"gpu": [gpu(0, ratio=10)]}, {"main": {"gpu": [gpu(0, ratio=20)]}}, ".main.gpu[minor 0].resources["),
        (
            {"rdma": [{"minor": 0}]},
            {"main": {"rdma": [{"minor": 0, "extension": {"vfs": [{"busID": "x"}]}}]}},
            ".extension.vfs",
        ),
        ({"gpu": [gpu(7)]}, None, ".gpu[minor 7].minor"),
        ({"gpu": [gpu(1, uuid="GPU-another")]}, None, ".gpu[minor 1].id"),
        ({"rdma": [{"minor": 0, "id": "0000:01:00.0"}]}, None, "rdma[minor 0].minor"),
    ],
)
def test_what_cannot_be_had_is_named(devices: Any, containers: Any, field: str) -> None:
    noted = {}
    if isinstance(devices, str):
        noted[names.ANNOTATION_DEVICE_ALLOCATED], devices = devices, None
    if isinstance(containers, str):
        noted[names.ANNOTATION_CONTAINER_DEVICES], containers = containers, None
    of = pod(devices=devices, containers=containers, annotations=noted)
    found = edits_of(of, facts=replace(FACTS, inventory=inventory(0, 1)))
    assert isinstance(found, Problem)
    assert found.field.startswith("pods[work/web].metadata.annotations[")
    assert field in found.field


def test_whose_the_cards_of_an_unknown_node_are_is_not_guessed() -> None:
    found = edits_of(pod(devices={"gpu": [gpu(0)]}), facts=FACTS)
    assert isinstance(found, Problem)
    assert found.field.endswith(".gpu[minor 0].minor")
    assert "not known" in found.message
    assert edits_of(pod(devices={"fpga": [{"minor": 0}]}), facts=FACTS) == Edits(), "its kind says whose that is"


@pytest.mark.parametrize(
    ("asked", "strange"),
    [("0000:3b:00.2", False), ("00000000:3B:00.2", False), ("0000:3b:00.4", True), ("x", True)],
)
def test_virtual_functions_are_those_of_the_device_that_is_there(asked: str, strange: bool) -> None:
    bus = "0000:3b:00.2"
    slot = DeviceSlot(kind="rdma", minor=0, uuid="0000:3b:00.0", functions=[DeviceFunction(bus=bus)])
    facts = replace(FACTS, inventory=NodeInventory(node="n", version=1, devices=[slot]))
    folder = f"/sys/bus/pci/devices/{bus}/infiniband_verbs"
    probe = FakeProbe(
        {f"{folder}/uverbs1": "", "/sys/bus/pci/devices/0000:3b:00.4/infiniband_verbs/uverbs2": ""},
        devices={f"/dev/infiniband/{name}": (231, at) for at, name in enumerate(("rdma_cm", "uverbs1", "uverbs2"))},
    )
    record = {"minor": 0, "id": "0000:3b:00.0", "extension": {"vfs": [{"busID": asked}]}}
    found = edits_of(pod(devices={"rdma": [record]}), facts=facts, probe=probe)
    if not strange:
        assert isinstance(found, Edits)
        assert [each.path for each in found.nodes if "uverbs" in each.path] == ["/dev/infiniband/uverbs1"]
        return
    assert isinstance(found, Problem)
    assert found.field.endswith(".rdma[minor 0].extension.vfs")
    assert found.message == f"names {asked!r}, which is no virtual function of the device there"


def test_the_vendor_of_the_node_counts() -> None:
    facts = replace(FACTS, inventory=inventory(0, vendor="kunlun"))
    probe = FakeProbe(devices={"/dev/xpuctrl": (200, 255), "/dev/xpu0": (200, 0)})
    found = edits_of(pod(devices={"gpu": [gpu(0)]}), facts=facts, probe=probe)
    assert isinstance(found, Edits)
    assert [each.path for each in found.nodes] == ["/dev/xpuctrl", "/dev/xpu0"]
    assert not found.env


@pytest.mark.parametrize("case", cases("node-qos/gpu-env"))
def test_gpu_env(case: dict[str, Any]) -> None:
    told, expect = case["given"], case["expect"]
    provider = told.get("isolation_provider")
    of = pod(
        annotations={names.ANNOTATION_DEVICE_ALLOCATED: told["device_allocated"] or ""},
        labels={names.LABEL_GPU_ISOLATION: provider} if provider else {},
    )
    of.uid = told["pod_uid"]
    facts = replace(KNOWN, monitors=told.get("vgpu_monitor", False))
    found = edits_of(of, told["container"], facts)
    if expect.get("error"):
        assert isinstance(found, Problem)
        return
    assert isinstance(found, Edits)
    answer = adjustment(container_seen(container(of, told["container"])), found, Wanted(), read_only=frozenset())
    assert answer.env == expect["env"]
    assert [[each.source, each.destination] for each in answer.mounts] == expect["mounts"]


# --- the answer -------------------------------------------------------------------------------------------------------


def test_what_a_container_says_itself_gives_way() -> None:
    of = pod(devices={"gpu": [gpu(0, ratio=50)]}, labels={names.LABEL_GPU_ISOLATION: "HAMi-core"})
    asked = container_seen(container(of, env={"NVIDIA_VISIBLE_DEVICES": "all", "LD_PRELOAD": "/own.so", "A": "b"}))
    found = edits_of(of)
    assert isinstance(found, Edits)
    answer = adjustment(asked, found, Wanted("0-1"), read_only=frozenset({FACTS.library}))
    assert answer.env["NVIDIA_VISIBLE_DEVICES"] == f"{GPU}0"
    assert answer.env["LD_PRELOAD"] == f"{FACTS.library}:/own.so"
    assert set(answer.replaced_env) == {"NVIDIA_VISIBLE_DEVICES", "LD_PRELOAD"}
    assert [each.options for each in answer.mounts] == [("rbind", "ro"), ("rbind", "rw")]
    assert answer.resources.cpus == "0-1"


def test_the_limits_of_before_stay_with_the_container() -> None:
    asked = container_seen(container(pod(), quota_us=200_000))
    answer = adjustment(asked, Edits(), Wanted("0-1", -1), read_only=frozenset())
    again = container_seen(container(pod(), cpus="0-1", quota_us=-1, annotations=dict(answer.annotations)))
    assert again.before == Limits("", 200_000)
    assert adjustment(asked, Edits(), Wanted(), read_only=frozenset()).annotations == {}


@pytest.mark.parametrize("text", ["{", "[]", "x" * 10_000, '{"cpus":1}'])
def test_limits_of_before_that_cannot_be_read_are_none(text: str) -> None:
    assert container_seen(container(pod(), annotations={BEFORE: text})).before is None


def test_a_container_that_began_without_us_is_told_what_it_lacks() -> None:
    of = pod(devices={"gpu": [gpu(0, ratio=50)]}, labels={names.LABEL_GPU_ISOLATION: "HAMi-core"})
    found = edits_of(of)
    assert isinstance(found, Edits)
    early = lacking(pod_seen(of), container_seen(container(of, env={"NVIDIA_VISIBLE_DEVICES": "all"})), found)
    assert early is not None
    assert early.field == "pods[work/web].containers[main]"
    assert "env NVIDIA_VISIBLE_DEVICES" in early.message
    assert f"{GPU}0" not in early.message
    whole = container(of, env={**found.env, "LD_PRELOAD": f"{FACTS.library}:/own.so"})
    whole.mounts.extend(api.Mount(destination=each.destination) for each in found.mounts)
    assert lacking(pod_seen(of), container_seen(whole), found) is None
    assert lacking(pod_seen(of), container_seen(container(of)), Edits()) is None


# --- groups -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parent", "group"),
    [
        ("/kubepods/poduid-1", "kubepods/poduid-1"),
        ("/kubepods/burstable/poduid-1", "kubepods/burstable/poduid-1"),
        ("/kubepods.slice/kubepods-poduid_1.slice", "kubepods.slice/kubepods-poduid_1.slice"),
        (
            "kubepods-burstable-poduid_1.slice",
            "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poduid_1.slice",
        ),
        ("/kubepods/podother", None),
        ("/kubepods", None),
        ("/kubepods/../poduid-1", None),
        ("/system.slice/poduid-1", None),
        ("/kubepods/burstable/poduid-1/x", None),
        ("", None),
    ],
)
def test_the_group_of_a_pod_is_kubelets(parent: str, group: str | None) -> None:
    assert pod_group(parent, "uid-1") == group


# --- the board --------------------------------------------------------------------------------------------------------


def board(*told: tuple[api.PodSandbox, list[api.Container]]) -> Board:
    found = Board()
    pods = [(pod_seen(each), each.pid > 0) for each, _ in told]
    found.hear(pods, [container_seen(one) for _, listed in told for one in listed], more=False)
    return found


def updates(of: Board, facts: InsideFacts = FACTS, now_s: float = 0.0) -> dict[str, tuple[str | None, int | None]]:
    listed = of.updates(facts, of.pools(facts), now_s)
    return {each.container_id: (each.resources.cpus, each.resources.cpu_quota_us) for each in listed}


def test_cores_of_what_runs_already_are_put_right() -> None:
    own, other = pod("own", qos="LSR", cpus="2-3"), pod("other")
    found = board((own, [container(own, quota_us=200_000)]), (other, [container(other)]))
    assert updates(found) == {"own-main": ("2-3", -1), "other-main": ("0-1,4-7", None)}
    listed = found.updates(FACTS, found.pools(FACTS), 0.0)
    assert found.pushed(listed, (), 0.0) == []
    assert updates(found) == {}


def test_others_leave_the_cpus_of_a_pod_before_its_first_container() -> None:
    other = pod("other")
    found = board((other, [container(other, cpus="0-7")]))
    assert updates(found) == {}
    found.begin(pod_seen(pod("own", qos="LSR", cpus="2-3")))
    assert updates(found) == {"other-main": ("0-1,4-7", None)}
    found.end("sandbox-own")
    assert updates(found) == {}, "it was not moved yet"


def test_a_container_that_is_being_created_is_updated_when_it_runs() -> None:
    other = pod("other")
    found = board((other, []))
    asked = container_seen(container(other, state=api.CONTAINER_CREATED))
    found.create(asked, wanted(other))
    found.begin(pod_seen(pod("own", qos="LSR", cpus="2-3")))
    assert updates(found) == {}
    found.start("other-main")
    assert updates(found) == {"other-main": ("0-1,4-7", None)}


def test_a_refused_update_is_tried_again_later() -> None:
    own = pod("own", qos="LSR", cpus="2-3")
    found = board((own, [container(own)]))
    listed = found.updates(FACTS, found.pools(FACTS), 0.0)
    assert found.pushed(listed, ["own-main"], 0.0) == [("sandbox-own", "main")]
    assert updates(found, now_s=RETRY_S - 1) == {}
    assert updates(found, now_s=RETRY_S + 1) == {"own-main": ("2-3", None)}


def test_a_state_in_parts_counts_once_it_is_whole() -> None:
    own, other = pod("own", qos="LSR", cpus="2-3"), pod("other")
    found = board()
    assert found.hear([(pod_seen(own), True)], [], more=True) is None
    assert found.hear([], [container_seen(container(other))], more=True) is None
    assert not found.pods
    whole = found.hear([(pod_seen(other), True)], [], more=False)
    assert whole is not None
    assert [each.id for each in whole] == ["other-main"]
    assert set(found.pods) == {"sandbox-own", "sandbox-other"}


def test_a_connection_that_broke_amid_the_state_leaves_nothing_of_it() -> None:
    own, other = pod("own"), pod("other")
    found = board((own, []))
    found.hear([(pod_seen(other), True)], [], more=True)
    found.disconnected()
    assert set(found.pods) == {"sandbox-own"}
    found.hear([(pod_seen(own), True)], [], more=False)
    assert set(found.pods) == {"sandbox-own"}


def test_a_pod_that_has_ended_holds_nothing() -> None:
    ended, other = pod("ended", qos="LSR", cpus="2-3", pid=0), pod("other")
    assert updates(board((ended, []), (other, [container(other)]))) == {"other-main": ("0-3,4-7", None)}
    alone = board((ended, []))
    assert set(alone.pods) == {"sandbox-ended"}, "a runtime that tells no pids"
    over = board((ended, [container(ended, state=api.CONTAINER_STOPPED)]), (other, []))
    assert set(over.pods) == {"sandbox-other"}


def test_kubelets_word_is_the_base_of_a_quota() -> None:
    facts = replace(FACTS, node=NodeFacts(cpu_ratio=2.0))
    of = pod(qos="LS")
    found = board((of, []))
    found.create(container_seen(container(of, quota_us=100_000)), wanted(of, facts, Limits("", 100_000)))
    found.start("web-main")
    assert updates(found, facts) == {}
    assert updates(found, FACTS) == {"web-main": (None, 100_000)}
    assert updates(found, replace(FACTS, node=NodeFacts(cpu_ratio=1.0))) == {"web-main": (None, 100_000)}
    assert found.resized("web-main", Limits("", 300_000)) == Limits("", 300_000)
    assert updates(found, facts) == {"web-main": (None, 150_000)}


def test_a_quota_that_nobody_knows_the_base_of_is_not_scaled() -> None:
    facts = replace(FACTS, node=NodeFacts(cpu_ratio=2.0))
    of = pod(qos="LS")
    assert updates(board((of, [container(of, cpus="0-7", quota_us=100_000)])), facts) == {}
    noted = {BEFORE: '{"cpus":"","quota_us":100000}'}
    known = container(of, cpus="0-7", quota_us=100_000, annotations=noted)
    assert updates(board((of, [known])), facts) == {"web-main": (None, 50_000)}
    resized = container(of, cpus="0-7", quota_us=70_000, annotations=noted)
    assert updates(board((of, [resized])), facts) == {}


def test_everything_is_given_back() -> None:
    facts = replace(FACTS, gives_back=True)
    own, other, static = pod("own", qos="LSR", cpus="2-3"), pod("other"), pod("be", parent=BEST_EFFORT)
    noted = {BEFORE: '{"cpus":"","quota_us":200000}'}
    found = board(
        (own, [container(own, cpus="2-3", quota_us=-1, annotations=noted)]),
        (other, [container(other, cpus="0-1,4-7")]),
        (static, [container(static, cpus="1")]),
    )
    assert updates(found, facts) == {"own-main": ("0-7", 200_000), "other-main": ("0-7", None)}
    assert wanted(own, facts) == Wanted()


def test_not_even_best_effort_has_what_is_exclusive() -> None:
    lse, lsr = pod("lse", qos="LSE", cpus="1"), pod("lsr", qos="LSR", cpus="2")
    found = board((lse, []), (lsr, []), (pod("k"), []))
    facts = replace(FACTS, checkpoint=Checkpoint("static", {"uid-k": {"main": frozenset({7})}}))
    assert found.exclusive(facts) == {1, 7}
    assert found.exclusive(FACTS) == {1}
    held = replace(FACTS, held=(HeldCpus("work", "k", frozenset({6})), HeldCpus("work", "lsr", frozenset({0}))))
    assert found.exclusive(held) == {1, 6}, "CPUs of a record are not kubelet's"
    assert {cpu for each in found.pools(held).shared for cpu in each.cpus} == {0, 3, 4, 5, 7}
    assert replace(FACTS, gives_cpus=True).kubelet_is_static


def test_two_pods_with_one_cpu_are_told() -> None:
    one, two = pod("one", qos="LSR", cpus="2-3"), pod("two", qos="LSR", cpus="3-4")
    found = board((one, []), (two, [])).shared_twice()
    assert set(found) == {"sandbox-two"}
    assert "CPUs 3 are those of work/one as well" in found["sandbox-two"].message


@pytest.mark.parametrize("case", cases("node-qos/cpu-share-pools"))
def test_cpu_share_pools(case: dict[str, Any]) -> None:
    told, expect = case["given"], case["expect"]
    pods = []
    for each in told["pods"]:
        of = pod(each["uid"], qos=each["qos"], cpus=each["cpuset"])
        of.uid = each["uid"]
        pods.append((of, []))
    system = cpu_list((told.get("system_qos") or {}).get("cpuset", ""))
    is_exclusive = (told.get("system_qos") or {}).get("cpusetExclusive") is not False
    entries = {
        uid: {name: cpu_list(text) for name, text in containers.items()}
        for uid, containers in told.get("kubelet_entries", {}).items()
    }
    facts = InsideFacts(
        layout=CpuLayout(Cpu(*row) for row in told["processors"]),
        node=NodeFacts(
            reserved_cpus=cpu_list(told.get("reserved_cpus", "")), system_cpus=system if is_exclusive else frozenset()
        ),
        checkpoint=Checkpoint(told.get("kubelet_policy", ""), entries),
    )
    found = board(*pods).pools(facts)
    for pools, expected in ((found.shared, expect["pools"]), (found.best_effort, expect["be_pools"])):
        assert [
            {"socket": each.socket, "node": each.zone, "cpuset": format_cpuset(each.cpus)} for each in pools
        ] == expected


@settings(max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["begin", "end"])), max_size=30))
def test_who_has_no_cpus_of_its_own_never_has_those_of_another(steps: list[tuple[int, str]]) -> None:
    other = pod("other")
    found = board((other, [container(other, cpus="0-7")]))
    held: set[int] = set()
    for number, what in steps:
        if what == "begin":
            found.begin(pod_seen(pod(f"own{number}", qos="LSR", cpus=str(number))))
            held.add(number)
        else:
            found.end(f"sandbox-own{number}")
            held.discard(number)
        listed = found.updates(FACTS, found.pools(FACTS), 0.0)
        found.pushed(listed, (), 0.0)
        assert updates(found) == {}
        expected = wanted(other, pools=found.pools(FACTS)).cpus or ""
        assert cpu_list(expected) == frozenset(range(8)) - held


def test_findings_are_bounded_and_go_with_their_pod() -> None:
    found = Findings()
    problem = Problem(field="f", message="m")
    assert found.note(Key("cpus", "p", "c"), problem)
    assert not found.note(Key("cpus", "p", "c"), problem), "it is not new"
    found.forget(lambda key: key.pod == "p")
    assert found.problems() == ()
    for number in range(FINDINGS_MAX + 10):
        found.note(Key("cpus", str(number)), Problem(field=str(number), message="m"))
    assert len(found.problems()) == FINDINGS_MAX
