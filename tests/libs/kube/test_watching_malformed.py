"""Following a kind whose objects or lines cannot be read, or are too large."""

import json
from typing import Any

import pytest
from aiohttp import web
from prometheus_client import REGISTRY
from tests.libs.kube.diary import PATH, Diary, bookmark, event


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
    assert told[3][0] == "malformed"
    assert told[4:] == [("began",), ("finished", 20), ("ADDED", "c")]


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


def deep(name: str, version: int, levels: int) -> bytes:
    """A pod that nests deeper than is read of one, and that an API server takes."""
    metadata = b'{"name":"%b","namespace":"default","uid":"u","resourceVersion":"%d"}' % (name.encode(), version)
    return b'{"metadata":' + metadata + b',"spec":' + b'{"a":' * levels + b"1" + b"}" * (levels + 1)


async def test_an_item_without_a_readable_version_is_not_missing_from_its_list(
    server: Any, replies: Any, make_pod: Any, follow: Any, diary: Diary
) -> None:
    server.on("GET", PATH, replies.page([make_pod("good", 5), make_pod("odd", "x")], 10))
    server.on("WATCH", PATH, replies.watch(then="hang"))
    await follow(4)
    assert diary.lines == [
        ("began",),
        ("seen", "good", 5),
        ("malformed", "default/odd", "uid-odd", 0, "metadata.resourceVersion"),
        ("finished", 10, "default/good", "default/odd"),
    ]


async def test_an_object_that_nests_deeply_does_not_hide_those_around_it(
    server: Any, replies: Any, make_pod: Any, follow: Any, diary: Diary
) -> None:
    async def listed(_: web.Request) -> web.Response:
        items = deep("deep", 5, 1_500) + b"," + json.dumps(make_pod("good", 6)).encode()
        return web.Response(body=b'{"metadata":{"resourceVersion":"10"},"items":[' + items + b"]}")

    line = b'{"type":"ADDED","object":' + deep("deeper", 11, 9_900) + b"}\n"
    server.on("GET", PATH, listed)
    server.on("WATCH", PATH, replies.watch(line, event("ADDED", make_pod("next", 12)), then="hang"))
    await follow(6)
    assert diary.lines == [
        ("began",),
        ("malformed", "default/deep", "u", 5, ""),
        ("seen", "good", 6),
        ("finished", 10, "default/deep", "default/good"),
        ("malformed", "default/deeper", "u", 11, ""),
        ("ADDED", "next"),
    ]
