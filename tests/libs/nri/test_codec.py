"""Bytes to frames to messages: whatever is cut wherever, and whatever is wrong."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.nri import api_pb2 as api
from berth.nri.core import mux, ttrpc
from berth.nri.core.fault import Fault
from berth.nri.core.methods import EVENTS, REQUESTS, Event, decode, event_mask, unknown_fields
from berth.nri.core.session import PLUGIN_SERVICE, Answer, Call, Passed, Refused, Session, request, response
from berth.testing.nri_runtime import framed

MESSAGES = st.builds(
    ttrpc.Message, st.integers(0, 2**32 - 1), st.integers(0, 255), st.binary(max_size=9000), st.integers(0, 255)
)
SENT = st.lists(st.tuples(st.sampled_from([mux.PLUGIN, mux.RUNTIME]), MESSAGES), max_size=5)


def cuts(data: bytes, places: list[float]) -> list[bytes]:
    at = [0, *sorted(int(place * len(data)) for place in places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(at)]


def call(number: int, method: str = "StopContainer", payload: bytes = b"", **how: float) -> bytes:
    sent = request(number, PLUGIN_SERVICE, method, payload, **how)
    return framed(mux.PLUGIN, number, ttrpc.REQUEST, sent.data)


@given(SENT, st.lists(st.floats(0, 1), max_size=12))
def test_what_is_sent_is_read_however_it_is_cut(sent: list[tuple[int, ttrpc.Message]], places: list[float]) -> None:
    data = b"".join(mux.encode(stream, ttrpc.encode(message)) for stream, message in sent)
    frames = mux.Demultiplexer()
    streams = {mux.PLUGIN: ttrpc.Assembler(), mux.RUNTIME: ttrpc.Assembler()}
    found = [
        (stream, message)
        for part in cuts(data, places)
        for stream, piece in frames.feed(part)
        for message in streams[stream].feed(piece)
    ]
    assert found == sent if len({stream for stream, _ in sent}) < 2 else sorted(found, key=str) == sorted(sent, key=str)
    assert not frames.inside
    assert not any(each.inside for each in streams.values())


@given(st.binary(min_size=1, max_size=300), st.lists(st.floats(0, 1), max_size=4))
def test_any_bytes_are_taken_or_told_and_the_parts_make_no_difference(data: bytes, places: list[float]) -> None:
    whole = Session().receive(data)
    session = Session()
    parts = [each for part in cuts(data, places) for each in session.receive(part)]
    # Of a stream that nobody knows each piece is passed over.
    assert [each for each in parts if not isinstance(each, Passed)] == [
        each for each in whole if not isinstance(each, Passed)
    ]
    assert sum(isinstance(each, Fault) for each in whole) <= 1


@given(st.sampled_from(sorted(REQUESTS)), st.binary(max_size=200))
def test_any_payload_is_read_or_told(method: str, payload: bytes) -> None:
    found = decode(method, payload)
    if isinstance(found, Fault):
        assert found.kind == "malformed"
        assert method in found.text
    else:
        assert unknown_fields(found) >= 0


def test_frames_of_both_streams_come_between_each_other() -> None:
    one = framed(mux.PLUGIN, 1, ttrpc.REQUEST, request(1, PLUGIN_SERVICE, "Configure", b"").data, cut=(5, 11))
    session = Session()
    asked = session.ask("RegisterPlugin", b"", 1.0)
    assert not isinstance(asked, Fault)
    two = framed(mux.RUNTIME, 1, ttrpc.RESPONSE, b"", cut=(3,))
    first, second = 8 + 5, 8 + 3
    data = one[:first] + two[:second] + one[first:] + two[second:]
    assert session.receive(data) == [Call(1, PLUGIN_SERVICE, "Configure", b""), Answer(1)]


def test_a_long_message_is_cut_as_the_runtime_reads_it() -> None:
    """It reads a header into 4096 bytes, and fails when a frame is larger; the rest it reads in one piece."""
    data = bytes(10_000)
    encoded = mux.encode(mux.RUNTIME, data)
    assert encoded[:8] == (2).to_bytes(4, "big") + (4096).to_bytes(4, "big")
    assert encoded[8 + 4096 :][:8] == (2).to_bytes(4, "big") + (10_000 - 4096).to_bytes(4, "big")
    assert len(encoded) == 8 + 8 + len(data)


@pytest.mark.parametrize("length", [mux.PAYLOAD_MAX + 1, 2**32 - 1])
def test_an_oversized_frame_is_told_before_it_is_read(length: int) -> None:
    session = Session()
    [fault] = session.receive(b"\0\0\0\1" + length.to_bytes(4, "big"))
    assert fault == Fault("oversized", f"a frame of {length} bytes; at most {mux.PAYLOAD_MAX} are allowed")
    assert session.receive(call(1)) == []


def test_an_oversized_message_is_told_before_it_is_read() -> None:
    header = (ttrpc.DATA_MAX + 1).to_bytes(4, "big") + (1).to_bytes(4, "big") + b"\1\0"
    session = Session()
    [first, fault] = session.receive(call(1) + mux.encode(mux.PLUGIN, header))
    assert isinstance(first, Call)
    assert isinstance(fault, Fault)
    assert fault.kind == "oversized"
    assert session.receive(call(3)) == []


def test_a_message_of_the_largest_size_is_read() -> None:
    payload = bytes(ttrpc.DATA_MAX - 100)
    [found] = Session().receive(call(1, payload=payload))
    assert isinstance(found, Call)
    assert found.payload == payload


@pytest.mark.parametrize(
    ("sent", "kind"), [(b"", "closed"), (b"\0\0", "torn"), (b"\0\0\0\1\0\0\0\5abc", "torn"), (call(1), "closed")]
)
def test_an_end_within_a_frame_is_torn(sent: bytes, kind: str) -> None:
    session = Session()
    session.receive(sent)
    assert session.end().kind == kind


def test_an_end_within_a_message_is_torn() -> None:
    session = Session()
    session.receive(mux.encode(mux.PLUGIN, b"\0\0\0\5"))
    assert session.end() == Fault("torn", "the runtime has closed the connection within a message")


def test_a_request_that_is_none_is_malformed() -> None:
    [fault] = Session().receive(framed(mux.PLUGIN, 1, ttrpc.REQUEST, b"\x0a\xff"))
    assert isinstance(fault, Fault)
    assert fault.kind == "malformed"


@pytest.mark.parametrize("number", [0, 2, 4, 3, 1])
def test_numbers_of_calls_are_odd_and_increase(number: int) -> None:
    session = Session()
    assert isinstance(session.receive(call(3))[0], Call)
    [found] = session.receive(call(number))
    assert isinstance(found, Refused)
    assert (found.call, found.code) == (number, 3)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (framed(7, 1, 1, b"x"), "stream"),
        (framed(mux.PLUGIN, 1, ttrpc.DATA, b"x"), "type"),
        (framed(mux.PLUGIN, 1, 200, b"x"), "type"),
        (framed(mux.RUNTIME, 1, ttrpc.REQUEST, b""), "type"),
        (framed(mux.RUNTIME, 9, ttrpc.RESPONSE, b""), "answer"),
    ],
)
def test_what_nobody_waits_for_is_passed_over(data: bytes, what: str) -> None:
    session = Session()
    assert session.receive(data) == [Passed(what)]
    assert isinstance(session.receive(call(1))[0], Call)


def test_an_answer_counts_once() -> None:
    session = Session()
    session.ask("UpdateContainers", b"", 1.0)
    answer = framed(mux.RUNTIME, 1, ttrpc.RESPONSE, response(1, code=5, text="no").data)
    assert session.receive(answer + answer) == [Answer(1, code=5, text="no"), Passed("answer")]


def test_calls_are_odd_and_increase() -> None:
    session = Session()
    numbers = [asked[0] for _ in range(3) if not isinstance(asked := session.ask("RegisterPlugin", b"", 1.0), Fault)]
    assert numbers == [1, 3, 5]


def test_a_call_that_is_too_large_is_not_begun() -> None:
    session = Session()
    assert isinstance(session.ask("UpdateContainers", bytes(ttrpc.DATA_MAX), 1.0), Fault)
    asked = session.ask("UpdateContainers", b"", 1.0)
    assert not isinstance(asked, Fault)
    assert asked[0] == 1


def test_an_answer_that_is_too_large_becomes_a_refusal() -> None:
    found = response(1, bytes(ttrpc.DATA_MAX))
    assert len(found.data) < 200
    session = Session()
    session.ask("UpdateContainers", b"", 1.0)
    [answer] = session.receive(framed(mux.RUNTIME, 1, ttrpc.RESPONSE, found.data))
    assert isinstance(answer, Answer)
    assert answer.code == ttrpc.RESOURCE_EXHAUSTED


def test_the_time_a_runtime_waits_is_read() -> None:
    [found] = Session().receive(call(1, timeout_s=1.5))
    assert isinstance(found, Call)
    assert found.timeout_s == 1.5


def test_fields_of_later_versions_are_counted_and_survive() -> None:
    payload = api.StopContainerRequest().SerializeToString() + b"\xa2\x06\x01x"  # field 100
    found = decode("StopContainer", payload)
    assert not isinstance(found, Fault)
    assert unknown_fields(found) == 1
    assert found.SerializeToString() == payload


def test_a_fault_quotes_no_content() -> None:
    secret = "hunter2"
    found = decode("CreateContainer", b"\x0a\xff" + secret.encode())
    assert isinstance(found, Fault)
    assert secret not in found.text


def test_masks() -> None:
    wanted = (Event.RUN_POD_SANDBOX, Event.REMOVE_POD_SANDBOX, Event.CREATE_CONTAINER, Event.UPDATE_CONTAINER)
    assert event_mask(wanted) == 141
    assert event_mask(Event) == 2**14 - 1
    assert {event.value for event in Event} == set(api.Event.values()) - {0}
    assert {event.name for event in Event} == set(api.Event.keys()) - {"UNKNOWN"}
    assert set(EVENTS) <= set(REQUESTS)
