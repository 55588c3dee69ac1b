from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.bus import headers as h
from berth.bus.keys import check_key
from berth.contracts import subjects


@given(st.lists(st.text(max_size=30), min_size=1, max_size=6))
def test_every_key_that_the_contract_builds_is_legal_here(parts: list[str]) -> None:
    check_key(subjects.key(*parts))


@given(st.text(max_size=40).filter(lambda text: not text.isascii() or any(char in " .*>\r\n\t\0:@" for char in text)))
def test_raw_text_is_never_taken_for_a_key_token(text: str) -> None:
    with pytest.raises(ValueError, match="not a key"):
        check_key(f"pod.{text}.") if "." in text else check_key(f"pod.{text}")


@given(st.text(max_size=60), st.text(max_size=60))
def test_attributes_of_an_event_never_break_the_header_block(message_id: str, kind: str) -> None:
    headers = h.cloud_event(message_id=message_id, kind=kind, source="berth/x", now=0.0, traceparent=None)
    wire = b"NATS/1.0\r\n" + b"".join(f"{name}: {value}\r\n".encode() for name, value in headers.items()) + b"\r\n"
    assert h.parse(wire) == {name: value.strip() for name, value in headers.items()}
    assert all(value.isascii() and value.isprintable() for value in headers.values())


@pytest.mark.parametrize(
    "raw", [b"", b"NATS/1.0", b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\nno colon\r\n", b"\xff\xfe\r\n\xff: \xff"]
)
def test_malformed_header_blocks_are_read_without_a_fuss(raw: bytes) -> None:
    assert isinstance(h.parse(raw), dict)


@pytest.mark.parametrize(
    ("headers", "deleted"),
    [
        ({"KV-Operation": "DEL"}, True),
        ({"KV-Operation": "PURGE"}, True),
        ({"Nats-Marker-Reason": "MaxAge"}, True),
        ({"KV-Operation": "PUT"}, False),
        ({"traceparent": "00-1-2-01"}, False),
    ],
)
def test_deletions_are_told_from_writes(headers: dict[str, str], deleted: bool) -> None:
    assert h.is_deletion(headers) is deleted
