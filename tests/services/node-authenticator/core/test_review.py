"""Whose token it is: what an API server answers, and everything that is not good enough."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.node_authenticator.core.review import NODE_CLAIM, NotAnAgent, expiry_of, node_of, review_of

AUDIENCE, ACCOUNT = "bus.berth.sh", "berth-nodes/node-qos-enforcer"


def token(claims: object) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"e30.{body}.c2ln"


def answer(**changes: Any) -> bytes:
    user = {
        "username": "system:serviceaccount:berth-nodes:node-qos-enforcer",
        "groups": ["system:serviceaccounts"],
        "extra": {
            NODE_CLAIM: ["node-1.example"],
            "authentication.kubernetes.io/pod-name": ["node-qos-enforcer-x"],
        },
    }
    status = {"authenticated": True, "audiences": [AUDIENCE], "user": user | changes.pop("user", {})} | changes
    return json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": status}).encode()


def node(raw: bytes) -> str:
    return node_of(raw, audience=AUDIENCE, account=ACCOUNT)


def test_the_node_is_what_the_api_server_says() -> None:
    assert node(answer()) == "node-1.example"


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (answer(authenticated=False, error="token expired"), "token expired"),
        (answer(authenticated=False), "no reason given"),
        (answer(audiences=["https://kubernetes.default.svc"]), "not for 'bus.berth.sh'"),
        (answer(audiences=[]), "not for"),
        (answer(user={"username": "system:serviceaccount:default:node-qos-enforcer"}), "not the agents' account"),
        (answer(user={"username": "system:admin"}), "not the agents' account"),
        (answer(user={"extra": {}}), "Kubernetes 1.30"),
        (answer(user={"extra": {NODE_CLAIM: []}}), "Kubernetes 1.30"),
        (answer(user={"extra": {NODE_CLAIM: [""]}}), "Kubernetes 1.30"),
        (answer(user={"extra": {NODE_CLAIM: ["a", "b"]}}), "Kubernetes 1.30"),
        (b"{}", "cannot be read"),
        (b"<html>bad gateway</html>", "cannot be read"),
        (b'{"status": {"authenticated": "yes"}}', "cannot be read"),
        (b"\xff", "cannot be read"),
    ],
)
def test_anything_less_is_no_agent(raw: bytes, reason: str) -> None:
    with pytest.raises(NotAnAgent, match=reason):
        node(raw)


@pytest.mark.parametrize("password", ["", "secret", "a.b", "a.b.c.d", "ä.b.c", "a" * 20_000 + ".b.c"])
def test_what_is_no_token_is_not_asked_about(password: str) -> None:
    with pytest.raises(NotAnAgent):
        review_of(password, AUDIENCE)


def test_the_review_is_for_the_audience_of_the_bus() -> None:
    review = review_of("a.b.c", AUDIENCE)
    assert review["spec"] == {"token": "a.b.c", "audiences": [AUDIENCE]}
    assert (review["apiVersion"], review["kind"]) == ("authentication.k8s.io/v1", "TokenReview")


def test_a_token_says_when_it_ends() -> None:
    assert expiry_of(token({"exp": 1_700_000_000, "aud": [AUDIENCE]})) == 1_700_000_000


@pytest.mark.parametrize("claims", [{}, {"exp": "soon"}, [], None])
def test_a_token_without_an_end_is_refused(claims: object) -> None:
    with pytest.raises(NotAnAgent):
        expiry_of(token(claims))


@given(st.binary(max_size=300))
def test_garbage_is_refused_and_nothing_else_is_raised(raw: bytes) -> None:
    with pytest.raises(NotAnAgent):
        node(raw)
    with pytest.raises(NotAnAgent):
        expiry_of(f"a.{raw.hex()}.b")
