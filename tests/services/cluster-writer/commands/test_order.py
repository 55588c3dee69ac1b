"""Of several requests for one object the newest holds, and that for the node that is there."""

from __future__ import annotations

import asyncio

import pytest
from tests.services.worlds.writer.command_bench import NODE, SLO, applied, percent, register_again, strategy

from berth.cluster_writer.commands.outcomes import RetryLaterError
from berth.contracts import names
from berth.contracts.codec import encode
from berth.kube.answer import Answer


async def test_a_request_that_a_newer_one_has_overtaken_is_dropped(desk, api, uid):
    await desk.send(strategy(70, uid=uid, revision=2))
    await desk.send(strategy(60, uid=uid, revision=1))
    assert applied(api)["spec"]["resourceUsedThresholdWithBE"]["cpuSuppressThresholdPercent"] == 70
    assert applied(api)["metadata"]["annotations"] == {names.ANNOTATION_REVISION: "2"}, "so the next writer knows, too"
    assert api.calls["patch"] == 1


@pytest.mark.parametrize("text", ["", "-3", "soon", "9" * 30, "9" * 18, "²"])
async def test_a_revision_that_is_none_holds_nothing_up(desk, api, uid, text):
    await desk.send(strategy(70, uid=uid, revision=2))
    api.store.patch(SLO, {"metadata": {"annotations": {names.ANNOTATION_REVISION: text}}})
    await desk.send(strategy(60, uid=uid, revision=1))
    assert applied(api)["spec"]["resourceUsedThresholdWithBE"]["cpuSuppressThresholdPercent"] == 60


async def test_the_object_of_a_former_node_says_nothing_of_the_new_one(desk, api, uid):
    await desk.send(strategy(70, uid=uid, revision=2))
    after = register_again(api)
    await desk.send(strategy(60, uid=after, revision=1))
    assert percent(api) == 60
    assert [owner["uid"] for owner in applied(api)["metadata"]["ownerReferences"]] == [after]


async def test_an_object_of_a_former_node_is_not_made(desk, api, uid):
    """The view, which shows no node yet, has no part in it."""
    after = register_again(api)
    await desk.send(strategy(60, uid=uid))
    assert api.store.get(SLO).status == 404
    await desk.send(strategy(60, uid=after))
    assert percent(api) == 60
    assert api.store.delete(NODE).status == 200
    assert api.store.delete(SLO).status == 200
    await desk.send(strategy(60, uid=after))
    assert api.store.get(SLO).status == 404


async def test_an_object_of_a_new_node_is_made_under_a_view_that_shows_the_former_one(desk, api):
    former = api.node("n")
    desk.cluster.read_state("node.n", encode(former), deleted=False, gap=False)
    await desk.send(strategy(60, uid=register_again(api), revision=2))
    assert percent(api) == 60


async def test_a_request_for_a_former_node_does_not_replace_the_object_of_the_new_one(desk, api, uid):
    after = register_again(api)
    await desk.send(strategy(60, uid=after, revision=2))
    await desk.send(strategy(40, uid=uid, revision=1))
    assert percent(api) == 60
    assert [owner["uid"] for owner in applied(api)["metadata"]["ownerReferences"]] == [after]


@pytest.mark.parametrize("is_there", [True, False], ids=["there", "missing"])
async def test_a_node_that_registers_again_while_its_object_is_written_wins(desk, api, uid, is_there):
    """The former node was read, then the object of the new one is written: the version has moved on."""
    if is_there:
        await desk.send(strategy(30, uid=uid, revision=1))
    patch = api.patch

    async def late(*args, **options):
        api.patch = patch
        await desk.send(strategy(60, uid=register_again(api), revision=3))
        return await patch(*args, **options)

    api.patch = late
    with pytest.raises(RetryLaterError):
        await desk.send(strategy(40, uid=uid, revision=2))
    await desk.send(strategy(40, uid=uid, revision=2))
    assert percent(api) == 60


@pytest.mark.parametrize("status", [0, 401, 403, 429, 500])
async def test_a_node_that_cannot_be_read_says_nothing(desk, api, uid, status):
    api.on("get", lambda name: None, lambda name: Answer(status))
    with pytest.raises(RetryLaterError):
        await desk.send(strategy(60, uid=uid))
    assert api.store.get(SLO).status == 404
    await desk.send(strategy(60, uid=uid))
    assert percent(api) == 60


async def test_an_object_that_could_not_be_made_comes_again(desk, api, uid):
    api.on("patch", lambda name, body: Answer(503))
    with pytest.raises(RetryLaterError):
        await desk.send(strategy(60, uid=uid, revision=2))
    await desk.send(strategy(60, uid=uid, revision=2))
    assert applied(api)["spec"]


@pytest.mark.parametrize("is_there", [True, False], ids=["there", "missing"])
@pytest.mark.parametrize("order", [(60, 70), (70, 60)], ids=["older first", "newer first"])
async def test_of_two_requests_under_way_at_once_the_newer_one_stays(desk, api, uid, order, is_there):
    """Both were read against the same object; the answer to either may come last."""
    if is_there:
        await desk.send(strategy(50, uid=uid, revision=1))
    revision = {60: 2, 70: 3}
    patch, waiting, go = api.patch, [], asyncio.Event()

    async def slow(*args, **options):
        waiting.append(1)
        if len(waiting) == 2:
            go.set()
        await go.wait()
        return await patch(*args, **options)

    api.patch = slow
    found = await asyncio.gather(
        *(desk.send(strategy(percent, uid=uid, revision=revision[percent])) for percent in order),
        return_exceptions=True,
    )
    assert sorted(type(each).__name__ for each in found) == ["NoneType", "RetryLaterError"]
    late = order[next(n for n, each in enumerate(found) if each is not None)]
    api.patch = patch
    await desk.send(strategy(late, uid=uid, revision=revision[late]))
    assert applied(api)["spec"]["resourceUsedThresholdWithBE"]["cpuSuppressThresholdPercent"] == 70
