"""Logins that the server leaves to a service: NATS's auth callout.

A server that is configured so asks on `$SYS.REQ.USER.AUTH` about every client that none of its own users is, and lets
it in with the account and the rights that the answer names. Question and answer are JWTs of NATS (header
`ed25519-nkey`); who has the seed of the issuer that the server's configuration names can let anybody in, anywhere.

The format is that of github.com/nats-io/jwt, version 2: authorization request, authorization response, user.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from typing import Any, Final, NamedTuple

import msgspec
import nkeys

from berth.bus import metrics
from berth.bus.client import Delivery
from berth.bus.errors import BusError, InvalidMessage
from berth.bus.link import Link
from berth.bus.logs import FieldLogger
from berth.bus.port import Access, Authenticator, Clock, Login, LoginRefused
from berth.bus.tasks import end_tasks

log = FieldLogger(__name__)

SUBJECT: Final = "$SYS.REQ.USER.AUTH"
AT_ONCE: Final = 256
"""Logins in work at the same time. One more is left unanswered: the server refuses it, and its client comes again."""
TIMEOUT_S: Final = 5.0
"""The server has given up by then."""
_HEADER: Final = b'{"typ":"JWT","alg":"ed25519-nkey"}'
_UNLIMITED: Final = -1


class _Client(msgspec.Struct, frozen=True):
    host: str = ""


class _Options(msgspec.Struct, frozen=True):
    user: str = ""
    password: str = msgspec.field(default="", name="pass")
    name: str = ""


class _Server(msgspec.Struct, frozen=True):
    id: str


class _Asked(msgspec.Struct, frozen=True):
    server_id: _Server
    user_nkey: str
    type: str
    client_info: _Client = _Client()
    connect_opts: _Options = _Options()


class _Request(msgspec.Struct, frozen=True):
    nats: _Asked


_REQUEST: Final = msgspec.json.Decoder(_Request)


class Question(NamedTuple):
    """A login, and what the answer has to carry back."""

    login: Login
    user_key: str
    server: str


def read_question(token: bytes) -> Question:
    """The server's question. Raises InvalidMessage.

    Its signature is not checked: the key is made up with each start of the server, and only servers publish here.
    """
    parts = token.split(b".")
    if len(parts) != 3:
        raise InvalidMessage("", "not a JWT")
    try:
        asked = _REQUEST.decode(base64.urlsafe_b64decode(parts[1] + b"=" * (-len(parts[1]) % 4))).nats
    except (ValueError, msgspec.DecodeError, RecursionError) as error:
        raise InvalidMessage("", f"not an authorization request: {error}") from error
    if asked.type != "authorization_request":
        raise InvalidMessage("nats.type", f"{asked.type[:100]!r} is not authorization_request")
    options = asked.connect_opts
    login = Login(options.user, options.password, options.name, asked.client_info.host)
    return Question(login, asked.user_nkey, asked.server_id.id)


class Issuer:
    """Signs answers in the name of the account key that the server's configuration names."""

    def __init__(self, seed: bytes) -> None:
        """Raises ValueError for what is not the seed of an account."""
        try:
            self._key = nkeys.from_seed(seed.strip())
            self.public = self._key.public_key.decode()
        except (nkeys.NkeysError, ValueError) as error:
            raise ValueError(f"not a seed of NATS: {type(error).__name__}") from error
        if not self.public.startswith("A"):
            raise ValueError("not the seed of an account (SA...)")

    def accept(self, question: Question, access: Access, *, now: int) -> bytes:
        """The answer that lets a client in."""
        rights = {
            "pub": {"allow": list(access.publish)},
            "sub": {"allow": list(access.subscribe)},
            **dict.fromkeys(("subs", "data", "payload"), _UNLIMITED),
        }
        user = {"sub": question.user_key, "aud": access.account, "name": access.name, "exp": access.until}
        return self._answer(question, {"jwt": self._signed(user, "user", rights, now)}, now)

    def refuse(self, question: Question, reason: str, *, now: int) -> bytes:
        """The answer that keeps a client out; the server logs the reason and does not tell the client."""
        return self._answer(question, {"error": reason[:200]}, now)

    def _answer(self, question: Question, content: dict[str, Any], now: int) -> bytes:
        claims = {"sub": question.user_key, "aud": question.server}
        return self._signed(claims, "authorization_response", content, now).encode()

    def _signed(self, claims: dict[str, Any], kind: str, content: dict[str, Any], now: int) -> str:
        whole = {**claims, "iss": self.public, "iat": now, "nats": {**content, "type": kind, "version": 2}}
        whole["jti"] = base64.b32encode(hashlib.sha256(msgspec.json.encode(whole)).digest()).rstrip(b"=").decode()
        text = _segment(_HEADER) + b"." + _segment(msgspec.json.encode(whole))
        return (text + b"." + _segment(self._key.sign(text))).decode()


def _segment(raw: bytes) -> bytes:
    return base64.urlsafe_b64encode(raw).rstrip(b"=")


class Logins:
    """Answers the server's questions until it is ended; several may share the work."""

    def __init__(self, link: Link, issuer: Issuer, authenticate: Authenticator, clock: Clock) -> None:
        self._link = link
        self._issuer = issuer
        self._authenticate = authenticate
        self._clock = clock
        self._tasks: dict[asyncio.Task[None], None] = {}

    async def start(self) -> None:
        """Subscribe now, or with the next connection, and with every later one."""
        await self._link.subscribe(SUBJECT, self._take, queue="logins")

    async def stop(self) -> None:
        """Give up what is in work."""
        await end_tasks(list(self._tasks))

    def _take(self, delivery: Delivery) -> None:
        if len(self._tasks) >= AT_ONCE:
            metrics.LOGINS.labels("too many at once").inc()
            return
        task = asyncio.create_task(self._answer(delivery), name="bus-login")
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    async def _answer(self, delivery: Delivery) -> None:
        outcome = "failed"
        try:
            question = read_question(delivery.data)
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    access = await self._authenticate(question.login)
                answer = self._issuer.accept(question, access, now=int(self._clock.now()))
                outcome = "accepted"
            except LoginRefused as error:
                answer, outcome = self._issuer.refuse(question, str(error), now=int(self._clock.now())), "refused"
            await self._link.publish(delivery.reply, answer)
        except TimeoutError:
            log.warning("a login took too long to check")
        except (BusError, InvalidMessage) as error:
            log.warning("cannot answer a login", error=str(error))
        except Exception:
            log.exception("cannot check a login")
        metrics.LOGINS.labels(outcome).inc()
