"""Steps on the way of a pod, seen from outside, at which something can be killed.

Each step is something that others can observe at the moment it happens: a message on its subject (seen on its way to
the stream, so what it belongs to may be cut in half), a request that reached the API server, a change of an object.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from tests.chaos.field import Field

from berth.bus.port import Message
from berth.contracts import buckets, names, subjects

SEEN = "a pod is seen"
DECIDED = "a decision is sent"
COMMITTED = "a plan is sent"
LEASE = "the Lease names the plan"
BIND_ASKED = "a bind is asked for"
BIND_UNHEARD = "a bind is done, its answer lost"
BOUND = "a pod is bound"
EVENT = "the event is out"
NOMINATED = "a nomination is sent"
NOTED = "a beneficiary is noted"
MARKED = "a victim is marked"
EVICTION_ASKED = "a deletion is asked for"
STEP_ASKED = "a step is asked for"
CLAIM_BOUND = "a claim is bound"
STEPS = (SEEN, DECIDED, COMMITTED, LEASE, BIND_ASKED, BIND_UNHEARD, BOUND, EVENT)

BETWEEN = (NOMINATED, NOTED, MARKED, EVICTION_ASKED, STEP_ASKED, CLAIM_BOUND)
"""Those that not every pod comes to: of evictions, and of what comes before a bind."""

_SUBJECTS = {
    SEEN: f"$KV.{buckets.STATE}.pod.>",
    DECIDED: f"$KV.{buckets.LEDGER}.*.decision.>",
    COMMITTED: f"$KV.{buckets.LEDGER}.*.plan.>",
    NOMINATED: f"$KV.{buckets.LEDGER}.*.decision.>",
    EVENT: f"{subjects.PREFIX}.evt.placement.bound.>",
}
_WRITER = "berth-cluster-writer"
_FAULTS: dict[str, dict[str, Any]] = {
    BIND_ASKED: {"kind": "delay", "delay_s": 0.3, "verbs": ["bind"], "agent_prefix": _WRITER},
    EVICTION_ASKED: {
        "kind": "delay",
        "delay_s": 0.3,
        "verbs": ["delete"],
        "resources": ["pods"],
        "agent_prefix": _WRITER,
    },
    STEP_ASKED: {
        "kind": "delay",
        "delay_s": 0.3,
        "verbs": ["patch"],
        "resources": ["persistentvolumes", "persistentvolumeclaims"],
        "agent_prefix": _WRITER,
    },
    BIND_UNHEARD: {"kind": "drop-after", "verbs": ["bind"], "agent_prefix": _WRITER, "limit": 3},
}
_NOMINATES = b'"nominates":true'
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/berth-system/leases"
_PODS, _CLAIMS = "/api/v1/pods", "/api/v1/persistentvolumeclaims"
_SHOWN = {
    NOTED: (_PODS, names.ANNOTATION_NOMINATED),
    MARKED: (_PODS, names.ANNOTATION_EVICTED_FOR),
    CLAIM_BOUND: (_CLAIMS, names.ANNOTATION_BIND_COMPLETED),
}
"""Where an annotation comes to be seen."""
POLL_S = 0.005
HIT_S = 30.0


async def at(field: Field, step: str, action: Callable[[], None]) -> float:
    """Do it the moment the step happens next; the time of the loop then. Raises TimeoutError."""
    loop = asyncio.get_running_loop()
    hit: asyncio.Future[float] = loop.create_future()

    def strike() -> None:
        if not hit.done():
            action()
            hit.set_result(loop.time())

    async with _watching(field, step, strike), asyncio.timeout(HIT_S):
        return await hit


@asynccontextmanager
async def _watching(field: Field, step: str, strike: Callable[[], None]) -> AsyncIterator[None]:
    if step in _SUBJECTS:
        listener = await field.whole.bus.subscribe(
            _SUBJECTS[step], _on_message(strike, _NOMINATES if step == NOMINATED else b"")
        )
        try:
            yield
        finally:
            await listener.unsubscribe()
    elif step == BOUND:
        field.eyes.on_bound = strike
        try:
            yield
        finally:
            field.eyes.on_bound = None
    else:
        if step in _SHOWN:
            work = _annotated(field, *_SHOWN[step], strike)
        else:
            work = _lease_named(field, strike) if step == LEASE else _fault_fired(field, _FAULTS[step], strike)
        task = asyncio.create_task(work)
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            if step in _FAULTS:
                await field.faults()


def _on_message(strike: Callable[[], None], part: bytes) -> Any:
    async def seen(message: Message) -> None:
        if part in message.data:
            strike()

    return seen


async def _lease_named(field: Field, strike: Callable[[], None]) -> None:
    """The annotation of the Lease has changed."""
    found = await field.api.get(_LEASES)
    known = {_plan_of(lease) for lease in found["items"]}
    with contextlib.suppress(OSError):
        async for line in field.api.lines(f"{_LEASES}?watch=1&resourceVersion={found['metadata']['resourceVersion']}"):
            if _plan_of(msgspec.json.decode(line)["object"]) not in known:
                strike()


async def _annotated(field: Field, path: str, annotation: str, strike: Callable[[], None]) -> None:
    """Some object of these has come to have an annotation that it had not, or with another text."""
    found = await field.api.get(path)
    known = {(each["metadata"]["uid"], _note_of(each, annotation)) for each in found["items"]}
    with contextlib.suppress(OSError):
        async for line in field.api.lines(f"{path}?watch=1&resourceVersion={found['metadata']['resourceVersion']}"):
            shown = msgspec.json.decode(line)["object"]
            note = _note_of(shown, annotation)
            if note and (shown["metadata"]["uid"], note) not in known:
                strike()


def _note_of(shown: dict[str, Any], annotation: str) -> str:
    return str(shown["metadata"].get("annotations", {}).get(annotation, ""))


def _plan_of(lease: dict[str, Any]) -> str:
    return str(lease["metadata"].get("annotations", {}).get(names.ANNOTATION_PLAN, ""))


async def _fault_fired(field: Field, rule: dict[str, Any], strike: Callable[[], None]) -> None:
    """A request of the kind has reached the API server, which holds it or has cut it off."""
    await field.faults(rule)
    while not (await field.whole.call("GET", "/sim/faults"))["fired"][0]:
        await asyncio.sleep(POLL_S)
    strike()
