"""Whose token is it: the question to the API server, and what its answer says.

A TokenReview (authentication.k8s.io/v1) of a token that kubelet projected into a pod names the ServiceAccount, and in
`extra` the node that the pod is bound to: a claim of the API server, since Kubernetes 1.30. It fails as soon as the
pod or the ServiceAccount is deleted.
"""

from __future__ import annotations

import base64
from typing import Any, Final

import msgspec

TOKEN_LENGTH_MAX: Final = 16_384
NODE_CLAIM: Final = "authentication.kubernetes.io/node-name"


class NotAnAgent(Exception):  # noqa: N818
    """The token does not show that its owner is the agent of a node; the text says why."""


class _User(msgspec.Struct, frozen=True):
    username: str = ""
    extra: dict[str, list[str]] = {}


class _Status(msgspec.Struct, frozen=True):
    authenticated: bool = False
    user: _User = _User()
    audiences: list[str] = []
    error: str = ""


class _Review(msgspec.Struct, frozen=True):
    status: _Status


class _Claims(msgspec.Struct, frozen=True):
    exp: float


_REVIEW: Final = msgspec.json.Decoder(_Review)
_CLAIMS: Final = msgspec.json.Decoder(_Claims)


def review_of(token: str, audience: str) -> dict[str, Any]:
    """The TokenReview to create. Raises NotAnAgent for what cannot be a token of Kubernetes."""
    if not token or len(token) > TOKEN_LENGTH_MAX or not token.isascii() or token.count(".") != 2:
        raise NotAnAgent("the password is not a ServiceAccount token")
    return {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token, "audiences": [audience]},
    }


def node_of(answer: bytes, *, audience: str, account: str) -> str:
    """The node that the owner of a reviewed token runs on. `account` is `namespace/name` of the agents.

    Raises NotAnAgent.
    """
    try:
        status = _REVIEW.decode(answer).status
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotAnAgent(f"the API server's review cannot be read: {error}") from error
    if not status.authenticated:
        raise NotAnAgent(f"the API server does not accept the token: {status.error[:200] or 'no reason given'}")
    if audience not in status.audiences:
        raise NotAnAgent(f"the token is not for {audience!r}")
    if status.user.username != "system:serviceaccount:" + account.replace("/", ":"):
        raise NotAnAgent(f"{status.user.username[:200]!r} is not the agents' account, {account!r}")
    nodes = status.user.extra.get(NODE_CLAIM, [])
    if len(nodes) != 1 or not nodes[0]:
        raise NotAnAgent("the token names no node: it takes Kubernetes 1.30 and a token that is bound to a pod")
    return nodes[0]


def expiry_of(token: str) -> float:
    """When a token ends that has been reviewed, as Unix time. Raises NotAnAgent."""
    payload = token.split(".")[1]
    try:
        return _CLAIMS.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))).exp
    except (ValueError, msgspec.DecodeError, RecursionError) as error:
        raise NotAnAgent("the token does not say when it ends") from error
