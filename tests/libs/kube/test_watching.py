"""Following a kind through lists, streams and everything that can happen to them."""

import asyncio
import json
import random
from contextlib import aclosing
from typing import Any

import pytest
from prometheus_client import REGISTRY

from berth.contracts.kube import AnyObject, Pod
from berth.kube import PODS, Answer, ChangeKind, Handler, Reflector, Selection, Watching, WatchSettings
from berth.kube.happenings import Bookmark, Changed, Deleted, Ended, Finished, Refused

PATH = "/api/v1/pods"


def event(kind: str, obj: Any) -> dict[str, Any]:
    return {"type": kind, "object": obj}


def bookmark(version: int) -> dict[str, Any]:
    return event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version), "creationTimestamp": None}})


def expired() -> dict[str, Any]:
    return event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})


class Diary(Handler[Pod]):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.lines: list[tuple[Any, ...]] = []
        self.rooms = 0

    def began(self) -> None:
        self.lines.append(("began",))

    def seen(self, raw: bytes, item: Pod, version: int) -> None:
        assert json.loads(raw)["metadata"]["name"] == item.metadata.name
        self.lines.append(("seen", item.metadata.name, version))

    def finished(self, version: int, keys: frozenset[str]) -> None:
        self.lines.append(("finished", version, *sorted(keys)))

    def changed(self, kind: ChangeKind, item: Pod) -> None:
        self.lines.append((kind, item.metadata.name))

    def deleted(self, item: Pod | AnyObject, version: int) -> None:
        self.lines.append(("deleted", item.metadata.name, version))

    def bookmark(self, version: int) -> None:
        self.lines.append(("bookmark", version))

    def malformed(self, key: str, uid: str, version: int, field: str, message: str) -> None:
        assert message
        self.lines.append(("malformed", key, uid, version, field))

    def refused(self, answer: Answer, wait_s: float) -> None:
        self.lines.append(("refused", answer.status, answer.reason))

    async def room(self) -> None:
        self.rooms += 1

    def without_refusals(self) -> list[tuple[Any, ...]]:
        return [line for line in self.lines if line[0] != "refused"]


@pytest.fixture
def diary() -> Diary:
    return Diary()


@pytest.fixture
def follow(connect: Any, clock: Any, diary: Diary) -> Any:
    """Run a reflector until the diary has so many lines (refusals not counted), then stop it."""

    async def run(count: int, settings: WatchSettings | None = None, **client: Any) -> Reflector[Pod]:
        kube = await connect(**client)
        reflector = Reflector(kube, Selection(PODS), Pod, diary, clock=clock, rng=random.Random(1), settings=settings)
        task = asyncio.create_task(reflector.run())
        async with asyncio.timeout(10):
            while len(diary.without_refusals()) < count:
                await asyncio.sleep(0.005)
                if task.done():
                    task.result()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return reflector

    return run


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
    assert diary.rooms == 8
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


async def test_a_malformed_object_is_told_and_the_stream_goes_on(
    server: Any, replies: Any, make_pod: Any, follow: Any, diary: Diary
) -> None:
    bad = make_pod("bad", 12, spec={"priority": "high"})
    worse = make_pod("worse", 13)
    worse["metadata"]["labels"] = {"a": 1}
    server.on("GET", PATH, replies.page([make_pod("bad", 5, spec=3)], 10))
    server.on(
        "WATCH",
        PATH,
        replies.watch(
            event("MODIFIED", bad),
            event("ADDED", worse),
            event("DELETED", make_pod("bad", 14, status=[])),
            event("ADDED", make_pod("good", 15)),
            then="hang",
        ),
    )
    counter = ("berth_kube_malformed_objects_total", {"resource": "pods"})
    before = REGISTRY.get_sample_value(*counter) or 0.0
    reflector = await follow(7)
    assert diary.lines == [
        ("began",),
        ("malformed", "default/bad", "uid-bad", 5, "spec"),
        ("finished", 10, "default/bad"),
        ("malformed", "default/bad", "uid-bad", 12, "spec.priority"),
        ("malformed", "default/worse", "uid-worse", 13, "metadata.labels[...]"),
        ("deleted", "bad", 14),
        ("ADDED", "good"),
    ]
    assert (REGISTRY.get_sample_value(*counter) or 0.0) - before == 3.0
    assert reflector.version == 15
    assert len([q for q in server.queries() if "watch" in q]) == 1


@pytest.mark.parametrize(
    "garbage",
    [
        b"not json\n",
        b'{"type":"ADDED"}\n',
        b'{"type":"SPLICED","object":{"metadata":{"name":"x","resourceVersion":"12"}}}\n',
        b'{"type":"ADDED","object":{"metadata":{"name":"x","resourceVersion":"twelve"}}}\n',
        b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"12"}}}\n',
        b'{"type":"BOOKMARK","object":{}}\n',
        b'{"type":"ADDED","object":' + b"[" * 100_000 + b"\n",
        b'{"type":"ADDED","object":{"metadata":{"name":"\xff\xfe"}}}\n',
    ],
)
async def test_a_line_without_a_name_is_told_and_leads_to_a_new_list(
    server: Any, replies: Any, make_pod: Any, follow: Any, diary: Diary, garbage: bytes
) -> None:
    server.on("GET", PATH, replies.page([], 10), replies.page([], 20))
    server.on(
        "WATCH",
        PATH,
        replies.watch(event("ADDED", make_pod("a", 11)), garbage, event("ADDED", make_pod("b", 13)), then="hang"),
        replies.watch(event("ADDED", make_pod("c", 21)), then="hang"),
    )
    await follow(7)
    told = diary.without_refusals()
    assert told[:3] == [("began",), ("finished", 10), ("ADDED", "a")]
    assert told[3][:3] == ("malformed", "", "")
    assert told[4:] == [("began",), ("finished", 20), ("ADDED", "c")]


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


async def test_large_lines_pass_and_larger_ones_lead_to_a_list(
    server: Any, replies: Any, make_pod: Any, follow: Any, diary: Diary
) -> None:
    server.on("GET", PATH, replies.page([], 10), replies.page([make_pod("huge", 12)], 20))
    server.on(
        "WATCH",
        PATH,
        replies.watch(
            event("ADDED", make_pod("large", 11, note="x" * 900_000)),
            event("ADDED", make_pod("huge", 12, note="x" * 1_200_000)),
            then="hang",
        ),
        replies.watch(bookmark(21), then="hang"),
    )
    await follow(7, line_bytes_max=1 << 20)
    assert diary.without_refusals() == [
        ("began",),
        ("finished", 10),
        ("ADDED", "large"),
        ("began",),
        ("seen", "huge", 12),
        ("finished", 20, "default/huge"),
        ("bookmark", 21),
    ]


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
        one_stream = [type(happening) async for happening in stream]
    assert one_stream == [Changed, Deleted, Bookmark, Ended]
    async with aclosing(watching.until_expired()) as happenings:
        one_list = [happening async for happening in happenings]
    assert isinstance(one_list[1], Finished)
    assert isinstance(one_list[-1], Refused)
    assert one_list[-1].answer.expired
