"""Following a kind through lists and streams: what ends them, and where the next one begins."""

import random
from contextlib import aclosing
from typing import Any

import pytest
from tests.libs.kube.diary import PATH, Diary, bookmark, event, expired

from berth.contracts.kube import Pod
from berth.kube import PODS, Reflector, Selection, Watching, WatchSettings
from berth.kube.watch_events import Bookmark, Changed, Deleted, Ended, Finished, Refused


async def test_a_list_then_its_changes_in_order(
    server: Any, replies: Any, make_pod: Any, follow: Any, diary: Diary
) -> None:
    server.on("GET", PATH, replies.page([make_pod("a", 1)], 10, "t"), replies.page([make_pod("b", 2)], 10))
    server.on(
        "WATCH",
        PATH,
        replies.watch(
            event("ADDED", make_pod("c", 11)),
            event("MODIFIED", make_pod("a", 12)),
            event("DELETED", make_pod("b", 13)),
            bookmark(20),
            then="hang",
        ),
    )
    reflector = await follow(8)
    assert diary.lines == [
        ("began",),
        ("seen", "a", 1),
        ("seen", "b", 2),
        ("finished", 10, "default/a", "default/b"),
        ("ADDED", "c"),
        ("MODIFIED", "a"),
        ("deleted", "b", 13),
        ("bookmark", 20),
    ]
    assert reflector.version == 20
    assert reflector.listed.is_set()
    assert diary.waits == 8
    watch = server.queries()[-1]
    assert watch["resourceVersion"] == "10"
    assert watch["allowWatchBookmarks"] == "true"
    assert 240 <= int(watch["timeoutSeconds"]) <= 480


@pytest.mark.parametrize("end", ["close", "drop"])
async def test_an_ended_stream_is_resumed_from_the_last_version(
    server: Any, replies: Any, make_pod: Any, follow: Any, diary: Diary, end: str
) -> None:
    server.on("GET", PATH, replies.page([], 10))
    server.on(
        "WATCH",
        PATH,
        replies.watch(event("ADDED", make_pod("a", 11)), then=end),
        replies.watch(bookmark(30), then=end),
        replies.watch(event("ADDED", make_pod("b", 31)), then="hang"),
    )
    await follow(5)
    assert diary.without_refusals() == [
        ("began",),
        ("finished", 10),
        ("ADDED", "a"),
        ("bookmark", 30),
        ("ADDED", "b"),
    ]
    assert [q["resourceVersion"] for q in server.queries() if "watch" in q] == ["10", "11", "30"]


@pytest.mark.parametrize("form", ["event", "http"])
async def test_a_version_that_expired_leads_to_a_new_list(
    server: Any, replies: Any, make_pod: Any, follow: Any, diary: Diary, clock: Any, form: str
) -> None:
    server.on("GET", PATH, replies.page([make_pod("a", 1)], 10), replies.page([make_pod("b", 2)], 20))
    gone = replies.watch(expired(), then="hang") if form == "event" else replies.status(410, "Gone")
    server.on("WATCH", PATH, gone, replies.watch(bookmark(21), then="hang"))
    await follow(7)
    assert diary.without_refusals() == [
        ("began",),
        ("seen", "a", 1),
        ("finished", 10, "default/a"),
        ("began",),
        ("seen", "b", 2),
        ("finished", 20, "default/b"),
        ("bookmark", 21),
    ]
    assert ("refused", 410, "Expired" if form == "event" else "Gone") in diary.lines
    assert len(clock.slept) == 1


async def test_a_list_that_expires_half_way_is_begun_again(
    server: Any, replies: Any, make_pod: Any, follow: Any, diary: Diary
) -> None:
    server.on(
        "GET",
        PATH,
        replies.page([make_pod("a", 1)], 10, "t"),
        replies.status(410, "Expired"),
        replies.page([make_pod("b", 2)], 20),
    )
    server.on("WATCH", PATH, replies.watch(then="hang"))
    await follow(5)
    assert diary.lines == [
        ("began",),
        ("seen", "a", 1),
        ("refused", 410, "Expired"),
        ("began",),
        ("seen", "b", 2),
        ("finished", 20, "default/b"),
    ]


async def test_a_silent_stream_is_replaced(server: Any, replies: Any, make_pod: Any, follow: Any, diary: Diary) -> None:
    server.on("GET", PATH, replies.page([], 10))
    server.on(
        "WATCH",
        PATH,
        replies.watch(event("ADDED", make_pod("a", 11)), then="hang"),
        replies.watch(event("ADDED", make_pod("b", 12)), then="hang"),
    )
    await follow(4, WatchSettings(idle_s=0.1))
    assert ("ADDED", "b") in diary.lines
    assert ("refused", 0, "Timeout") in diary.lines


async def test_a_watch_that_never_begins_is_asked_for_again_long_before_silence_would_count(
    server: Any, replies: Any, make_pod: Any, follow: Any, diary: Diary
) -> None:
    server.on("GET", PATH, replies.page([], 10))
    server.on(
        "WATCH", PATH, replies.silence(), replies.watch(event("ADDED", make_pod("a", 11)), bookmark(12), then="hang")
    )
    await follow(4, WatchSettings(idle_s=60.0), timeout_s=0.2)
    assert diary.lines[:4] == [("began",), ("finished", 10), ("refused", 0, "Timeout"), ("ADDED", "a")]


async def test_a_server_whose_history_went_back_is_listed_again(
    server: Any, replies: Any, make_pod: Any, follow: Any, diary: Diary
) -> None:
    server.on("GET", PATH, replies.page([], 1000), replies.page([make_pod("a", 7)], 8))
    server.on("WATCH", PATH, replies.watch(bookmark(9), then="hang"), replies.watch(bookmark(10), then="hang"))
    await follow(6)
    assert diary.lines == [
        ("began",),
        ("finished", 1000),
        ("refused", 0, "VersionWentBack"),
        ("began",),
        ("seen", "a", 7),
        ("finished", 8, "default/a"),
        ("bookmark", 10),
    ]


async def test_a_handlers_mistake_comes_out(server: Any, replies: Any, connect: Any, clock: Any) -> None:
    class Faulty(Diary):
        def began(self) -> None:
            raise ZeroDivisionError

    server.on("GET", PATH, replies.page([], 10))
    kube = await connect()
    reflector = Reflector(kube, Selection(PODS), Pod, Faulty(), clock=clock, rng=random.Random(1))
    with pytest.raises(ZeroDivisionError):
        await reflector.run()


async def test_the_generators_serve_alone(server: Any, replies: Any, make_pod: Any, connect: Any, clock: Any) -> None:
    server.on("GET", PATH, replies.page([], 10))
    lines = (event("ADDED", make_pod("a", 11)), event("DELETED", make_pod("a", 12)), bookmark(15), expired())
    server.on("WATCH", PATH, replies.watch(*lines))
    watching = Watching(await connect(), Selection(PODS), Pod, clock=clock, rng=random.Random(1))
    async with aclosing(watching.stream(10)) as stream:
        one_stream = [type(watch_event) async for watch_event in stream]
    assert one_stream == [Changed, Deleted, Bookmark, Ended]
    async with aclosing(watching.until_expired()) as watch_events:
        one_list = [watch_event async for watch_event in watch_events]
    assert isinstance(one_list[1], Finished)
    assert isinstance(one_list[-1], Refused)
    assert one_list[-1].answer.expired
