"""What victims are told: for whom they leave."""

from __future__ import annotations

from typing import Any

import pytest

from berth.cluster_writer.eviction_publisher import EvictionPublisher
from berth.rules.eviction_notes import Mark
from berth.rules.preemption import BY_QUOTA, BY_SCHEDULER
from berth.testing.builders import pod


class Kept:
    """Where events and notes go."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def put(self, note: Any) -> None:
        self.texts.append(f"{note.reason}: {note.message}")

    def offer(self, *_: object, **__: object) -> bool:
        return True


@pytest.mark.parametrize(
    ("beneficiary", "reason", "sent", "refused"),
    [
        (
            "ns/high",
            BY_SCHEDULER,
            "Preempted: Preempted by pod u on node n",
            "PreemptionRefused: Preemption by pod u is refused: no",
        ),
        (
            "/nightly",
            BY_SCHEDULER,
            "Preempted: Preempted by reservation nightly on node n",
            "PreemptionRefused: Preemption by reservation nightly is refused: no",
        ),
        (
            "/quota::team",
            BY_QUOTA,
            "Revoked: Revoked on node n: quota group team has used more than its runtime for too long",
            "PreemptionRefused: Revocation by quota group team is refused: no",
        ),
    ],
)
def test_a_victim_is_told_for_whom_it_leaves(beneficiary: str, reason: str, sent: str, refused: str) -> None:
    kept: Any = Kept()
    publisher = EvictionPublisher(kept, kept)
    victim, mark = pod("low").on("n").build(1), Mark("p", beneficiary, "u", reason)
    publisher.sent(victim, mark)
    publisher.refused(victim, mark, "no")
    assert kept.texts == [sent, refused]
