"""What a refusal tells a user to do helps: it is done to the cluster as the text says, and the pod is placed."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from berth.contracts import names
from berth.placement_solver.core import explain
from berth.resources.amounts import Amounts, parse_amounts
from berth.testing.builders import GI, gpu_grant, gpu_slots, pod

LAWS = settings(max_examples=75, deadline=None, suppress_health_check=[HealthCheck.too_slow])
AMOUNT = re.compile(r"(\S+) (cpu|memory|example\.com/disk)")
DISK = "example.com/disk"


class World:
    """Nodes with holders that can be shrunk one by one: of amounts, of each GPU, of pod slots, of a port."""

    def __init__(self, run: Any) -> None:
        self.run = run
        self.held: dict[str, Amounts] = {}
        self.gpus: dict[tuple[str, int], int] = {}

    def draw(self, data: st.DataObject) -> World:
        for index in range(data.draw(st.integers(1, 3))):
            name = f"n{index}"
            cpu, memory = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 8))
            gpus = data.draw(st.integers(0, 2))
            slots = gpus + 3 + data.draw(st.integers(0, 2))
            self.run.node(name, cpu=cpu * 1000, memory=memory * GI, pods=slots, extended={DISK: 3})
            self.run.devices(name, gpu_slots(gpus))
            amounts = {names.CPU: 500 * data.draw(st.integers(0, 2 * cpu + 2)), DISK: data.draw(st.integers(0, 3))}
            amounts[names.MEMORY] = GI // 2 * data.draw(st.integers(0, 2 * memory))
            self.hold(name, amounts)
            for minor in range(gpus):
                self.share(name, minor, data.draw(st.sampled_from([0, 0, 30, 70, 100])))
            self.run.pod(pod(f"filler-{name}").on(name))
            self.port(name, data.draw(st.booleans()))
        return self

    def hold(self, node: str, amounts: Amounts) -> None:
        assert min(amounts.values()) >= 0, "asked to free more than is held"
        self.held[node] = amounts
        self.run.pod(pod(f"holder-{node}").requests(amounts).on(node))

    def share(self, node: str, minor: int, percent: int) -> None:
        assert percent >= 0
        self.gpus[node, minor] = percent
        builder = pod(f"gpu-{minor}-{node}")
        grants = [gpu_grant(minor, percent)] if percent else None
        self.run.pod((builder.share(percent) if percent else builder).on(node, grants))

    def port(self, node: str, taken: bool) -> None:
        builder = pod(f"port-{node}").on(node)
        self.run.pod(builder.port(80) if taken else builder)

    def free(self, text: str, node: str) -> None:
        """Do what `free ... on node ...` says."""
        freed = amounts_in(text)
        self.hold(node, {name: held - freed.get(name, 0) for name, held in self.held[node].items()})
        for percent, minor in re.findall(r"(\d+) % of GPU (\d+)", text):
            self.share(node, int(minor), self.gpus[node, int(minor)] - int(percent))
        for minors in re.findall(r"(?<!of )GPUs? (\d[\d ]*)", text):
            for minor in minors.split():
                self.share(node, int(minor), 0)
        if "1 pod slot" in text:
            self.run.delete_pod(f"filler-{node}")
        if "host port" in text:
            self.port(node, False)


def amounts_in(text: str) -> Amounts:
    return parse_amounts({name: quantity for quantity, name in AMOUNT.findall(text)}, "text")[0]


@st.composite
def wishes(draw: st.DrawFn) -> Amounts:
    percent = draw(st.integers(1, 100))
    gpu = draw(
        st.sampled_from(
            [
                {},
                {},
                {names.NVIDIA_GPU: draw(st.integers(1, 2))},
                {names.GPU_CORE: percent, names.GPU_MEMORY_RATIO: percent},
                {names.GPU_MEMORY: percent * GI // 7},
                {names.GPU_SHARED: 2, names.GPU_CORE: 2 * percent, names.GPU_MEMORY_RATIO: 2 * percent},
            ]
        )
    )
    plain = {
        names.CPU: 700 * draw(st.integers(0, 9)),
        names.MEMORY: draw(st.integers(0, 7)) * GI,
        DISK: draw(st.integers(0, 3)),
    }
    return gpu | plain


def with_fewer_gpus(request: Amounts, count: int) -> Amounts:
    """The request in its own words, for so many GPUs."""
    if names.GPU_SHARED not in request:
        return {**request, names.NVIDIA_GPU: count}
    each = request[names.GPU_CORE] // request[names.GPU_SHARED]
    return {**request, names.GPU_SHARED: count, names.GPU_CORE: count * each, names.GPU_MEMORY_RATIO: count * each}


def try_again(run: Any) -> Any:
    for waiting in list(run.cluster.queue.waiting.values()):
        run.cluster.queue.make_ready(waiting)
    return run.round()  # asserts that the verifier agrees


def repairs(solution: Any) -> list[str]:
    return [reason.repair for reason in solution.refusals[0].reasons if reason.repair]


@LAWS
@given(st.data())
def test_a_pod_fits_after_its_repair(solving: type[Any], data: st.DataObject) -> None:
    run = solving()
    world = World(run).draw(data)
    request, port = data.draw(wishes()), data.draw(st.booleans())

    def show(amounts: Amounts) -> None:
        run.pod(pod("p").requests(amounts).port(80) if port else pod("p").requests(amounts))

    show(request)
    solution = run.round()
    assume(solution.refusals)
    (repair,) = repairs(solution)
    way, _, other = repair.partition(", or ask for ")
    if other and data.draw(st.booleans()):
        if other == "that much less":
            freed = amounts_in(way)
            show({name: amount - freed.get(name, 0) for name, amount in request.items()})
        else:
            show(with_fewer_gpus(request, int(other.split()[0])))
    elif found := re.fullmatch("free (.*) on node (.*)", way):
        text, node = found.groups()
        world.free(text, node)
        held = world.held[node]
        for name in amounts_in(text):
            world.hold(node, {**held, name: held[name] + 1})
            assert not try_again(run).placements, "less would do"
            world.hold(node, held)
    elif found := re.fullmatch("ask for at most (.*), which node .* has free", way):
        show({**request, **amounts_in(found[1])})
    else:
        assert way == "add a node with capacity for it"
        run.node("more", cpu=request[names.CPU], memory=request[names.MEMORY], pods=1, extended={DISK: request[DISK]})
        run.devices("more", gpu_slots(3))
    assert [placed.candidate.name[1] for placed in try_again(run).placements] == ["p"]


def test_two_whole_gpus_asked_for_as_shares_are_repaired_in_the_same_words(solving: type[Any]) -> None:
    run = solving()
    run.node("n")
    run.devices("n", gpu_slots(2))
    run.pod(pod("holder").share(30).on("n", [gpu_grant(1, 30)]))
    request = {names.GPU_SHARED: 2, names.GPU_CORE: 200, names.GPU_MEMORY_RATIO: 200}
    run.pod(pod("p").requests(request))
    assert repairs(run.round()) == ["free GPU 1 on node n, or ask for 1 GPU"]
    run.pod(pod("p").requests(with_fewer_gpus(request, 1)))
    assert len(try_again(run).placements) == 1


@LAWS
@given(st.data())
def test_a_gang_of_equal_members_fits_after_its_repair(solving: type[Any], data: st.DataObject) -> None:
    run = solving()
    world = World(run).draw(data)
    request = data.draw(wishes())
    count = data.draw(st.integers(2, 4))
    minimum = data.draw(st.integers(2, count))
    run.pods(pod(f"p{index}").requests(request).gang("g", minimum) for index in range(count))
    solution = run.round()
    assume(not solution.placements)
    (repair,) = repairs(solution)
    if found := re.fullmatch("free (.*) on node (.*)", repair):
        text, node = found.groups()
        assume("pod slots" not in text)
        world.free(text, node)
    else:
        found = re.fullmatch(r"add nodes with capacity for (\d+) such pods", repair)
        assert found
        for index in range(int(found[1])):
            more = {"cpu": request[names.CPU], "memory": request[names.MEMORY], "extended": {DISK: request[DISK]}}
            run.node(f"more-{index}", pods=1, **more)
            run.devices(f"more-{index}", gpu_slots(2))
    assert len(try_again(run).placements) >= minimum


def test_members_that_differ_are_told_no_repair(solving: type[Any]) -> None:
    run = solving()
    run.node("n", cpu=3000)
    run.pods(pod(f"p{cpu}").requests(cpu=1000 * cpu).gang("g", 2) for cpu in (2, 3))
    assert repairs(run.round()) == []


# --- quotas ----------------------------------------------------------------------------------------------------------

FIELDS = re.compile(r"((?:min|max)(?: and max)?) of quota (\w+) to (\S+) (cpu|memory)")
FREED = re.compile(r"(\S+) (cpu|memory) (of non-preemptible pods )?in quota (\w+)")


class Quotas:
    """`team` and `other` below `top`, each with a holder of preemptible pods and one of the others."""

    def __init__(self, run: Any, data: st.DataObject) -> None:
        self.run = run
        few = st.integers(0, 9)
        self.limits: dict[str, dict[str, Amounts]] = {}
        for name in ("top", "team", "other"):
            most = {names.CPU: 1000 * data.draw(few), names.MEMORY: data.draw(few) * GI}
            least = {names.CPU: data.draw(st.integers(0, 4)) * 1000}
            granted = {each: amount * data.draw(st.integers(1, 4)) // 4 for each, amount in most.items()}
            self.limits[name] = {"min": least, "max": most, "runtime": granted}
            self.tell(name)
        self.held = {
            (name, non_preemptible): {names.CPU: 500 * data.draw(few), names.MEMORY: GI // 2 * data.draw(few)}
            for name in ("team", "other")
            for non_preemptible in (False, True)
        }
        for name, non_preemptible in self.held:
            self.show(name, non_preemptible=non_preemptible)

    def tell(self, name: str) -> None:
        family = {"is_parent": True} if name == "top" else {"parent": "top", "ancestors": ["top"]}
        limits = self.limits[name]
        for resource, most in limits["max"].items():
            promised = min(limits["min"].get(resource, 0), most)
            limits["runtime"][resource] = max(promised, limits["runtime"].get(resource, 0))
        self.run.quota(name, **family, **limits)

    def show(self, name: str, *, non_preemptible: bool) -> None:
        holder = pod(f"holder-{name}-{non_preemptible}").requests(self.held[name, non_preemptible])
        self.run.pod(holder.quota(name, non_preemptible=non_preemptible).on("big"))

    def free(self, text: str) -> None:
        for quantity, resource, only_non_preemptible, quota in FREED.findall(text):
            left = amounts_in(f"{quantity} {resource}")[resource]
            places = [
                (each, non_preemptible)
                for non_preemptible in (True, False)
                for each in ("team", "other")
                if quota in (each, "top")
            ]
            for name, non_preemptible in places:
                if non_preemptible or not only_non_preemptible:
                    part = min(left, self.held[name, non_preemptible][resource])
                    self.held[name, non_preemptible][resource] -= part
                    left -= part
                    self.show(name, non_preemptible=non_preemptible)
            assert left == 0, "asked to free more than is held"

    def raise_to(self, text: str) -> None:
        for fields, quota, quantity, resource in FIELDS.findall(text):
            amount = amounts_in(f"{quantity} {resource}")[resource]
            for field in fields.split(" and "):
                assert amount > self.limits[quota][field].get(resource, 0)
                self.limits[quota][field][resource] = amount
        for name in self.limits:
            self.tell(name)


@LAWS
@given(st.data())
def test_a_quota_allows_a_pod_after_its_repair(solving: type[Any], data: st.DataObject) -> None:
    run = solving()
    run.node("big", cpu=1_000_000, memory=1000 * GI)
    quotas = Quotas(run, data)
    asked = {names.CPU: 700 * data.draw(st.integers(0, 9)), names.MEMORY: data.draw(st.integers(0, 6)) * GI}
    gang, non_preemptible = data.draw(st.integers(1, 3)), data.draw(st.booleans())
    members = [pod(f"p{index}").requests(asked).quota("team", non_preemptible=non_preemptible) for index in range(gang)]
    run.pods(member.gang("g", gang) for member in members)
    solution = run.round()
    assume(solution.refusals)
    (repair,) = repairs(solution)
    freeing, _, raising = repair.rpartition("raise ")
    ways = [way for way in (freeing.removesuffix(", or "), raising) if way]
    way = data.draw(st.sampled_from(ways))
    if way == raising:
        quotas.raise_to(way)
    else:
        quotas.free(way)
    assert len(try_again(run).placements) == gang


# --- single cases ----------------------------------------------------------------------------------------------------


def test_every_field_that_is_not_honoured_is_named_at_once(solving: type[Any]) -> None:
    run = solving()
    run.node("n")
    wrong = pod("p").requests({names.CPU: 1, "nvidia.com/mig-1g.5gb": 1})
    wrong.template(constraints=["spec.resourceClaims"])
    run.pod(wrong)
    (refusal,) = run.round().refusals
    text = explain.message(refusal.reasons, 1)
    assert text.endswith("To repair: remove spec.resourceClaims and remove resources.requests[nvidia.com/mig-1g.5gb].")
    run.pod(pod("p").requests(cpu=1))
    assert len(try_again(run).placements) == 1


def test_gpus_held_by_nobody_knows_whom_are_asked_back(solving: type[Any]) -> None:
    run = solving()
    run.node("n")
    run.devices("n", gpu_slots(2))
    run.pod(pod("other").gpus(1).on("n").template(scheduler="default-scheduler"))
    run.pod(pod("p").gpus(2))
    assert repairs(run.round()) == ["free the devices of pods that do not say which on node n"]
    run.delete_pod("other")
    assert len(try_again(run).placements) == 1


def test_of_two_nodes_the_nearer_one_is_named(solving: type[Any]) -> None:
    run = solving()
    for name, held in (("far", 7000), ("near", 4000)):
        run.node(name, cpu=8000)
        run.pod(pod(f"holder-{name}").requests(cpu=held).on(name))
    run.pod(pod("p").requests(cpu=5000))
    assert repairs(run.round()) == ["free 1 cpu on node near, or ask for that much less"]


def test_nodes_that_give_out_partitions_only_and_have_none_take_no_whole_gpus(solving: type[Any]) -> None:
    run = solving()
    run.node("n", labels={names.LABEL_GPU_PARTITION_POLICY: "Honor"})
    run.devices("n", gpu_slots(2))
    run.pods([pod("p").gpus(1), pod("share").share(50), pod("plain").requests(cpu=1)])
    solution = run.round()
    assert set(run.nodes_of(solution)) == {"share", "plain"}
    (refusal,) = solution.refusals
    assert explain.message(refusal.reasons, 1) == (
        "0/1 nodes are available: 1 node(s) missing GPU Partition Table. "
        "To repair: give the node's Device the annotation scheduling.koordinator.sh/gpu-partitions."
    )
    run.node("n", labels={names.LABEL_GPU_PARTITION_POLICY: "Prefer"})
    placed = try_again(run).placements
    assert [each.candidate.name[1] for each in placed] == ["p"]
    run.node("n", labels={names.LABEL_GPU_PARTITION_POLICY: "Honor"})
    other = pod("other").gpus(1)
    seen = run.pod(other)
    forced = placed[0].claim._replace(name=("default", "other"), uid=seen.uid)
    assert any("no partition of the node" in text for text in run.verifier.check([forced]))
