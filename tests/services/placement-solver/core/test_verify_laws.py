"""The verifier accepts every plan that the solver makes, and rejects plans with one thing made wrong."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from berth.contracts import names, subjects
from berth.contracts.grants import device
from berth.contracts.kube import ReservationOwner, Taint
from berth.contracts.ledger import Grant
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.state import PodTemplate, Reservation
from berth.testing.builders import GI, PodBuilder, allocated, gpu_grant, gpu_slots, pod
from berth.transaction.claims import Claim

LAWS = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
GPUS = 2


@st.composite
def wishes(draw: st.DrawFn) -> dict[str, int]:
    """Requests of every accepted form, small enough to fit now and then."""
    percent = draw(st.integers(1, 100))
    request = {names.CPU: draw(st.integers(0, 4)) * 1000, names.MEMORY: draw(st.integers(0, 4)) * GI}
    request |= draw(
        st.sampled_from(
            [
                {},
                {},
                {names.NVIDIA_GPU: 1},
                {names.NVIDIA_GPU: 2},
                {names.KOORD_GPU: percent},
                {names.GPU_CORE: percent, names.GPU_MEMORY_RATIO: percent},
                {names.GPU_MEMORY_RATIO: percent},
                {names.GPU_MEMORY: percent * GI // 5},
                {names.GPU_CORE: percent, names.GPU_MEMORY: percent * GI // 7 + 1},
                {names.GPU_SHARED: 2, names.GPU_CORE: 2 * percent, names.GPU_MEMORY_RATIO: 2 * percent},
                {names.GPU_SHARED: 2, names.GPU_MEMORY: 2 * percent * GI // 9 + 1},
            ]
        )
    )
    return request


@st.composite
def clusters(draw: st.DrawFn, solving: type[Any]) -> Any:
    """Nodes, GPUs, quotas, reservations, holders bound by others, gangs and single pods that wait."""
    run = solving()
    count = draw(st.integers(1, 3))
    for index in range(count):
        run.node(
            f"n{index}",
            cpu=draw(st.sampled_from([4, 9, 16, 32])) * 1000,
            memory=draw(st.sampled_from([5, 12, 64])) * GI,
            pods=draw(st.sampled_from([3, 8, 110])),
            labels={"zone": f"z{index % 2}"},
            taints=[Taint(key="own", effect="NoSchedule")] if draw(st.integers(0, 5)) == 0 else [],
            unschedulable=draw(st.integers(0, 9)) == 0,
        )
        if draw(st.integers(0, 4)):
            run.devices(f"n{index}", gpu_slots(GPUS, unhealthy=draw(st.sampled_from([(), (), (1,)]))))
    limit = draw(st.sampled_from([4, 9, 20]))
    ample = {names.CPU: 1000 * limit, names.MEMORY: 64 * GI}
    run.quota("root-of-teams", is_parent=True, max={names.CPU: 1500 * limit, names.MEMORY: 99 * GI})
    for team in ("blue", "red"):
        run.quota(
            team,
            parent="root-of-teams",
            ancestors=["root-of-teams"],
            max={name: 2 * amount for name, amount in ample.items()},
            min={names.CPU: 500 * limit},
            runtime=ample,
            namespaces=[team],
        )
    for index in range(draw(st.integers(0, 3))):
        _add_reservation(draw, run, index, f"n{draw(st.integers(0, count - 1))}")
    for index in range(draw(st.integers(0, 3))):
        held = [gpu_grant(draw(st.integers(0, 1)), draw(st.integers(1, 60)))] if draw(st.booleans()) else None
        other = pod(f"other-{index}").requests(cpu=1000 * draw(st.integers(0, 5))).on(f"n{index % count}", held)
        if held:
            other.share(held[0].amounts[names.GPU_CORE])
        run.pod(other.template(scheduler="default-scheduler"))
    for builder in draw(waiting_pods()):
        run.pod(builder)
    return run


def _add_reservation(draw: st.DrawFn, run: Any, index: int, node: str) -> None:
    amounts = {names.CPU: 1000 * draw(st.integers(1, 4)), names.MEMORY: draw(st.integers(0, 4)) * GI}
    notes = {}
    if draw(st.booleans()):
        amounts |= {names.GPU_CORE: 100, names.GPU_MEMORY_RATIO: 100}
        notes[names.ANNOTATION_DEVICE_ALLOCATED] = allocated([gpu_grant(0)])
    name = f"r{index}"
    available = Reservation(
        name=name,
        uid=f"uid-{name}",
        version=0,
        template=PodTemplate(requests=amounts),
        annotations=notes,
        phase="Available",
        node=node,
        allocatable=amounts,
    )
    capacity = ReservedCapacity(
        name=name,
        uid=f"uid-{name}",
        revision=1,
        phase="Available",
        node=node,
        usable=True,
        amounts=amounts,
        allocate_once=draw(st.booleans()),
        allocate_policy=draw(st.sampled_from(["", "Restricted"])),
        owners=[ReservationOwner()] if draw(st.booleans()) else [],
    )
    run.reservation(available, capacity)


@st.composite
def waiting_pods(draw: st.DrawFn) -> list[PodBuilder]:
    builders = []
    for index in range(draw(st.integers(1, 8))):
        builder = pod(f"p{index}", draw(st.sampled_from(["default", "blue", "red"]))).requests(draw(wishes()))
        kind = draw(st.integers(0, 9))
        if kind == 0:
            builder.only_on("zone", "z1")
        elif kind == 1:
            builder.tolerates("own")
        elif kind == 2:
            builder.port(8080)
        elif kind == 3:
            builder.label(names.LABEL_QUOTA_PREEMPTIBLE, "false")
        elif kind == 5:
            builder.label(names.LABEL_RESERVATION_IGNORED, "true")
        if kind == 4 or draw(st.integers(0, 9)) == 0:
            builder.annotation(names.ANNOTATION_RESERVATION_AFFINITY, "{}")
        builders.append(builder)
    for gang in range(draw(st.integers(0, 2))):
        minimum = draw(st.integers(1, 4))
        request, mode = draw(wishes()), draw(st.sampled_from(["Strict", "NonStrict"]))
        builders += [
            pod(f"g{gang}-{index}").requests(request).gang(f"g{gang}", minimum, mode=mode)
            for index in range(minimum + draw(st.integers(0, 1)))
        ]
    return builders


def solved(run: Any) -> list[Claim]:
    """The claims of the next plan, taken back from the capacity so that only the verifier judges them."""
    solution, trial = run.solve()
    trial.undo()
    return [placement.claim for placement in solution.placements]


@LAWS
@given(st.data())
def test_accepts_whatever_the_solver_plans(solving: type[Any], data: st.DataObject) -> None:
    run = data.draw(clusters(solving))
    for limit in (3, 200, 200):
        run.round(limit)  # asserts that the verifier finds nothing
        run.cluster.queue.wake(run.cluster.now)
        run.cluster.now += 100.0


MUTATIONS = ("node", "uid", "amounts", "double", "plan", "attempt", "reservation", "port")


@LAWS
@given(st.data(), st.sampled_from(MUTATIONS))
def test_rejects_a_plan_with_one_claim_made_wrong(solving: type[Any], data: st.DataObject, how: str) -> None:
    run = data.draw(clusters(solving))
    claims = solved(run)
    assume(claims)
    index = data.draw(st.integers(0, len(claims) - 1))
    claim = claims[index]
    wrong = {
        "node": claim._replace(node="nowhere"),
        "uid": claim._replace(uid="another"),
        "amounts": claim._replace(amounts={**claim.amounts, names.CPU: claim.amounts.get(names.CPU, 0) + 1}),
        "plan": claim._replace(plan=""),
        "attempt": claim._replace(attempt=claim.attempt + 1),
        "reservation": claim._replace(reservation="uid-unknown"),
        "port": claim._replace(ports=(*claim.ports, "0.0.0.0/TCP/1")),
    }
    plan = [*claims, claim] if how == "double" else [*claims[:index], wrong[how], *claims[index + 1 :]]
    assert run.verifier.check(claims) == []
    assert run.verifier.check(plan)


@LAWS
@given(st.data(), st.sampled_from(["drop", "twice", "more", "unhealthy", "less memory", "absent"]))
def test_rejects_devices_made_wrong(solving: type[Any], data: st.DataObject, how: str) -> None:
    run = data.draw(clusters(solving))
    claims = solved(run)
    with_devices = [index for index, claim in enumerate(claims) if claim.grants]
    assume(with_devices)
    index = data.draw(st.sampled_from(with_devices))
    claim = claims[index]
    first = claim.grants[0]
    changed = {
        "drop": claim.grants[1:],
        "twice": (*claim.grants, first),
        "more": (_with(first, first.amounts.get(names.GPU_CORE, 0) + 1, names.GPU_CORE), *claim.grants[1:]),
        "unhealthy": (device("gpu", 7, first.amounts), *claim.grants[1:]),
        "less memory": (_with(first, first.amounts[names.GPU_MEMORY] - 1, names.GPU_MEMORY), *claim.grants[1:]),
        "absent": (),
    }[how]
    if how == "more":
        assume(names.GPU_CORE in first.amounts)
    if how == "unhealthy":
        run.devices(claim.node, gpu_slots(8, unhealthy=(7,)))
    plan = [*claims[:index], claim._replace(grants=changed), *claims[index + 1 :]]
    assert run.verifier.check(plan)


def _with(grant: Grant, amount: int, name: str) -> Grant:
    return Grant(kind=grant.kind, id=grant.id, amounts={**grant.amounts, name: amount})


@LAWS
@given(st.data())
def test_rejects_a_gang_without_one_of_its_members(solving: type[Any], data: st.DataObject) -> None:
    run = solving()
    run.node("n0")
    minimum = data.draw(st.integers(1, 6))
    run.pods(pod(f"g-{index}").requests(cpu=100).gang("g", minimum) for index in range(minimum))
    claims = solved(run)
    assert len(claims) == minimum
    assert run.verifier.check(claims) == []
    left_out = data.draw(st.integers(0, minimum - 1))
    if minimum > 1:
        assert any("g" in text for text in run.verifier.check(claims[:left_out] + claims[left_out + 1 :]))


@LAWS
@given(st.data())
def test_rejects_a_minor_that_somebody_else_holds(solving: type[Any], data: st.DataObject) -> None:
    run = solving()
    run.node("n0")
    run.devices("n0", gpu_slots(4))
    shares = data.draw(st.lists(st.integers(51, 100), min_size=2, max_size=4))
    run.pods(pod(f"p{index}").share(share) for index, share in enumerate(shares))
    claims = solved(run)
    assert len(claims) == len(shares)
    assert run.verifier.check(claims) == []
    one, two = data.draw(st.permutations(range(len(claims))).map(lambda order: order[:2]))
    grant = claims[one].grants[0]
    moved = device("gpu", claims[two].grants[0].minor, grant.amounts)
    assert run.verifier.check([*claims[:one], claims[one]._replace(grants=(moved,)), *claims[one + 1 :]])


@pytest.mark.parametrize("bound", ["runtime", "max", "min"])
def test_rejects_a_plan_that_exceeds_a_quota(solving: type[Any], bound: str) -> None:
    run = solving()
    run.node("n0")
    run.quota("top", is_parent=True, max={names.CPU: 10_000})
    run.quota("team", ancestors=["top"], max={names.CPU: 9_000}, min={names.CPU: 9_000})
    run.pods(pod(f"p{index}").requests(cpu=3000).quota("team", non_preemptible=bound == "min") for index in range(3))
    claims = solved(run)
    assert len(claims) == 3
    assert run.verifier.check(claims) == []
    if bound == "max":
        run.quota("top", is_parent=True, max={names.CPU: 8_999})
    elif bound == "runtime":
        run.quota("team", ancestors=["top"], max={names.CPU: 9_000}, runtime={names.CPU: 8_999})
    else:
        run.quota("team", ancestors=["top"], max={names.CPU: 9_000}, min={names.CPU: 8_999})
    assert any(bound in text for text in run.verifier.check(claims))


def test_rejects_a_charge_below_a_group_that_is_not_known(solving: type[Any]) -> None:
    run = solving()
    run.node("n0")
    run.quota("top", is_parent=True, max={names.CPU: 10_000})
    run.quota("team", ancestors=["top"], max={names.CPU: 9_000})
    run.pods([pod("p").requests(cpu=3000).quota("team")])
    claims = solved(run)
    assert run.verifier.check(claims) == []
    run.cluster.read_quota(subjects.quota_key("", "top"), b"", True)
    assert ["quota top above it" in text for text in run.verifier.check(claims)] == [True]
