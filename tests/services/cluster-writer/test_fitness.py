"""What the solver went by is looked at once more before a bind, and before each repetition of one."""

from __future__ import annotations

import asyncio
import json

import pytest
from msgspec.structs import replace
from tests.services.worlds.writer.bind_bench import BindBench

from berth.contracts import names, state, subjects
from berth.contracts.grants import CPU, allocation_of, one
from berth.contracts.kube import Taint, Toleration
from berth.kube.answer import Answer
from berth.testing.views import eventually

MAINTENANCE = Taint(key="maintenance", effect="NoSchedule")
GPU = state.DeviceInfo(kind="gpu", minor=0, healthy=True)


def change(desk, **what):
    """The node is another one from now on."""
    desk.put(subjects.named_key("node", "n"), replace(desk.cluster.nodes["n"], **what))


def devices(desk, *listed):
    desk.put(subjects.named_key("device", "n"), state.Device(name="n", uid="d", version=1, devices=list(listed)))
    marker = state.Synced(kind="devices", version=1, complete=True)
    desk.put(subjects.synced_key("devices"), marker)


def topology(desk, reserved="", version=1):
    """The CPUs 0 and 1 in one NUMA node."""
    detail = [{"id": cpu, "core": cpu, "socket": 0, "node": 0} for cpu in (0, 1)]
    notes = {names.ANNOTATION_CPU_TOPOLOGY: json.dumps({"detail": detail})}
    notes |= {names.ANNOTATION_NODE_RESERVATION: json.dumps({"reservedCPUs": reserved})} if reserved else {}
    seen = state.NodeResourceTopology(name="n", version=version, annotations=notes)
    desk.put(subjects.named_key("noderesourcetopology", "n"), seen)


async def begin(desk, **more):
    """A decision that was made before all that; the end of STATE is reached again, so that no doubt is left."""
    desk.begin(**more)
    await eventually(lambda: desk.withdrawn or desk.binds.has_parked() or desk.landed)
    desk.end()
    await desk.over()


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ({"unschedulable": True}, "node n is cordoned"),
        ({"taints": [MAINTENANCE]}, "node n has the taint maintenance:NoSchedule"),
        ({"uid": "successor"}, "node n was deleted and has registered anew"),
    ],
)
async def test_a_node_that_became_unfit_is_not_bound_to(desk, what, reason):
    uid = desk.cluster.nodes["n"].uid
    change(desk, **what)
    await begin(desk, node_uid=uid)
    assert (desk.node_of(), desk.withdrawn) == ("", [("a", reason)])


@pytest.mark.parametrize(
    ("unasked", "reason"),
    [
        (["NodeUnschedulable"], "node n has the taint maintenance:NoSchedule"),
        (["TaintToleration"], "node n is cordoned"),
        (["NodeUnschedulable", "TaintToleration"], ""),
    ],
)
async def test_what_the_profile_does_not_ask_is_not_asked_here_either(desk, unasked, reason):
    change(desk, unschedulable=True, taints=[MAINTENANCE])
    await begin(desk, unasked=unasked)
    if reason:
        assert (desk.node_of(), desk.withdrawn) == ("", [("a", reason)])
    else:
        assert (desk.node_of(), desk.withdrawn) == ("n", [])


@pytest.mark.parametrize(
    ("listed", "reason"),
    [
        ([replace(GPU, healthy=False)], "gpu minor 0 on n is not healthy"),
        ([replace(GPU, minor=1)], "gpu minor 0 on n is not there any more"),
        ([], "gpu minor 0 on n is not there any more"),
    ],
)
async def test_a_broken_card_is_not_bound_to(desk, listed, reason):
    devices(desk, *listed)
    await begin(desk, minors=[0])
    assert (desk.node_of(), desk.withdrawn) == ("", [("a", reason)])


async def test_what_comes_up_while_a_bind_is_repeated_withdraws_it(desk):
    desk.api.on("bind", *[lambda name: Answer(503)] * 1000)
    desk.begin()
    await eventually(lambda: desk.api.calls["bind"] >= 3)
    change(desk, unschedulable=True)
    await eventually(lambda: desk.binds.has_parked() or desk.withdrawn)
    desk.end()
    await desk.over()
    assert (desk.node_of(), desk.withdrawn) == ("", [("a", "node n is cordoned")])


async def test_what_the_pod_tolerates_keeps_nothing_off(desk):
    change(desk, taints=[MAINTENANCE])
    pod = desk.api.pod("a", tolerations=[{"key": "maintenance", "operator": "Exists"}])
    assert pod.template.tolerations == [Toleration(key="maintenance", operator="Exists")]
    desk.show("a")
    desk.binds.begin(desk.decide(pod))
    await desk.over()
    assert desk.node_of() == "n"


async def test_healthy_cards_and_an_unnamed_node_are_bound_to(desk):
    devices(desk, GPU)
    await begin(desk, minors=[0])
    assert desk.node_of() == "n"


async def test_a_device_in_view_counts_also_while_others_are_not(desk):
    devices(desk, replace(GPU, healthy=False))
    desk.put(subjects.synced_key("devices"), state.Synced(kind="devices", version=1, complete=False))
    await begin(desk, minors=[0])
    assert (desk.node_of(), desk.withdrawn) == ("", [("a", "gpu minor 0 on n is not healthy")])


async def test_who_is_given_devices_waits_for_them_and_nobody_else(api):
    desk = BindBench(api, cards=0)
    task = asyncio.create_task(desk.binds.run())
    desk.begin("a", minors=[0])
    await eventually(desk.binds.has_parked)
    desk.end()
    desk.begin("plain")
    await eventually(lambda: desk.landed, what="a pod without devices waits for none")
    assert (desk.landed, desk.withdrawn, desk.node_of()) == (["plain"], [], "")
    devices(desk, GPU)
    await desk.over()
    assert desk.node_of() == "n"
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("gpu/0", "gpu minor 0 on n is cordoned"),
        ("GPU-x", "gpu minor 0 on n is cordoned"),
        ("gpu/1,rdma/0", ""),
        ("none of these", ""),
    ],
)
async def test_a_device_that_was_cordoned_meanwhile_is_not_bound(desk, text, reason):
    devices(desk, replace(GPU, uuid="GPU-x"))
    change(desk, annotations={"scheduling.berth.sh/device-cordon": text})
    await begin(desk, minors=[0])
    assert (desk.node_of(), desk.withdrawn) == (("", [("a", reason)]) if reason else ("n", []))


@pytest.mark.parametrize("cordon", ["gpu/3", "rdma/0"])
async def test_a_count_is_not_bound_where_kubelet_may_pick_a_cordoned_card(desk, cordon):
    devices(desk, replace(GPU, minor=3))
    allocatable = {**desk.cluster.nodes["n"].allocatable, "nvidia.com/gpu": 1}
    change(desk, allocatable=allocatable, annotations={"scheduling.berth.sh/device-cordon": cordon})
    await begin(desk, allocation=allocation_of({"nvidia.com/gpu": 1}, []))
    reason = "kubelet of n may pick gpu 3 for nvidia.com/gpu, and it is cordoned"
    assert (desk.node_of(), desk.withdrawn) == (("", [("a", reason)]) if cordon == "gpu/3" else ("n", []))


@pytest.mark.parametrize(("reserved", "reason"), [("0", ""), ("1", "CPU 1 on n is kept for others")])
async def test_who_is_given_cpus_waits_for_the_topology_and_goes_by_it(desk, reserved, reason):
    desk.begin(allocation=allocation_of({}, [one(CPU, "1")]))
    await eventually(desk.binds.has_parked)
    desk.end()
    await eventually(desk.binds.has_parked)
    assert (desk.landed, desk.withdrawn) == ([], []), "nobody knows yet what CPUs there are"
    topology(desk)
    topology(desk, reserved, version=2)
    await eventually(lambda: desk.withdrawn or desk.landed or desk.binds.has_parked())
    desk.end()
    await desk.over()
    assert (desk.node_of(), desk.withdrawn) == (("", [("a", reason)]) if reason else ("n", []))


async def test_cpus_of_a_node_that_has_no_topology_any_more_are_not_bound(desk):
    desk.put(
        subjects.synced_key("noderesourcetopologies"),
        state.Synced(kind="noderesourcetopologies", version=1, complete=True),
    )
    await begin(desk, allocation=allocation_of({}, [one(CPU, "1")]))
    assert (desk.node_of(), desk.withdrawn) == ("", [("a", "CPU 1 on n is not there any more")])
