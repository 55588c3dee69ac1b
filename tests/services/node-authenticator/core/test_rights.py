"""What an agent may do: its node's keys, and no other node's, whatever the names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts import buckets
from berth.contracts.subjects import named_key
from berth.node_authenticator.core.rights import rights_of

NAMES = st.text(min_size=1, max_size=60)


@given(NAMES)
def test_an_agent_writes_the_key_of_its_node(name: str) -> None:
    rights = rights_of(name)
    assert [each for each in rights.publish if each.startswith("$KV.")] == [
        f"$KV.{buckets.METRICS}.{named_key(kind, name)}" for kind in ("node", "report", "runtime", "pressure")
    ]


@given(NAMES, NAMES)
def test_two_nodes_share_neither_a_key_nor_an_inbox(one: str, other: str) -> None:
    if one == other:
        return
    first, second = rights_of(one), rights_of(other)
    assert not {each for each in first.publish if each.startswith("$KV.")} & set(second.publish)
    inbox, foreign = first.subscribe[0], second.subscribe[0]
    assert not foreign.removesuffix(">").startswith(inbox.removesuffix(">"))


@given(NAMES)
def test_no_name_of_a_node_is_a_wildcard(name: str) -> None:
    rights = rights_of(name)
    for subject in (*rights.publish, *rights.subscribe):
        tokens = subject.split(".")
        assert all(tokens)
        assert "*" not in tokens
        assert ">" not in tokens[:-1]
        assert not set(subject) & set(" \t\r\n")


def test_a_name_that_no_key_can_carry_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        rights_of("n" * 5000)
