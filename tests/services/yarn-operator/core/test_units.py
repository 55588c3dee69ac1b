"""Between batch resources and YARN's."""

from typing import Any

import pytest

from berth.contracts.names import BATCH_CPU, BATCH_MEMORY
from berth.resources.amounts import parse_amounts
from berth.testing.vectors import cases
from berth.yarn_operator.core.notes import entry_of
from berth.yarn_operator.core.units import MIB, NONE, Share, amounts_of, larger, share_of, smaller

MEGABYTE = 10**6


@pytest.mark.parametrize("case", cases("overcommit/yarn_resources"))
def test_units_of_yarn(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    if "originBatch" in given:
        origin = given["originBatch"]
        amounts = {BATCH_CPU: origin["cpuMilli"], BATCH_MEMORY: origin["memoryBytes"]}
        share = share_of(amounts, megabyte=MEGABYTE, rounds_up=True)
        assert expect["resourceManager"] == {"vcores": share.vcores, "memoryMB": share.memory_mb}
    if "rmUsed" in given:
        used = given["rmUsed"]
        entry = entry_of(Share(used["vcores"], used["memoryMB"]))
        amounts, problems = parse_amounts(entry["resources"], "resources")
        wanted, _ = parse_amounts(expect["thirdPartyAllocation"]["resources"], "resources")
        assert not problems
        assert (entry["name"], entry["priority"]) == ("hadoop-yarn", "koord-batch")
        assert amounts == wanted


def test_whole_units_are_rounded_down() -> None:
    assert share_of({BATCH_CPU: 1999, BATCH_MEMORY: 3 * MIB - 1}) == Share(1, 2)
    assert share_of({}) == NONE
    assert amounts_of(Share(2, 3)) == {BATCH_CPU: 2000, BATCH_MEMORY: 3 * MIB}


def test_parts_are_compared_one_by_one() -> None:
    assert larger(Share(1, 5), Share(2, 4)) == Share(2, 5)
    assert smaller(Share(1, 5), Share(2, 4)) == Share(1, 4)
    assert not Share(1, 5).within(Share(2, 4))
