"""What the server answers to writes: the same words from the real server and from the simulated one.

Each refusal here is one that a writer of Berth meets, or must never meet.
"""

from __future__ import annotations

from typing import Any

import pytest

from berth.testing.views import eventually_async

LEDGER = "$KV.berth_ledger."
EVENTS = "berth.v1.evt."


def refused(err_code: int, description: str, code: int = 400) -> dict[str, Any]:
    return {"error": {"code": code, "err_code": err_code, "description": description}, "seq": 0}


async def test_conditional_writes(raw: Any) -> None:
    a = LEDGER + "a"
    expect = "Nats_Expected_Last_Subject_Sequence"
    assert await raw.put(a, **{expect: "0"}) == {"seq": 1}
    assert await raw.put(a, **{expect: "0"}) == refused(10071, "wrong last sequence: 1")
    assert await raw.put(a, **{expect: "1"}) == {"seq": 2}
    assert await raw.put(a, **{expect: "x"}) == refused(10071, "wrong last sequence: 2")
    assert await raw.put(LEDGER + "b", **{expect: "1"}) == refused(10071, "wrong last sequence: 0")
    assert await raw.put(LEDGER + "b", **{expect: "2", f"{expect}_Subject": a}) == {"seq": 3}
    assert await raw.put(a, Nats_Expected_Last_Sequence="99") == refused(10071, "wrong last sequence: 3")
    assert await raw.put(a, Nats_Expected_Last_Msg_Id="z") == refused(10070, "wrong last msg ID: ")
    assert await raw.put(a, Nats_Expected_Stream="x") == refused(10060, "expected stream does not match")
    assert await raw.put(a, Nats_Expected_Stream="KV_berth_ledger") == {"seq": 4}


async def test_a_deletion_marker_has_a_sequence(raw: Any) -> None:
    a = LEDGER + "a"
    expect = "Nats_Expected_Last_Subject_Sequence"
    await raw.put(a)
    assert await raw.put(a, b"", KV_Operation="DEL", Nats_TTL="3600s", **{expect: "1"}) == {"seq": 2}
    assert await raw.put(a, **{expect: "0"}) == refused(10071, "wrong last sequence: 2")
    answer = await raw.api("STREAM.MSG.GET.KV_berth_ledger", {"last_by_subj": a})
    assert answer["message"]["seq"] == 2
    assert "data" not in answer["message"]
    assert await raw.put(a, **{expect: "2"}) == {"seq": 3}


async def test_a_message_id_is_stored_once_but_conditions_come_first(raw: Any) -> None:
    a = LEDGER + "a"
    assert await raw.put(a, Nats_Msg_Id="m") == {"seq": 1}
    assert await raw.put(a, Nats_Msg_Id="m") == {"seq": 1, "duplicate": True}
    assert await raw.put(LEDGER + "b", Nats_Msg_Id="m") == {"seq": 1, "duplicate": True}
    wrong = refused(10071, "wrong last sequence: 1")
    assert await raw.put(a, Nats_Msg_Id="m", Nats_Expected_Last_Subject_Sequence="0") == wrong
    assert await raw.put(a, Nats_Msg_Id="m", Nats_Expected_Last_Sequence="7") == wrong
    assert await raw.put(a, Nats_Msg_Id="m", Nats_Expected_Last_Msg_Id="z") == {"seq": 1, "duplicate": True}


async def test_times_to_live(raw: Any) -> None:
    invalid = refused(10165, "invalid per-message TTL")
    for bad in ("0.5s", "zz", "500ms"):
        assert await raw.put(LEDGER + "a", Nats_TTL=bad) == invalid
    for number, good in enumerate(("never", "5", "1m30s", "1h"), 1):
        assert await raw.put(LEDGER + "a", Nats_TTL=good) == {"seq": number}
    assert await raw.put(EVENTS + "a", Nats_TTL="5s") == refused(10166, "per-message TTL is disabled")


async def test_limits_of_a_stream(raw: Any) -> None:
    config = {"name": "N", "subjects": ["n.>"], "max_msgs": 2, "discard": "new", "max_msg_size": 60}
    assert "error" not in await raw.api("STREAM.CREATE.N", config)
    assert await raw.put("n.1", b"x" * 61) == refused(10054, "message size exceeds maximum allowed")
    for number in (1, 2):
        assert await raw.put("n.1") == {"seq": number}
    assert await raw.put("n.1") == refused(10077, "maximum messages exceeded", 503)
    assert (await raw.api("STREAM.PURGE.N", {"filter": "n.1", "keep": 1}))["purged"] == 1
    assert await raw.put("n.1") == {"seq": 3}
    assert (await raw.api("STREAM.UPDATE.N", config | {"discard": "old"}))["config"]["discard"] == "old"
    assert await raw.put("n.1") == {"seq": 4}
    state = (await raw.api("STREAM.INFO.N"))["state"]
    assert (state["messages"], state["first_seq"], state["last_seq"], state["num_subjects"]) == (2, 3, 4, 1)
    assert await raw.put("n.1", Nats_Rollup="sub") == refused(10111, "rollup not permitted", 500)
    assert (await raw.api("STREAM.PURGE.N"))["purged"] == 2
    state = (await raw.api("STREAM.INFO.N"))["state"]
    assert (state["messages"], state["first_seq"], state["last_seq"]) == (0, 5, 4)


BATCHES: list[tuple[str, list[tuple[str, dict[str, str]]], dict[str, Any]]] = [
    ("one", [("k", {})], {"seq": 3, "batch": "id", "count": 1}),
    ("two keys", [("k", {"expect": "0"}), ("a", {"expect": "1"})], {"seq": 4, "batch": "id", "count": 2}),
    ("stale, first", [("a", {"expect": "0"}), ("k", {"expect": "0"})], refused(10071, "wrong last sequence: 1")),
    ("stale, last", [("k", {"expect": "0"}), ("a", {"expect": "7"})], refused(10071, "wrong last sequence: 1")),
    ("stale, of none", [("k", {"expect": "5"})], refused(10071, "wrong last sequence: 0")),
    ("key twice", [("k", {"expect": "0"}), ("k", {"expect": "0"})], refused(10164, "wrong last sequence")),
    ("key twice, one free", [("k", {}), ("k", {"expect": "0"})], refused(10164, "wrong last sequence")),
    ("key twice, last free", [("k", {"expect": "0"}), ("k", {})], {"seq": 4, "batch": "id", "count": 2}),
    (
        "id twice",
        [("k", {"Nats-Msg-Id": "n"}), ("l", {"Nats-Msg-Id": "n"})],
        refused(10201, "atomic publish batch contains duplicate message id"),
    ),
    (
        "id stored before",
        [("k", {}), ("l", {"Nats-Msg-Id": "m"})],
        refused(10201, "atomic publish batch contains duplicate message id"),
    ),
    (
        "id stored before and stale",
        [("k", {"Nats-Msg-Id": "m", "expect": "9"})],
        refused(10201, "atomic publish batch contains duplicate message id"),
    ),
    (
        "stale before an id that is stored",
        [("k", {"expect": "9"}), ("l", {"Nats-Msg-Id": "m"})],
        refused(10071, "wrong last sequence: 0"),
    ),
    (
        "last message id",
        [("k", {"Nats-Expected-Last-Msg-Id": "m"})],
        refused(10177, "atomic publish unsupported header used: Nats-Expected-Last-Msg-Id"),
    ),
    (
        "last sequence",
        [("k", {}), ("l", {"Nats-Expected-Last-Sequence": "2"})],
        refused(10071, "wrong last sequence: 3"),
    ),
    ("time to live", [("k", {"Nats-TTL": "zz"})], refused(10165, "invalid per-message TTL")),
    ("stream", [("k", {"Nats-Expected-Stream": "x"})], refused(10060, "expected stream does not match")),
    ("marker", [("a", {"KV-Operation": "DEL", "Nats-TTL": "3600s"})], {"seq": 3, "batch": "id", "count": 1}),
]


@pytest.mark.parametrize(("writes", "answer"), [each[1:] for each in BATCHES], ids=[each[0] for each in BATCHES])
async def test_batches(raw: Any, writes: list[tuple[str, dict[str, str]]], answer: dict[str, Any]) -> None:
    await raw.put(LEDGER + "a")
    await raw.put(LEDGER + "m", Nats_Msg_Id="m")
    for number, (key, headers) in enumerate(writes, 1):
        named = {name.replace("expect", "Nats-Expected-Last-Subject-Sequence"): v for name, v in headers.items()}
        named |= {"Nats-Batch-Id": "id", "Nats-Batch-Sequence": str(number)}
        if number < len(writes):
            await raw.send(LEDGER + key, **named)
        else:
            assert await raw.put(LEDGER + key, Nats_Batch_Commit="1", **named) == answer
    last = (await raw.api("STREAM.INFO.KV_berth_ledger"))["state"]["last_seq"]
    assert last == (2 if "error" in answer else answer["seq"])


async def test_batches_out_of_form(raw: Any) -> None:
    a = LEDGER + "a"

    def batch(name: str, number: str, commit: str = "") -> dict[str, str]:
        headers = {"Nats_Batch_Id": name, "Nats_Batch_Sequence": number, "Nats_Batch_Commit": commit}
        return {header: value for header, value in headers.items() if value}

    incomplete = refused(10176, "atomic publish batch is incomplete")
    disabled = refused(10174, "atomic publish is disabled")
    assert await raw.put("$KV.berth_state.a", **batch("i", "1", "1")) == disabled
    for number in ("", "x"):
        assert await raw.put(a, **batch("i", number, "1")) == refused(10175, "atomic publish sequence is missing")
    for number in ("0", "2"):
        assert await raw.put(a, **batch("i", number, "1")) == incomplete
    assert await raw.put(a, **batch("i" * 65, "1", "1")) == refused(10179, "atomic publish batch ID is invalid")
    assert await raw.put(a, **batch("i", "1")) is None
    assert await raw.put(a, **batch("i", "3")) == incomplete
    assert await raw.put(a, **batch("i", "2", "1")) == incomplete
    assert await raw.put(a, **batch("j", "1")) is None
    assert await raw.put(a, **batch("j", "2", "x")) == refused(10200, "atomic publish batch commit is invalid")
    assert await raw.put(a, **batch("j", "2", "1")) == incomplete
    assert await raw.put(a, **batch("k", "1")) is None
    assert await raw.put(a, **batch("k", "1")) == incomplete
    assert await raw.put(a, **batch("l", "1")) is None
    assert await raw.put(a, **batch("l", "2", "eob")) == {"seq": 1, "batch": "l", "count": 1}
    assert await raw.put(a, **batch("m", "1", "eob")) == incomplete
    for number in range(50):
        assert await raw.put(LEDGER + f"o{number}", **batch(f"o{number}", "1")) is None
    too_many = refused(10210, "atomic publish too many inflight", 429)
    assert await raw.put(a, **batch("p", "1", "1")) == too_many
    assert await raw.put(EVENTS + "a", **batch("p", "1", "1")) == {"seq": 1, "batch": "p", "count": 1}
    assert await raw.put(a, **batch("o7", "2", "1")) == {"seq": 3, "batch": "o7", "count": 2}


async def test_a_batch_has_at_most_a_thousand_messages(raw: Any) -> None:
    for number in range(1000):
        await raw.send(LEDGER + f"k{number}", Nats_Batch_Id="i", Nats_Batch_Sequence=str(number + 1))
    answer = await raw.put(LEDGER + "z", Nats_Batch_Id="i", Nats_Batch_Sequence="1001", Nats_Batch_Commit="1")
    assert answer == refused(10199, "atomic publish batch is too large: 1000")
    assert (await raw.api("STREAM.INFO.KV_berth_ledger"))["state"]["messages"] == 0


async def test_streams_that_cannot_be(raw: Any) -> None:
    def problem(answer: Any) -> tuple[int, str]:
        return answer["error"]["err_code"], answer["error"]["description"]

    ledger = {"name": "KV_berth_ledger", "subjects": ["z"]}
    in_use = (10058, "stream name already in use with a different configuration")
    overlap = (10065, "subjects overlap with an existing stream")
    missing = (10059, "stream not found")
    assert problem(await raw.api("STREAM.CREATE.KV_berth_ledger", ledger)) == in_use
    assert problem(await raw.api("STREAM.CREATE.N", {"name": "N", "subjects": [f"{LEDGER}a"]})) == overlap
    other = {"name": "M", "subjects": ["n"]}
    assert problem(await raw.api("STREAM.CREATE.N", other)) == (
        10056,
        "stream name in subject does not match request",
    )
    for verb in ("INFO", "DELETE", "PURGE"):
        assert problem(await raw.api(f"STREAM.{verb}.none")) == missing
    assert problem(await raw.api("STREAM.UPDATE.none", {"name": "none", "subjects": ["n"]})) == missing
    assert problem(await raw.api("STREAM.MSG.GET.none", {"seq": 1})) == missing
    plain = {"name": "N", "subjects": ["n.>"]}
    created = (await raw.api("STREAM.CREATE.N", plain))["created"]
    assert (await raw.api("STREAM.CREATE.N", plain))["created"] == created
    prefix = "stream configuration update can not change "
    for change, text in (
        ({"storage": "memory"}, "storage type"),
        ({"retention": "workqueue"}, "retention policy to/from workqueue"),
        ({"persist_mode": "async"}, "persist mode"),
    ):
        assert problem(await raw.api("STREAM.UPDATE.N", plain | change)) == (10052, prefix + text)
    nothing = (10037, "no message found")
    for query in ({"seq": 9}, {"last_by_subj": f"{LEDGER}none"}):
        assert problem(await raw.api("STREAM.MSG.GET.KV_berth_ledger", query)) == nothing
    assert problem(await raw.api("STREAM.MSG.GET.KV_berth_ledger", {})) == (10003, "bad request")
    forbidden = await raw.api("STREAM.MSG.DELETE.KV_berth_ledger", {"seq": 1})
    assert problem(forbidden) == (10057, "message delete not permitted")


async def test_the_configuration_comes_back_whole(raw: Any) -> None:
    config = {"name": "N", "subjects": ["n.>"], "max_msgs_per_subject": 0, "description": "d"}
    answer = await raw.api("STREAM.CREATE.N", config)
    expected = {
        "name": "N",
        "description": "d",
        "subjects": ["n.>"],
        "retention": "limits",
        "max_consumers": -1,
        "max_msgs": -1,
        "max_bytes": -1,
        "max_age": 0,
        "max_msgs_per_subject": -1,
        "max_msg_size": -1,
        "discard": "old",
        "storage": "file",
        "num_replicas": 1,
        "duplicate_window": 120_000_000_000,
        "compression": "none",
        "allow_direct": False,
        "mirror_direct": False,
        "sealed": False,
        "deny_delete": False,
        "deny_purge": False,
        "allow_rollup_hdrs": False,
        "consumer_limits": {},
        "allow_msg_ttl": False,
    }
    metadata = answer["config"].pop("metadata")
    assert answer["config"] == expected
    assert metadata["_nats.level"]


async def test_a_message_whose_time_is_over_is_no_message(raw: Any) -> None:
    a = LEDGER + "a"
    assert await raw.put(a, Nats_TTL="1s") == {"seq": 1}

    async def expired() -> bool:
        return "error" in await raw.api("STREAM.MSG.GET.KV_berth_ledger", {"last_by_subj": a})

    await eventually_async(expired)
    assert await raw.put(a, Nats_Expected_Last_Subject_Sequence="1") == refused(10071, "wrong last sequence: 0")
    assert await raw.put(a, Nats_Expected_Last_Subject_Sequence="0") == {"seq": 2}


async def test_what_a_full_bucket_still_takes(raw: Any) -> None:
    """By itself, what replaces a message that is not smaller; in a batch nothing, since each counts as one more."""
    bucket = {"subjects": ["n.>"], "discard": "new", "max_msgs_per_subject": 1, "allow_atomic": True}
    assert "error" not in await raw.api("STREAM.CREATE.N", bucket | {"name": "N", "max_bytes": 270})
    assert await raw.put("n.1", b"x" * 100) == {"seq": 1}
    assert await raw.put("n.2", b"x" * 100) == {"seq": 2}
    full = refused(10077, "maximum bytes exceeded", 503)
    assert await raw.put("n.3") == full
    assert await raw.put("n.1", b"x" * 101) == full
    assert await raw.put("n.1", b"x" * 100) == {"seq": 3}
    assert await raw.put("n.1", b"", KV_Operation="DEL") == {"seq": 4}
    assert await raw.put("n.3", b"x" * 70) == full
    batch = {"Nats_Batch_Id": "b", "Nats_Batch_Sequence": "1", "Nats_Batch_Commit": "1"}
    assert await raw.put("n.2", b"", **batch) == full
    assert await raw.put("n.3", b"x" * 10) == {"seq": 5}


async def test_a_stream_with_its_most_messages_takes_none_in_a_batch(raw: Any) -> None:
    bucket = {"subjects": ["n.>"], "discard": "new", "max_msgs_per_subject": 1, "allow_atomic": True}
    assert "error" not in await raw.api("STREAM.CREATE.N", bucket | {"name": "N", "max_msgs": 2})
    assert await raw.put("n.1") == {"seq": 1}
    assert await raw.put("n.2") == {"seq": 2}
    batch = {"Nats_Batch_Id": "b", "Nats_Batch_Sequence": "1", "Nats_Batch_Commit": "1"}
    assert await raw.put("n.1", **batch) == refused(10077, "maximum messages exceeded", 503)
    assert await raw.put("n.1", b"much larger") == {"seq": 3}


async def test_the_subjects_of_a_pattern(raw: Any) -> None:
    for key in ("e1.decision.a.b", "e1.plan.p", "e2.plan.p", "epoch"):
        assert "seq" in await raw.put(LEDGER + key)
    answer = await raw.api("STREAM.INFO.KV_berth_ledger", {"subjects_filter": LEDGER + "e1.>"})
    assert answer["state"]["subjects"] == {LEDGER + "e1.decision.a.b": 1, LEDGER + "e1.plan.p": 1}
    assert (answer["total"], answer["offset"], answer["limit"]) == (2, 0, 100_000)
    answer = await raw.api("STREAM.INFO.KV_berth_ledger", {"subjects_filter": LEDGER + "e1.>", "offset": 2})
    assert not answer["state"].get("subjects")
