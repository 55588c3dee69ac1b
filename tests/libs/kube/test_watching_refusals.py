"""Following a kind on a server that refuses: how long is waited, and what is asked for then."""

from typing import Any

from tests.libs.kube.diary import PATH, Diary, bookmark


async def test_throttling_is_obeyed(server: Any, replies: Any, follow: Any, diary: Diary, clock: Any) -> None:
    server.on("GET", PATH, replies.status(429, "TooManyRequests", Retry_After="9"), replies.page([], 10))
    server.on(
        "WATCH", PATH, replies.status(429, "TooManyRequests", Retry_After="4"), replies.watch(bookmark(11), then="hang")
    )
    await follow(4)
    assert diary.without_refusals() == [("began",), ("began",), ("finished", 10), ("bookmark", 11)]
    assert 9 <= clock.slept[0] <= 9.5
    assert 4 <= clock.slept[1] <= 5


async def test_a_kind_that_does_not_exist_is_told_and_tried_ever_more_slowly(
    server: Any, replies: Any, follow: Any, diary: Diary, clock: Any
) -> None:
    server.on("GET", PATH, *[replies.status(404, "NotFound")] * 12, replies.page([], 10))
    server.on("WATCH", PATH, replies.watch(then="hang"))
    reflector = await follow(14)
    assert diary.lines.count(("refused", 404, "NotFound")) == 12
    assert len(clock.slept) == 12
    assert max(clock.slept) > 2.0 > clock.slept[0]
    assert reflector.last_refusal is None


async def test_a_server_that_refuses_every_stream_is_asked_for_a_list_after_a_while(
    server: Any, replies: Any, follow: Any, diary: Diary
) -> None:
    server.on("GET", PATH, replies.page([], 10), replies.page([], 20))
    server.on("WATCH", PATH, *[replies.status(504, "Timeout")] * 5, replies.watch(bookmark(21), then="hang"))
    await follow(5)
    assert diary.without_refusals() == [("began",), ("finished", 10), ("began",), ("finished", 20), ("bookmark", 21)]
    assert diary.lines.count(("refused", 504, "Timeout")) == 5


async def test_streams_that_end_at_once_are_not_opened_in_a_storm(
    server: Any, replies: Any, follow: Any, diary: Diary, clock: Any
) -> None:
    server.on("GET", PATH, replies.page([], 10))
    server.on("WATCH", PATH, *[replies.watch()] * 4, replies.watch(bookmark(11), then="hang"))
    await follow(3)
    assert len(clock.slept) == 4


async def test_after_something_good_waits_are_short_again(
    server: Any, replies: Any, follow: Any, diary: Diary, clock: Any
) -> None:
    server.on("GET", PATH, *[replies.status(503, "Down")] * 9, replies.page([], 10))
    server.on("WATCH", PATH, replies.watch(bookmark(11), then="drop"), replies.watch(bookmark(12), then="hang"))
    await follow(13)
    assert max(clock.slept[:9]) > 2.0
    assert clock.slept[9] <= 0.2
