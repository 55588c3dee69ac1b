"""Claims read from bound objects: what holds capacity, and what cannot be read and therefore blocks."""

from __future__ import annotations

import pytest

from berth.contracts import names
from berth.contracts.grants import allocation_of, device
from berth.contracts.ledger import Decision, Loan, Step
from berth.contracts.state import HostPort, PodTemplate, Reservation
from berth.rules.records.seam import RECORD_LENGTH_MAX
from berth.testing.builders import gpu_grant, pod
from berth.transaction import claims

DEEP = "[" * 2000 + "]" * 2000


def test_a_bound_pod_and_its_decision_make_the_same_claim() -> None:
    grants = [gpu_grant(1, 50)]
    bound = (
        pod("a")
        .requests(cpu=1000)
        .share(50)
        .port(80)
        .label(names.LABEL_QUOTA_PREEMPTIBLE, "false")
        .annotation(names.ANNOTATION_QUOTA, "/team")
        .annotation(names.ANNOTATION_QUOTA_SURCHARGE, '{"licences.example.com/seat":"2"}')
        .annotation(names.ANNOTATION_RESERVATION_ALLOCATED, '{"name":"r","uid":"uid-r"}')
        .set(plan="plan-1")
        .on("n1", grants)
        .build(7)
    )
    decision = Decision(
        plan="plan-1",
        namespace="default",
        name="a",
        uid=bound.uid,
        attempt=0,
        node="n1",
        pod_version=1,
        basis=1,
        allocation=allocation_of(bound.template.requests, grants),
        quota="/team",
        surcharge={"licences.example.com/seat": 2},
        non_preemptible=True,
        reservation_uid="uid-r",
        host_ports=["0.0.0.0/TCP/80"],
    )
    read = claims.of_pod(bound, decision)
    assert read == claims.of_decision(decision)._replace(is_bound=True)
    assert read.takes_as(claims.of_decision(decision))
    assert read.is_ours
    noted = claims.of_pod(bound, accepts=lambda uid: uid == "uid-r")
    assert noted.takes_as(read)
    assert not noted.is_ours
    assert noted.charged == {**bound.template.requests, "licences.example.com/seat": 2}


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"gpu":[{"minor":"x"}]}',
        '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"50x"}}]}',
        '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"-50"}}]}',
        '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":-50}}]}',
        '{"gpu":[{"minor":0,"x":%s}]}' % DEEP,  # noqa: UP031
        '{"gpu":[{"minor":-1,"resources":{"koordinator.sh/gpu-core":"50"}}]}',
        "x" * (RECORD_LENGTH_MAX + 1),
    ],
)
def test_devices_that_cannot_be_read_block_the_node(text: str) -> None:
    read = claims.of_pod(pod("a").share(50).annotation(names.ANNOTATION_DEVICE_ALLOCATED, text).on("n").build(1))
    assert read.unreadable
    assert read.grants == ()


FILLED = claims.Claim(
    name=("default", "a"),
    uid="uid-a",
    node="n1",
    amounts={names.CPU: 1000},
    grants=(gpu_grant(1, 50),),
    ports=("0.0.0.0/TCP/80",),
    quota="/team",
    non_preemptible=True,
    reservation="uid-r",
    plan="plan-1",
    attempt=1,
    is_reservation=True,
    is_bound=True,
    unreadable=("devices",),
    by_kubelet=True,
    before=(Step(action="provision-volume", claim="c"),),
    inner={names.CPU: 500},
    uncharged={names.CPU: 100},
    paid="/team",
    loans=(Loan(reservation="l", reservation_uid="uid-l", amounts={names.CPU: 1}),),
    surcharge={"licences.example.com/seat": 1},
)
"""No field has its default value."""


def test_every_field_of_a_claim_is_what_it_takes_or_where_it_comes_from() -> None:
    assert sorted((*claims.TAKES, *claims.SOURCE, "before")) == sorted(claims.Claim._fields)


@pytest.mark.parametrize("field", claims.Claim._fields)
def test_claims_take_the_same_unless_they_differ_in_what_capacity_depends_on(field: str) -> None:
    empty = claims.Claim(("", ""), "", "", {})
    assert getattr(FILLED, field) != getattr(empty, field)
    other = FILLED._replace(**{field: getattr(empty, field)})
    assert FILLED.takes_as(other) == other.takes_as(FILLED) == (field in claims.SOURCE)


def test_a_bound_object_does_not_repeat_the_steps_of_its_decision() -> None:
    decided = FILLED._replace(is_bound=False)
    assert decided.takes_as(FILLED._replace(before=()))
    assert not decided.takes_as(decided._replace(before=()))


def test_devices_that_nobody_recorded_block_the_node() -> None:
    assert claims.of_pod(pod("a").gpus(1).on("n").build(1)).unreadable
    assert not claims.of_pod(pod("a").requests(cpu=1).on("n").build(1)).unreadable


@pytest.mark.parametrize(
    ("text", "amount"), [("16Gi", 16 << 30), ("2k", 2000), ("7", 7), ("1e3", 1000), ("1.5Gi", 3 << 29)]
)
def test_quantities_in_annotations(text: str, amount: int) -> None:
    note = '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-memory":"%s"}}]}' % text  # noqa: UP031
    asks = pod("a").requests({names.GPU_MEMORY_RATIO: 50}).annotation(names.ANNOTATION_DEVICE_ALLOCATED, note)
    read = claims.of_pod(asks.on("n").build(1))
    assert read.grants == (device("gpu", 0, {names.GPU_MEMORY_RATIO: 50, names.GPU_MEMORY: amount}),)


@pytest.mark.parametrize("text", ["{", '{"uid":"u","x":%s}' % DEEP])  # noqa: UP031
def test_an_unreadable_reservation_reference_is_none(text: str) -> None:
    bound = pod("a").annotation(names.ANNOTATION_RESERVATION_ALLOCATED, text).on("n").build(1)
    assert claims.of_pod(bound, accepts=lambda _: True).reservation == ""


def test_addresses_of_ports_are_written_out() -> None:
    bound = pod("a").template(host_ports=[HostPort(port=1, host_ip="10.0.0.1", protocol="UDP")]).on("n").build(1)
    assert claims.of_pod(bound).ports == ("10.0.0.1/UDP/1",)


def test_a_reservation_holds_what_it_was_given() -> None:
    reservation = Reservation(
        name="r",
        uid="uid-r",
        version=1,
        node="n",
        phase="Available",
        template=PodTemplate(requests={names.CPU: 1}),
        allocatable={names.CPU: 4},
    )
    claim = claims.of_reservation(reservation)
    assert (claim.amounts, claim.is_reservation, claim.name) == ({names.CPU: 4}, True, ("", "r"))
