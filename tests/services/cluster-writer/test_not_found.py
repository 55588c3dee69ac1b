"""404 means look, not gone: a proxy, an API server that is starting, or a list of another moment may say it too."""

from __future__ import annotations

from berth.kube.answer import Answer
from berth.testing.views import eventually

MISSING = Answer(404, b"404 page not found", "Not Found")


async def test_a_pod_that_is_there_is_bound_whoever_says_404(desk):
    desk.api.on("bind", *[lambda name: MISSING] * 3)
    desk.api.on("get", *[lambda name: MISSING] * 2)
    desk.begin()
    await eventually(lambda: desk.node_of() == "n", deadline_s=5.0)


async def test_a_withdrawal_that_is_answered_by_404_is_tried_again(desk):
    desk.api.on("patch", *[lambda name, body: MISSING] * 3)
    pod = desk.api.pod("a")
    desk.show("a")
    desk.binds.give_up(desk.decide(pod), "for a reason")
    await eventually(lambda: desk.api.seen("a").attempt == 1, deadline_s=5.0)
