"""What a loss excuses, and what it does not."""

from __future__ import annotations

import pytest
from tests.chaos.excused import Loss, caught, was_there
from tests.chaos.eyes import Life

from berth.contracts import names
from berth.contracts.event import AuditReported

LOSS = Loss(pods_version=100, raised_ms=1_000_000)


def bound(version: int) -> Life:
    return Life("p", 0.0, born_version=10, node="n1", bound_version=version)


def waits(since: int) -> Life:
    return Life("p", 0.0, born_version=since)


@pytest.mark.parametrize(
    ("members", "is_caught"),
    [
        ([bound(90), waits(80)], True),
        ([bound(100), waits(100)], True),
        ([bound(90), bound(101), waits(80)], False),
        ([bound(90), waits(101)], False),
        ([bound(90), None], False),
    ],
    ids=["in mid-bind", "just so", "one is bound behind it", "one came behind it", "one was never seen"],
)
def test_a_gang_is_excused_whose_binds_were_cut_short(members: list[Life | None], is_caught: bool) -> None:
    labels = {names.LABEL_POD_GROUP: "g"}
    pods = [{"metadata": {"uid": str(at), "namespace": "ns", "labels": labels}} for at in range(len(members))]
    lives = {str(at): life for at, life in enumerate(members) if life is not None}
    assert (("ns", "g") in caught(LOSS, pods, lives)) is is_caught


@pytest.mark.parametrize(
    ("promise", "at_ms", "is_excused"),
    [("I5", 999_000, True), ("I5", 1_004_000, True), ("I5", 1_006_000, False), ("I1", 999_000, False)],
)
def test_the_auditor_may_see_the_loss_until_it_is_mended(promise: str, at_ms: int, is_excused: bool) -> None:
    assert was_there(AuditReported(promise=promise, title="", subject="ns/p", at_ms=at_ms), LOSS) is is_excused
