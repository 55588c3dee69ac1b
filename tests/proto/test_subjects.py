"""Names become tokens and back without loss, whatever they are, and every token is legal where it is used."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from berth.contracts import subjects
from berth.contracts.subjects import TOKEN_BYTES_MAX, escape, key, parts, unescape

UNICODE = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
AWKWARD = st.text(st.sampled_from("aZ09-._= *>/\\$\t\n\x00\x7fé€😀=41"), max_size=40)
NAMES = st.one_of(UNICODE, AWKWARD)
UNHURRIED = settings(deadline=None)
NATS_TOKEN = re.compile(r"[^\s.*>\x00-\x1f\x7f]+")
KV_KEY = re.compile(r"[-/_=.a-zA-Z0-9]+")
"""The characters that NATS allows in a key of a bucket."""

KNOWN = {
    "": "=",
    "web-0": "web-0",
    "gpu-07.rack-1": "gpu-07_rack-1",
    "a_b": "a=5Fb",
    "=": "=3D",
    ".": "_",
    "..": "__",
    "a b": "a=20b",
    "*": "=2A",
    ">": "=3E",
    "team/a": "team=2Fa",
    "é": "=C3=A9",
    "😀": "=F0=9F=98=80",
    "\n": "=0A",
    "=41": "=3D41",
}


@pytest.mark.parametrize(("text", "token"), KNOWN.items())
def test_known_tokens(text: str, token: str) -> None:
    assert escape(text) == token
    assert unescape(token) == text


@UNHURRIED
@given(NAMES)
@example("")
@example("a.b_c=d")
@example("\x85\u2028")
def test_unescape_gives_back_what_was_escaped(text: str) -> None:
    assert unescape(escape(text)) == text


@UNHURRIED
@given(NAMES)
def test_a_token_is_legal_in_subjects_and_in_keys(text: str) -> None:
    token = escape(text)
    assert NATS_TOKEN.fullmatch(token)
    assert KV_KEY.fullmatch(token)
    assert "." not in token


@UNHURRIED
@given(NAMES, NAMES)
@example("a.b", "a_b")
@example("", "=")
@example("A", "=41")
@example("é", "e\u0301")
def test_no_two_texts_share_a_token(one: str, other: str) -> None:
    assert (escape(one) == escape(other)) == (one == other)


@UNHURRIED
@given(st.one_of(NAMES, st.text(st.sampled_from("=0123456789ABCDEFabcdef_-"), max_size=12)))
@example("=41")
@example("=c3=A9")
@example("=C3")
@example("a=")
@example("==")
@example("Ã©")
def test_a_token_is_read_only_if_it_is_the_one_that_is_written(token: str) -> None:
    try:
        text = unescape(token)
    except ValueError:
        return
    assert escape(text) == token


@pytest.mark.parametrize(
    "token", ["", "a.b", "=41", "=c3=a9", "=C3", "=C3=28", "a=", "==", "=4", "é", "a b", "*", ">", "=ED=A0=80"]
)
def test_what_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(ValueError, match="not an escaped token"):
        unescape(token)


@pytest.mark.parametrize(
    "text", ["x" * (TOKEN_BYTES_MAX + 1), "." * (TOKEN_BYTES_MAX + 1), "é" * 171, "/" * 342, "x" * (1 << 20)]
)
def test_a_name_that_does_not_fit_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f"at most {TOKEN_BYTES_MAX} bytes"):
        escape(text)


@pytest.mark.parametrize("text", ["x" * TOKEN_BYTES_MAX, "." * TOKEN_BYTES_MAX, "é" * 170, "/" * 341])
def test_a_name_that_just_fits_is_taken(text: str) -> None:
    assert len(escape(text)) <= TOKEN_BYTES_MAX
    assert unescape(escape(text)) == text


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        escape("\ud800")


@UNHURRIED
@given(st.lists(NAMES, min_size=1, max_size=5))
@example(["", ""])
@example(["a.b", "c"])
def test_parts_gives_back_what_key_joined(texts: list[str]) -> None:
    joined = key(*texts)
    assert parts(joined) == tuple(texts)
    assert KV_KEY.fullmatch(joined)
    assert not joined.startswith(".")
    assert not joined.endswith(".")
    assert ".." not in joined


@UNHURRIED
@given(st.lists(NAMES, min_size=1, max_size=3), st.lists(NAMES, min_size=1, max_size=3))
@example(["a", "b"], ["a.b"])
@example([""], ["", ""])
def test_no_two_lists_of_names_share_a_key(one: list[str], other: list[str]) -> None:
    assert (key(*one) == key(*other)) == (one == other)


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b"])
def test_what_key_does_not_make_has_no_parts(text: str) -> None:
    with pytest.raises(ValueError, match="not an escaped token"):
        parts(text)


@UNHURRIED
@given(NAMES, NAMES)
def test_builders_put_names_where_parts_finds_them(namespace: str, name: str) -> None:
    assert parts(subjects.pod_key(namespace, name)) == ("pod", namespace, name)
    assert parts(subjects.namespaced_key("podgroup", namespace, name)) == ("podgroup", namespace, name)
    assert parts(subjects.named_key("node", name)) == ("node", name)
    assert parts(subjects.quota_key(namespace, name)) == ("group", namespace, name)
    assert parts(subjects.decision_key(7, namespace, name)) == ("e7", "decision", namespace, name)
    assert parts(subjects.plan_key(7, name)) == ("e7", "plan", name)
    account = subjects.quota_account(namespace, name)
    assert parts(subjects.account_key(7, account)) == ("e7", "account", "quota", namespace, name)
    tail = subjects.event_subject("placement", "bound", namespace, name).removeprefix("berth.v1.")
    assert parts(tail) == ("evt", "placement", "bound", namespace, name)
    tail = subjects.command_subject("refuse", "pods", namespace, name).removeprefix("berth.v1.")
    assert parts(tail) == ("cmd", "refuse", namespace, name)


@UNHURRIED
@given(st.integers(0, 2**63), st.integers(0, 2**63), NAMES)
def test_an_epoch_s_keys_are_its_own(one: int, other: int, name: str) -> None:
    written = subjects.decision_key(one, "", name)
    assert written.startswith(subjects.epoch_prefix(one))
    assert written.startswith(subjects.epoch_prefix(other)) == (one == other)


def test_accounts_of_different_kinds_differ() -> None:
    accounts = [subjects.node_account("a"), subjects.quota_account("a", "a"), subjects.reservation_account("a")]
    assert accounts == ["node.a", "quota.a.a", "reservation.a"]


def test_question_subject() -> None:
    assert subjects.question_subject("placement-solver", "why") == "berth.v1.svc.placement-solver.why"
