"""The webhook of a run: pods go past it as they are created, while it is there, away, hung, slow, or not trusted.

What the API server does is the simulated one's; what is asked is the service's own answer, in the process of a replica
that is ready. In place of sockets and keys there are names: a replica shows a certificate of its name and a number.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Callable, Coroutine, Generator, Iterable
from typing import Any, Final, Literal, NamedTuple

import msgspec
from tests.simulation import profiled
from tests.simulation.faults import Fault
from tests.simulation.harness import Harness
from tests.simulation.planted.injectors import Saboteur
from tests.simulation.services import WEBHOOK
from tests.simulation.workload import NAMESPACE, Json

from berth.admission_webhook.core.bundle import BEGIN, END
from berth.admission_webhook.keys import Certificate
from berth.admission_webhook.server import Answer
from berth.contracts import buckets, names
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.event import AuditReported
from berth.rules.webhooks import TIMEOUT_S
from berth.simcluster.admission.matching import Hook
from berth.simcluster.admission.reviewing import Admission, UnaskedError
from berth.simcluster.http.target import Target
from berth.simcluster.store import Path, Reply
from berth.simcluster.store.resource import PODS
from berth.simcluster.store.status import ApiError

URL: Final = "https://webhook:8443"
LAW: Final = "I41"
CALLS_MAX: Final = 12
"""Entries that may concern one pod, each called twice at most."""
PATHS: Final = {"/mutate-pod"}
BEGUN: Final = Reply(202, b"")

Phase = Literal["there", "away", "hung", "slow", "untrusted", "killed"]
PHASES: Final[tuple[Phase, ...]] = ("there", "there", "away", "hung", "slow", "untrusted", "killed")
LASTS_S: Final = (4.0, 14.0)
DELAY_S: Final = (0.001, 0.02)
SLOW_S: Final = (0.5, 3.5)


class _Context:
    """What a server speaks by."""

    pem = ""


class Keys:
    """In place of `berth.admission_webhook.keys`: names that a seed draws again."""

    def make(self, host: str, now: float, lifetime_s: float) -> Certificate:
        """See there."""
        loop = asyncio.get_running_loop()
        number = loop.__dict__["made"] = loop.__dict__.get("made", 0) + 1
        name = hashlib.sha256(f"{_name()} {number}".encode()).hexdigest()
        body = base64.b64encode(name.encode()).decode()
        return Certificate(name, f"{BEGIN}\n{body}\n{END}\n", b"", now + lifetime_s)

    def seal_key(self) -> bytes:
        """See there."""
        return hashlib.sha256(f"seal of {_name()}".encode()).digest()

    def server_context(self) -> _Context:
        """See there."""
        return _Context()

    def serve_with(self, context: _Context, certificate: Certificate) -> None:
        """See there."""
        context.pem = certificate.pem


class Server:
    """In place of `berth.admission_webhook.server.Server`: found by the loop of its process."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.port = 0
        self.context = _Context()

    async def start(self, host: str, port: int, context: _Context) -> None:
        """See there."""
        self.port, self.context = port, context
        asyncio.get_running_loop().__dict__["door"] = self

    async def close(self) -> None:
        """See there."""
        asyncio.get_running_loop().__dict__.pop("door", None)


def _name() -> str:
    return str(asyncio.get_running_loop().name)  # type: ignore[attr-defined]


class _Asked(NamedTuple):
    """A question that waits for its answer."""

    hook: Hook
    review: bytes

    def __await__(self) -> Generator[_Asked, bytes, bytes]:
        return (yield self)


class _Attempt:
    """A pod that is being created."""

    def __init__(self, author: Json, began_s: float, creating: Coroutine[Any, Any, Reply]) -> None:
        self.author = author
        self.began_s = began_s
        self.creating = creating
        self.answered = 0
        """Answers of the webhook that changes pods."""


class Webhooks:
    """The API server's side. `broken` are pods that are not as they have to be."""

    def __init__(self, harness: Harness) -> None:
        self.broken: list[str] = []
        self.phase: Phase = "there"
        self._harness = harness
        self._rng = harness.world.chance("webhooks")
        self._admission = Admission(harness.kube.store, self._ask)

    def takes(self, verb: str, path: Path) -> bool:
        """Whether a request goes past webhooks: pods that users create."""
        return verb == "create" and path._replace(namespace="") == Path("", "v1", "pods", "", "")

    def begin(self, target: Target, body: bytes) -> Reply:
        """A pod is being created; it is there later."""
        creating = self._admission.call("create", target, body, "application/json")
        self._go_on(_Attempt(msgspec.json.decode(body), self._harness.world.now, creating))
        return BEGUN

    async def _ask(self, hook: Hook, review: bytes) -> bytes:
        return await _Asked(hook, review)

    def _go_on(self, attempt: _Attempt, answer: bytes | None = None, trouble: str = "") -> None:
        try:
            asked = attempt.creating.throw(UnaskedError(trouble)) if trouble else attempt.creating.send(answer)
        except StopIteration as done:
            self._judge(attempt, done.value)
        except ApiError as error:
            self._judge(attempt, error.reply())
        else:
            self._carry(attempt, asked)

    def _carry(self, attempt: _Attempt, asked: _Asked) -> None:
        """A request on its way, and what becomes of it."""
        later, door = self._harness.world.later, self._door()
        delay_s = self._rng.uniform(*(SLOW_S if self.phase == "slow" else DELAY_S))
        if self.phase == "away" or door is None:
            later(delay_s, None, self._go_on, attempt, None, "nobody listens")
        elif self.phase == "untrusted" or door.context.pem not in asked.hook.ca:
            later(delay_s, None, self._go_on, attempt, None, "a certificate that is not known")
        elif self.phase == "hung" or delay_s >= asked.hook.timeout_s:
            later(asked.hook.timeout_s, None, self._go_on, attempt, None, "no answer in time")
        else:
            later(delay_s, None, self._arrive, attempt, asked, door.answer)

    def _arrive(self, attempt: _Attempt, asked: _Asked, answer: Answer) -> None:
        path = "/" + asked.hook.url.rpartition("/")[2]
        try:
            said, _ = answer(path, asked.review)
        except InvalidMessage as error:
            self._go_on(attempt, None, f"400 {error}")
            return
        attempt.answered += path in PATHS
        self._go_on(attempt, said)

    def _door(self) -> Server | None:
        """A replica that is ready, as a Service has them."""
        there = [
            replica.process.loop.__dict__["door"]
            for replica in self._harness.host.of(WEBHOOK)
            if replica.ready and replica.process is not None and "door" in replica.process.loop.__dict__
        ]
        return self._rng.choice(there) if there else None

    def _judge(self, attempt: _Attempt, reply: Reply) -> None:
        """The pod is there, or was refused."""
        name, now_s = attempt.author["metadata"]["name"], self._harness.world.now
        self._harness.observer.verdicts.judged(LAW)
        if reply.status != 201:
            self.broken.append(f"pod {name} is not created: {reply.status} {bytes(reply.body)[:200]!r}")
            return
        if now_s - attempt.began_s > CALLS_MAX * TIMEOUT_S:
            self.broken.append(f"pod {name} waited {now_s - attempt.began_s:.1f} s")
        wrong = profiled.difference(attempt.author, msgspec.json.decode(reply.body), was_asked=attempt.answered > 0)
        if wrong:
            self.broken.append(f"pod {name}, {attempt.answered} answers: {wrong}")

    # --- at the end ---------------------------------------------------------------------------------------------------

    def unreported(self) -> list[str]:
        """Pods without their profile that the auditor does not name, and what it names and is not."""
        missed, named = self._missed(), self._named()
        self._harness.observer.verdicts.judged(LAW, len(missed))
        return [f"nobody has told of pods without {each}" for each in sorted(missed - named)] + [
            f"{each} is said to be missed, and is not" for each in sorted(named - missed)
        ]

    def _missed(self) -> set[str]:
        found = set()
        for item in self._harness.kube.store.state.of(PODS).items.values():
            meta = item.data["metadata"]
            ended = item.data.get("status", {}).get("phase") in ("Succeeded", "Failed")
            if ended or meta.get("deletionTimestamp") or names.ANNOTATION_PROFILES in (meta.get("annotations") or {}):
                continue
            found |= {
                f"profile {name}, namespace {NAMESPACE}"
                for name in profiled.CERTAIN.get(meta["labels"].get(profiled.APP), ())
            }
        return found

    def _named(self) -> set[str]:
        stream, named = self._harness.nats.streams.get(buckets.EVENTS), set[str]()
        told: Iterable[Any] = stream.messages.values() if stream is not None else ()
        for each in sorted(told, key=lambda message: message.sequence):
            if f".audit.reported.found.{LAW}." in each.subject:
                named.add(decode(each.data, AuditReported).subject)
            elif f".audit.reported.gone.{LAW}." in each.subject:
                named.discard(decode(each.data, AuditReported).subject)
        return named


class Hooked(Saboteur):
    """An injector that has the webhook be in one phase after the other as well."""

    def __init__(self, harness: Harness) -> None:
        super().__init__(harness)
        self._webhooks = harness.kube.webhooks = Webhooks(harness)
        self._chance = harness.world.chance("phases of the webhook")
        self._is_calm = False

    def plan(self, faults: list[Fault]) -> None:
        """See `FaultInjector`."""
        super().plan(faults)
        self._turn()

    def calm(self) -> None:
        """See `FaultInjector`."""
        super().calm()
        self._is_calm = True
        self._webhooks.phase = "there"

    def _turn(self) -> None:
        if self._is_calm:
            return
        harness, phase = self._harness, self._chance.choice(PHASES)
        harness.journal.note("webhook", what=phase)
        self._webhooks.phase = phase
        if phase == "killed":
            for replica in harness.host.of(WEBHOOK):
                replica.kill()
        harness.world.later(self._chance.uniform(*LASTS_S), None, self._turn)


def in_place() -> dict[str, Callable[..., object] | object]:
    """What a run has in place of sockets and keys."""
    return {"berth.admission_webhook.shell.keys": Keys(), "berth.admission_webhook.shell.Server": Server}
