"""The question behind every test of placement: is nothing given out beyond what there is?"""

from __future__ import annotations

from tests.e2e.objects import DEVICES, NODES
from tests.e2e.recount import over_capacity
from tests.e2e.whole import Whole

from berth.cli.judge import judge


async def check_capacity(whole: Whole) -> None:
    """Nothing is given out beyond what there is: counted here once more, and every promise by name."""
    pods = await whole.items("/api/v1/pods")
    too_much = over_capacity(await whole.items(NODES), await whole.items(DEVICES), pods)
    assert not too_much, "\n".join(too_much)
    report = await judge(whole, whole.bus)
    assert report.ok, "\n".join(report.lines())
