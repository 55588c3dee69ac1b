"""Who may enter the queue."""

from __future__ import annotations

from typing import Any

import pytest

from berth.rules.queue_admission import GangState, Round, admission
from berth.testing.vectors import cases


@pytest.mark.parametrize("case", cases("gang/queue_admission"))
def test_vector(case: dict[str, Any]) -> None:
    given = case["given"]
    gangs = {
        gang_id: GangState(
            each["minRequired"] if each["initialized"] else None,
            each["members"],
            each.get("group", [gang_id]),
            each.get("matchPolicy", "once-satisfied"),
            each.get("onceSatisfied", False),
        )
        for gang_id, each in given["gangs"].items()
    }
    gang_id = given["pod"].get("gang")
    scheduling = given.get("scheduling")
    found = admission(
        given["pod"]["name"],
        gang_id,
        gangs,
        representative=given["gangs"].get(gang_id, {}).get("representative", ""),
        current=Round(scheduling["group"], scheduling["attempted"]) if scheduling else None,
    )
    assert found == case["expect"]["result"]
