import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.telemetry import traceparent as w3c

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"


def test_reads_the_parts():
    assert w3c.parse(f"00-{TRACE}-{SPAN}-01") == w3c.Traceparent(TRACE, SPAN, True)
    assert w3c.parse(f"00-{TRACE}-{SPAN}-02") == w3c.Traceparent(TRACE, SPAN, False)
    assert w3c.parse(f"01-{TRACE}-{SPAN}-03") == w3c.Traceparent(TRACE, SPAN, True)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "00",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-01\r\nX-Evil: 1",
        f"00-{TRACE}-{SPAN}-01\n",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
    ],
)
def test_anything_else_is_absent(text):
    assert w3c.parse(text) is None


@given(st.text(max_size=80))
def test_any_text_is_valid_only_if_it_prints_back(text):
    parsed = w3c.parse(text)
    assert parsed is None or w3c.parse(str(parsed)) == parsed


def test_new_roots_are_valid_unsampled_and_differ():
    roots = [w3c.parse(w3c.unsampled_root()) for _ in range(100)]
    assert all(root is not None and not root.sampled for root in roots)
    assert len({root.trace_id for root in roots if root}) == 100


def test_new_ids_come_from_where_they_are_told_to():
    try:
        w3c.draw_identifiers_from(random.Random(1))
        first = [w3c.unsampled_root() for _ in range(3)]
        w3c.draw_identifiers_from(random.Random(1))
        assert [w3c.unsampled_root() for _ in range(3)] == first
        assert len(set(first)) == 3
        assert all(w3c.parse(text) for text in first)
    finally:
        w3c.draw_identifiers_from(random.Random())
