from __future__ import annotations

import pytest

from berth.admission_webhook import keys
from berth.admission_webhook.core.bundle import BEGIN, END, Bundle, Lease, Note, is_certificate, seal_keys
from berth.admission_webhook.core.succession import SETTLE_S, Standing, wants_successor

A, B = (f"{BEGIN}\n{text}\n{END}\n" for text in ("QUFB", "QkJC"))


def lease(pem: str, renewals: int = 0, seal: str = "") -> Lease:
    return Lease(Note(pem=pem, seal=seal), renewals)


def test_who_renews_stands_in_the_bundle() -> None:
    bundle = Bundle(silence_s=10)
    assert bundle.text({"b": lease(B), "a": lease(A)}, now=0) == A + B
    assert bundle.text({"a": lease(A, 1), "b": lease(B)}, now=9) == A + B
    assert bundle.text({"a": lease(A, 1), "b": lease(B)}, now=11) == A, "b is silent"
    assert bundle.text({"a": lease(A, 2), "b": lease(B, 1)}, now=30) == A + B, "both are back"
    assert bundle.text({"b": lease(B, 2)}, now=31) == B, "a has left"
    assert bundle.text({}, now=32) == ""


@pytest.mark.parametrize(
    "pem",
    ["", "x", A + B, A.rstrip(), A.replace("QUFB", "no dash-"), A.replace("QUFB", "é"), A.replace("QUFB", "Q" * 5000)],
)
def test_what_is_no_certificate_spoils_nothing(pem: str) -> None:
    assert not is_certificate(pem)
    assert Bundle(10).text({"a": lease(A), "x": lease(pem)}, now=0) == A


def test_seals_of_other_replicas_are_known() -> None:
    others = {
        "a": lease(A, seal="00" * 16),
        "b": lease(B, seal="zz"),
        "c": lease(B, seal="00"),
        "d": lease(B, seal="é"),
    }
    assert seal_keys(b"own", others) == (b"own", bytes(16))


def test_a_certificate_is_one() -> None:
    made = keys.make("admission-webhook.berth-system.svc", now=1_700_000_000, lifetime_s=86_400)
    assert is_certificate(made.pem)
    assert made.ends_at == 1_700_086_400
    assert b"PRIVATE KEY" in made.key
    keys.serve_with(keys.server_context(), made)
    assert keys.make("127.0.0.1", now=1_700_000_000, lifetime_s=60).fingerprint != made.fingerprint


def test_a_successor_is_made_in_time_and_shown_when_it_is_known() -> None:
    assert not wants_successor(ends_at=90.0, lifetime_s=90.0, now=59.0)
    assert wants_successor(ends_at=90.0, lifetime_s=90.0, now=60.0)
    standing = Standing()
    for bundles in ([], [A, B], [B, B]):
        standing.look(A, bundles, now=0)
        assert not standing.has_settled(SETTLE_S)
    standing.look(A, [A, A + B], now=1)
    assert not standing.has_settled(SETTLE_S)
    assert standing.has_settled(1 + SETTLE_S)
    standing.look(A, [A, B], now=20)
    assert not standing.has_settled(100)
