"""Which files strategies want to have which values."""

import json
from itertools import product

import pytest

from berth.contracts import names
from berth.node_qos_enforcer.core.laws.disks import Disks
from berth.node_qos_enforcer.core.proc import Cpu
from berth.node_qos_enforcer.core.strategies import node_slo
from berth.node_qos_enforcer.core.strategies.block_io import BLOCK_IO
from berth.node_qos_enforcer.core.strategies.caches import CACHES
from berth.node_qos_enforcer.core.strategies.cold_memory import COLD_MEMORY
from berth.node_qos_enforcer.core.strategies.core_scheduling import CORE_SCHEDULING
from berth.node_qos_enforcer.core.strategies.group_identity import GROUP_IDENTITY
from berth.node_qos_enforcer.core.strategies.kernel_settings import KERNEL_SETTINGS
from berth.node_qos_enforcer.core.strategies.knobs import KNOBS, LOOKED_AT
from berth.node_qos_enforcer.core.strategies.network import NETWORK
from berth.node_qos_enforcer.core.strategies.oom_scores import OOM_SCORES
from berth.node_qos_enforcer.core.strategies.page_cache import PAGE_CACHE
from berth.node_qos_enforcer.core.strategies.registry import STRATEGIES
from berth.node_qos_enforcer.core.strategies.seam import Container, Node, Pod, Ref, Snapshot
from berth.node_qos_enforcer.core.strategies.terway import TERWAY_QOS

BE = "kubepods/besteffort"
ON = {"enable": True}
GIB = 1 << 30


def pod(uid, qos="", kube_qos="Burstable", *, annotations=None, labels=None, **fields):
    group = {"Guaranteed": "kubepods", "Burstable": "kubepods/burstable", "BestEffort": BE}[kube_qos] + f"/pod{uid}"
    return Pod(
        uid=uid,
        namespace="d",
        name=uid,
        qos=qos,
        kube_qos=kube_qos,
        annotations={name: json.dumps(value) for name, value in (annotations or {}).items()},
        labels={**({names.LABEL_QOS: qos} if qos else {}), **(labels or {})},
        group=group,
        sandbox_group=f"{group}/s",
        containers=(Container("main", id="c", group=f"{group}/c", requests=fields.pop("sized", {})),),
        is_known=True,
        **fields,
    )


def look(*pods, found=None, version=2, **fields):
    node = Node(
        name="n", version=version, driver="cgroupfs", capacity={names.MEMORY: 16 * GIB}, cpu=Cpu("GenuineIntel")
    )
    files = {Ref(*ref): text for ref, text in (found or {}).items()}
    return Snapshot(node=node, pods=pods, found=files, **fields)


def qos(policies=None, **classes):
    section = {f"{name}Class" if name != "root" else "cgroupRoot": blocks for name, blocks in classes.items()}
    return {"resourceQOSStrategy": {"policies": policies or {}, **section}}


def decided(strategy, snapshot, spec, memory=None):
    spec = node_slo.effective(spec)
    assert strategy.is_on(spec)
    found = strategy.decide(snapshot, spec, strategy.memory if memory is None else memory)
    assert all(each.knob in KNOBS for each in found.wanted)
    return found


def values(found):
    return {(each.group, each.knob): each.value for each in found.wanted}


def test_nothing_is_wanted_of_a_node_without_a_strategy():
    spec = node_slo.effective({})
    for strategy in STRATEGIES:
        if strategy.is_on(spec):
            wanted = strategy.decide(look(pod("a")), spec, strategy.memory).wanted
            assert {each.knob for each in wanted} <= {knob.name for knob in LOOKED_AT}


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda each: each.name)
def test_a_specification_of_other_kinds_is_survived(strategy):
    section = {"policies": 1, "lsClass": [], "beClass": {"cpuQOS": 3, "blkioQOS": ON | {"blocks": "x"}}}
    spec = node_slo.effective(
        {"resourceQOSStrategy": section, "systemStrategy": {"schedFeatures": 7}, "hostApplications": {"a": 1}}
    )
    if strategy.is_on(spec):
        snapshot = look(pod("a"), disks=Disks({"/dev/vda": "8:0"}))
        strategy.decide(snapshot, spec, strategy.memory)
        tuple(strategy.reads(snapshot, spec))


# --- cores ---

IDENTITIES = qos(lsr={"cpuQOS": ON}, ls={"cpuQOS": ON}, be={"cpuQOS": ON})
IDENTITIES["hostApplications"] = [{"name": "nginx", "qos": "LS"}, {"name": "x", "cgroupPath": {"parentDir": "../.."}}]


def test_identities_where_the_kernel_has_them():
    bad = pod("bad", "LS", annotations={names.ANNOTATION_CPU_QOS: {"enable": True, "groupIdentity": 5}})
    lower = pod("low", "LS", annotations={names.ANNOTATION_CPU_QOS: {"enable": True, "groupIdentity": 1}})
    files = {(BE, "cpu.bvt_warp_ns"): "0", ("sys/kernel", "kernel.sched_group_identity_enabled"): "0"}
    found = decided(GROUP_IDENTITY, look(bad, lower, pod("be", "BE", "BestEffort"), found=files), IDENTITIES)
    assert values(found) == {
        ("sys/kernel", "kernel.sched_group_identity_enabled"): "1",
        ("kubepods", "cpu.bvt_warp_ns"): "0",
        ("kubepods/burstable", "cpu.bvt_warp_ns"): "2",
        (BE, "cpu.bvt_warp_ns"): "-1",
        **dict.fromkeys([(f"kubepods/burstable/podlow{end}", "cpu.bvt_warp_ns") for end in ("", "/s", "/c")], "1"),
        **dict.fromkeys([(f"{BE}/podbe{end}", "cpu.bvt_warp_ns") for end in ("", "/s", "/c")], "-1"),
        ("host-latency-sensitive/nginx", "cpu.bvt_warp_ns"): "2",
    }
    assert [each.field for each in found.reports] == [
        "pods[d/bad].metadata.annotations[koordinator.sh/cpuQOS].groupIdentity",
        "hostApplications[1].cgroupPath",
    ]


def test_what_stands_in_for_identities():
    low = pod("low", "LS", annotations={names.ANNOTATION_CPU_QOS: {"enable": False}}, requests={"cpu": 1000})
    odd = pod("odd", "BE")
    found = decided(GROUP_IDENTITY, look(low, odd, pod("ls", "LS"), pod("be", "BE", "BestEffort")), IDENTITIES)
    assert values(found) == {
        (BE, "cpu.idle"): "1",
        ("kubepods/burstable/podlow", "cpu.shares"): "256",
        ("kubepods/burstable/pododd", "cpu.idle"): "1",
    }


OFF_OR_ON = [{}, *({"cpuQOS": {"enable": True, "groupIdentity": value}} for value in (-1, 0, 1, 2))]


def test_by_weights_no_class_loses_against_a_lower_one():
    """Services that go first take nothing from pods with CPUs of their own whose class nobody holds."""
    classes = ("LSE", "LSR", "LS", "BE")
    for kube_qos, of_lsr, of_ls, of_be in product(("Guaranteed", "Burstable"), OFF_OR_ON, OFF_OR_ON, OFF_OR_ON):
        spec = node_slo.effective(qos(lsr=of_lsr, ls=of_ls, be=of_be))
        if not GROUP_IDENTITY.is_on(spec):
            continue
        pods = [pod(each.lower(), each, kube_qos, requests={"cpu": 4000}) for each in classes]
        found = values(GROUP_IDENTITY.decide(look(*pods), spec, None))
        weights = [
            0 if (each.group, "cpu.idle") in found else int(found.get((each.group, "cpu.shares"), "4096"))
            for each in pods
        ]
        assert weights == sorted(weights, reverse=True), (kube_qos, of_lsr, of_ls, of_be)
        if not of_lsr:
            assert weights[1] == 4096


def test_groups_of_core_scheduling():
    spec = qos({"cpuPolicy": "coreSched"}, ls={"cpuQOS": ON}, be={"cpuQOS": ON | {"schedIdle": 1}})
    label = {names.LABEL_CORE_SCHED_GROUP: "g"}
    pods = (pod("a", "LS", labels=label), pod("b", "BE", "BestEffort", labels=label), pod("c", "SYSTEM"))
    found = decided(CORE_SCHEDULING, look(*pods, found={("sys/kernel", "kernel.sched_core"): "0"}), spec)
    assert values(found) == {
        ("sys/kernel", "kernel.sched_core"): "1",
        ("kubepods/burstable", "cpu.idle"): "0",
        (BE, "cpu.idle"): "1",
        ("kubepods/burstable/poda/c", "core_sched.cookie"): "g-expeller",
        ("kubepods/burstable/poda/s", "core_sched.cookie"): "g-expeller",
        (f"{BE}/podb/c", "core_sched.cookie"): "g",
        (f"{BE}/podb/s", "core_sched.cookie"): "g",
    }
    assert not GROUP_IDENTITY.is_on(node_slo.effective(spec))


# --- caches ---

RESCTRL = {
    ("fs/resctrl", "resctrl.schemata"): "MB:0=100;1=100\nL3:0=fff;1=fff",
    ("fs/resctrl/info/L3", "resctrl.cbm_mask"): "fff",
}


def test_parts_of_the_cache():
    asks = {"llc": {"schemata": {"range": [0, 50]}}}
    own = pod("own", "BE", "BestEffort", annotations={names.ANNOTATION_RESCTRL: asks})
    files = {
        **RESCTRL,
        ("fs/resctrl/BE", "resctrl.tasks"): "7",
        (f"{BE}/podbe/c", "cgroup.threads"): "7\n8",
        (f"{BE}/podown/c", "cgroup.threads"): "9",
    }
    snapshot = look(own, pod("be", "BE", "BestEffort"), pod("ls", "LS"), found=files)
    spec = qos(be={"resctrlQOS": ON | {"catRangeEndPercent": 30, "mbaPercent": 55}})
    found = decided(CACHES, snapshot, spec)
    lines = {(each.group, each.key): each.value for each in found.wanted if each.knob == "resctrl.schemata"}
    assert lines == {
        ("fs/resctrl/LSR", "L3"): "L3:0=fff;1=fff;",
        ("fs/resctrl/LSR", "MB"): "MB:0=100;1=100;",
        ("fs/resctrl/LS", "L3"): "L3:0=fff;1=fff;",
        ("fs/resctrl/LS", "MB"): "MB:0=100;1=100;",
        ("fs/resctrl/BE", "L3"): "L3:0=f;1=f;",
        ("fs/resctrl/BE", "MB"): "MB:0=60;1=60;",
        ("fs/resctrl/koordlet-own", "L3"): "L3:0=3f;1=3f;",
    }
    # Its own group is not there yet: until then its class has to do.
    moved = [(each.group, each.value) for each in found.wanted if each.knob == "resctrl.tasks"]
    assert moved == [("fs/resctrl/BE", "9"), ("fs/resctrl/BE", "8")]
    there = snapshot._replace(found={**snapshot.found, Ref("fs/resctrl/koordlet-own", "resctrl.tasks"): ""})
    moved = [(each.group, each.value) for each in decided(CACHES, there, spec).wanted if each.knob == "resctrl.tasks"]
    assert moved == [("fs/resctrl/koordlet-own", "9"), ("fs/resctrl/BE", "8")]


def test_without_resctrl_nothing_is_decided():
    spec = qos(be={"resctrlQOS": ON})
    assert "rdt=nothing" in decided(CACHES, look(), spec).skipped
    without = look()._replace(node=Node(cpu=Cpu(flags=frozenset({"fpu"}))))
    assert "cat_l3" in decided(CACHES, without, spec).skipped


def test_threads_of_every_pod_are_looked_at_within_ten_seconds():
    spec = node_slo.effective(qos(be={"resctrlQOS": ON}))
    pods = [pod(f"p{number}", "BE", "BestEffort") for number in range(30)]
    seen = {ref.group for second in range(10) for ref in CACHES.reads(look(*pods, now_s=float(second)), spec)}
    assert {each.containers[0].group for each in pods} <= seen


# --- disks ---

DISKS = Disks(
    {"/dev/vda": "8:0", "/dev/vdb": "8:16"},
    mount_device={
        "/var/lib/kubelet/pods/a/volumes/kubernetes.io~csi/pv-1/mount": "/dev/vdb",
    },
)
LIMITED = {"readBPS": 1048576, "ioWeightPercent": 40}


def test_limits_of_disks():
    blocks = {"blocks": [{"name": "/dev/vda", "type": "device", "ioCfg": LIMITED}]}
    asks = {"blocks": [{"name": "pv-1", "type": "podvolume", "ioCfg": {"writeIOPS": 9}}]}
    owner = pod("a", "LS", annotations={names.ANNOTATION_BLKIO_QOS: asks})
    spec = qos(be={"blkioQOS": ON | blocks}, root={"blkioQOS": ON | blocks})
    found = decided(BLOCK_IO, look(owner, disks=DISKS), spec)
    assert {(each.group, each.knob, each.key): each.value for each in found.wanted} == {
        (BE, "io.max", "8:0"): "rbps=1048576 wbps=max riops=max wiops=max",
        (BE, "io.weight", "8:0"): "40",
        ("", "io.cost.qos", "8:0"): "enable=1 ctrl=user rpct=95 rlat=3000 wpct=95 wlat=3000",
        ("", "io.cost.model", "8:0"): "ctrl=auto",
        ("kubepods/burstable/poda", "io.max", "8:16"): "rbps=max wbps=max riops=max wiops=9",
        ("kubepods/burstable/poda", "io.weight", "8:16"): "100",
    }


def test_version_1_does_not_hand_limits_of_disks_down():
    blocks = {"blocks": [{"name": "/dev/vda", "type": "device", "ioCfg": LIMITED}]}
    asks = {"blocks": [{"name": "pv-1", "type": "podvolume", "ioCfg": {"writeIOPS": 9}}]}
    spec = qos(be={"blkioQOS": ON | blocks}, root={"blkioQOS": ON | blocks})
    owner = pod("a", "LS", annotations={names.ANNOTATION_BLKIO_QOS: asks})
    batch = pod("b", "BE", kube_qos="BestEffort")
    found = decided(BLOCK_IO, look(owner, batch, disks=DISKS, version=1), spec)
    assert ("", "blkio.cost.model") in values(found)
    of_group = {each.group: each.value for each in found.wanted if each.knob == "blkio.throttle.read_bps_device"}
    assert of_group == {
        BE: "1048576",
        batch.containers[0].group: "1048576",
        owner.group: "0",
        owner.containers[0].group: "0",
    }


@pytest.mark.parametrize(("volumes", "name"), [({"data": "pv-1"}, "data"), ({}, "pv-1"), ({"other": "pv-2"}, "pv-1")])
def test_a_pod_names_its_volumes_as_it_does_itself_or_as_kubelet_does(volumes, name):
    asks = {"blocks": [{"name": name, "type": "podvolume", "ioCfg": {"writeIOPS": 9}}]}
    owner = pod("a", "LS", annotations={names.ANNOTATION_BLKIO_QOS: asks}, volumes=volumes)
    found = decided(BLOCK_IO, look(owner, disks=DISKS), {})
    assert {each.key for each in found.wanted} == {"8:16"}
    assert found.reports == ()


@pytest.mark.parametrize("name", ["nothing", "../../../b/volumes/kubernetes.io~csi/pv-1", "data"])
def test_a_volume_that_is_not_its_own_is_named(name):
    asks = {"blocks": [{"name": name, "type": "podvolume"}]}
    disks = Disks(
        DISKS.disk_number, mount_device={"/var/lib/kubelet/pods/b/volumes/kubernetes.io~csi/pv-1/mount": "/dev/vdb"}
    )
    owner = pod("a", "LS", annotations={names.ANNOTATION_BLKIO_QOS: asks}, volumes={"data": "pv-1"})
    found = decided(BLOCK_IO, look(owner, disks=disks), {})
    assert found.wanted == ()
    assert found.reports[0].field == "pods[d/a].metadata.annotations[koordinator.sh/blkioQOS].blocks[0]"


@pytest.mark.parametrize(
    ("blocks", "field"),
    [
        ([{"name": "/dev/vdz", "type": "device"}], "beClass.blkioQOS.blocks[0]"),
        ([{"name": "/dev/vda", "type": "device", "ioCfg": {"readBPS": "many"}}], "beClass.blkioQOS.blocks"),
        ([{"name": "/dev/vda", "type": "device", "ioCfg": {"ioWeightPercent": 0}}], "beClass.blkioQOS.blocks"),
    ],
)
def test_one_bad_entry_leaves_the_group(blocks, field):
    sound = [{"name": "/dev/vda", "type": "device", "ioCfg": LIMITED}]
    found = decided(BLOCK_IO, look(disks=DISKS), qos(be={"blkioQOS": ON | {"blocks": sound + blocks}}))
    assert found.wanted == ()
    assert found.reports[0].field.startswith(field.replace("[0]", "[1]"))


def test_a_pod_limits_no_disk_of_others():
    asks = {"blocks": [{"name": "/dev/vda", "type": "device", "ioCfg": LIMITED}]}
    found = decided(BLOCK_IO, look(pod("a", "LS", annotations={names.ANNOTATION_BLKIO_QOS: asks}), disks=DISKS), {})
    assert found.wanted == ()
    assert found.reports[0].field == "pods[d/a].metadata.annotations[koordinator.sh/blkioQOS].blocks[0].type"


# --- the network ---

ROUTES = (
    "Iface\tDestination\n" + "\t".join(["eth0", "00000000", "0101A8C0", "0003", "0", "0", "100", "00000000"]) + "\n"
)
ROUTED = {("1/net", "net.route"): ROUTES}


def network(policy="tc"):
    spec = qos(
        {"netQOSPolicy": policy},
        ls={"networkQOS": ON | {"egressRequest": 30, "egressLimit": "80M"}},
        be={"networkQOS": ON | {"egressRequest": 10, "egressLimit": 20}},
    )
    return {**spec, "systemStrategy": {"totalNetworkBandwidth": "100M"}}


def test_classes_of_the_network():
    asks = {"ingressLimit": "1M", "egressLimit": "8M"}
    pods = (
        pod("a", "LS", ips=("10.0.0.1", "fd00::1")),
        pod("b", "BE", "BestEffort", ips=("10.0.0.2",)),
        pod("c", "BE", "BestEffort", ips=("10.0.0.3", "bad; flush"), annotations={names.ANNOTATION_NETWORK_QOS: asks}),
        pod("d", "LS", host_network=True, ips=("192.168.0.1",)),
    )
    found = decided(NETWORK, look(*pods, found=ROUTED), network())
    tree, classes = found.wanted
    assert (tree.group, tree.knob, classes.knob) == ("eth0", "net.tree", "net.classes")
    assert tree.value.splitlines() == [
        "qdisc add dev eth0 root handle 1: htb default 2",
        "class add dev eth0 parent 1: classid 1:1 htb rate 100000000bit",
        "class add dev eth0 parent 1:1 classid 1:2 htb rate 60000000bit ceil 100000000bit prio 1",
        "class add dev eth0 parent 1:1 classid 1:3 htb rate 30000000bit ceil 80000000bit prio 2",
        "class add dev eth0 parent 1:1 classid 1:4 htb rate 10000000bit ceil 20000000bit prio 3",
        "class add dev eth0 parent 1:1 classid 1:a htb rate 8000000bit ceil 8000000bit prio 3",
    ]
    assert "elements = { 10.0.0.1 : 1:3, 10.0.0.2 : 1:4, 10.0.0.3 : 1:a }" in classes.value
    assert "elements = { fd00::1 : 1:3 }" in classes.value
    assert 'socket cgroupv2 level 3 "kubepods/burstable/podd" meta priority set 1:3' in classes.value
    assert "flush" not in classes.value
    assert "192.168.0.1" not in classes.value
    assert found.memory == {"c": 10}
    of_version_1 = decided(NETWORK, look(*pods, found=ROUTED, version=1), network(), memory={"c": 11})
    assert values(of_version_1)[f"{BE}/podc", "net_cls.classid"] == str(0x10011)
    assert "socket" not in of_version_1.wanted[1].value


def test_without_a_route_or_a_bandwidth_nothing_is_shaped():
    assert decided(NETWORK, look(), network()).skipped
    assert decided(NETWORK, look(found=ROUTED), {**network(), "systemStrategy": {}}).skipped


def test_files_of_terway():
    asks = {"ingressLimit": "10M", "egressLimit": "20M"}
    one = pod("uid1", "BE", "BestEffort", annotations={names.ANNOTATION_NETWORK_QOS: asks})
    found = decided(TERWAY_QOS, look(one, version=1), network("terway-qos"))
    node, pods = found.wanted
    assert "offline_l1_tx_bps_min 3750000\noffline_l1_tx_bps_max 10000000\n" in node.value
    assert json.loads(pods.value) == {
        "uid1": {
            "podName": "uid1",
            "podNamespace": "d",
            "podUID": "uid1",
            "prio": 2,
            "cgroupDir": "/sys/fs/cgroup/net_cls/kubepods/besteffort/poduid1",
            "qosConfig": {"ingressBandwidth": 1250000, "egressBandwidth": 2500000},
        }
    }
    spec = network("terway-qos")
    spec["resourceQOSStrategy"]["beClass"]["networkQOS"]["egressLimit"] = "fast"
    found = decided(TERWAY_QOS, look(one, version=1), spec)
    assert found.wanted[0].value is None
    assert found.reports[0].field == "beClass.networkQOS.egressLimit"


# --- memory and the kernel ---


def test_page_cache_of_pods():
    spec = qos(be={"memoryQOS": ON | {"pageCacheLimitPercent": 50, "pageCacheReclaimSync": True}})
    limits = {"kubernetes.io/batch-memory": GIB}
    found = decided(PAGE_CACHE, look(pod("a", "BE", "BestEffort", limits=limits), pod("b", "LS")), spec)
    assert values(found) == {
        (f"{BE}/poda", "memory.pagecache_limit.size"): str(GIB // 2),
        (f"{BE}/poda", "memory.pagecache_limit.sync"): "1",
        (f"{BE}/poda", "memory.pagecache_limit.enable"): "1",
    }


def test_oom_scores():
    def asking(uid, score, **fields):
        return pod(uid, "LS", annotations={names.ANNOTATION_OOM_SCORE: score}, sized={names.MEMORY: 8 * GIB}, **fields)

    pods = (asking("high", 700), asking("low", 100), asking("may", -900, may_lower_oom_scores=True), asking("bad", "x"))
    files = {(f"kubepods/burstable/pod{each.uid}/c", "cgroup.procs"): f"1{at}\n2{at}" for at, each in enumerate(pods)}
    found = decided(OOM_SCORES, look(*pods, found=files), {})
    assert values(found) == {
        ("10", "proc.oom_score_adj"): "700",
        ("20", "proc.oom_score_adj"): "700",
        ("12", "proc.oom_score_adj"): "-900",
        ("22", "proc.oom_score_adj"): "-900",
    }
    assert [each.field for each in found.reports] == [
        "pods[d/low].containers[main].oom_score_adj",
        "pods[d/bad].metadata.annotations[koordinator.sh/oom-score-adj]",
    ]
    between = decided(OOM_SCORES, look(*pods), {}, memory=found.memory)
    assert between.wanted == found.wanted


def test_kernel_settings():
    section = {
        "minFreeKbytesFactor": 100,
        "watermarkScaleFactor": 401,
        "schedFeatures": {"B": True, "A": False, "C": 3},
    }
    found = decided(KERNEL_SETTINGS, look(), {"systemStrategy": section})
    assert [each[:3] for each in found.wanted] == [
        ("sys/vm", "vm.min_free_kbytes", "167772"),
        ("kernel/debug", "kernel.sched_features", "NO_A"),
        ("kernel/debug", "kernel.sched_features", "B"),
    ]


def test_kidled_is_started_for_whoever_counts_hot_memory():
    found = decided(COLD_MEMORY, look(), {"extensions": {"nodeMemoryCollectPolicy": "usageWithHotPageCache"}})
    assert values(found) == {
        ("kernel/mm/kidled", "kidled.use_hierarchy"): "1",
        ("kernel/mm/kidled", "kidled.scan_period_in_seconds"): "5",
    }
