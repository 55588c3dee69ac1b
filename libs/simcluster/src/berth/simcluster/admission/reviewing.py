"""What webhooks make of one write: they are asked, their patches applied, their refusals told."""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from berth.simcluster.admission.matching import MUTATING, VALIDATING, Hook, Request, hooks_of, namespace_labels, wanted
from berth.simcluster.http.target import Target
from berth.simcluster.store import Reply, Store
from berth.simcluster.store.objects import Json, decode, encode, section
from berth.simcluster.store.patch import json_patch
from berth.simcluster.store.status import ApiError
from berth.simcluster.verbs import call

_log = logging.getLogger(__name__)
_OPERATIONS = {"create": "CREATE", "update": "UPDATE", "patch": "UPDATE", "delete": "DELETE"}
_ATTEMPTS = 4
_GIVEN = ("uid", "resourceVersion", "creationTimestamp", "managedFields")
"""What an object gets when it is stored; a webhook does not see it at creation."""


class UnaskedError(Exception):
    """A webhook could not be asked, or its answer not be used."""


Ask = Callable[[Hook, bytes], Awaitable[bytes]]
"""Sends a review to a webhook and returns its answer. Raises UnaskedError."""


class Admission:
    """Carries a write past the webhooks that want to see it."""

    def __init__(self, store: Store, ask: Ask) -> None:
        self._store = store
        self._ask = ask
        self._reviews = 0

    def concerns(self, verb: str, target: Target) -> bool:
        """Whether any webhook may want to see this request: a question of rules alone."""
        if verb not in _OPERATIONS:
            return False
        return any(hook.takes(verb, target.path) for plural in (MUTATING, VALIDATING) for hook in self._hooks(plural))

    async def call(self, verb: str, target: Target, body: bytes, content_type: str) -> Reply:
        """The request, as webhooks change it. Raises ApiError for what one of them refuses."""
        for _ in range(_ATTEMPTS):
            reply = await self._attempt(verb, target, body, content_type)
            if verb != "patch" or reply.status != 409:
                break  # else the object has changed while webhooks looked at it
        return reply

    async def _attempt(self, verb: str, target: Target, body: bytes, content_type: str) -> Reply:
        would_be = _dry(target)
        shown = self._store.get(target.path) if target.path.name else None
        old = decode(shown.body) if shown is not None and shown.status == 200 else None
        if verb == "delete":
            await self._validate(verb, Request(_OPERATIONS[verb], target.path, self._kind(target), None, old), target)
            return call(self._store, verb, target, body, content_type)
        dry = call(self._store, verb, would_be, body, content_type)
        if dry.status >= 300:
            return dry
        new = decode(dry.body)
        operation = "CREATE" if old is None else "UPDATE"
        if operation == "CREATE":
            new["metadata"] = {key: value for key, value in new["metadata"].items() if key not in _GIVEN}
            if new["metadata"].get("generateName") and not section(decode(body), "metadata").get("name"):
                del new["metadata"]["name"]
        request = Request(operation, target.path, self._kind(target), new, old)
        changed = await self._mutate(verb, request, target)
        await self._validate(verb, changed, target)
        if changed.object == new:
            return call(self._store, verb, target, body, content_type)
        if operation == "CREATE":
            collection = target._replace(path=target.path._replace(name=""))
            return call(self._store, "create", collection, encode(changed.object), "")
        return call(self._store, "update", target, encode(changed.object), "")

    async def _mutate(self, verb: str, request: Request, target: Target) -> Request:
        """The request with the object as the webhooks leave it."""
        hooks = [hook for hook in self._hooks(MUTATING) if hook.takes(verb, target.path)]
        labels = namespace_labels(self._store, target.path.namespace)
        left_with: dict[str, Json | None] = {}
        for turn in range(2):
            # One entry at a time: an earlier one's changes decide whether a later one is for the object.
            for hook in hooks:
                for each, trouble in wanted([hook], request, labels):
                    if turn and not (
                        each.comes_again and each.name in left_with and left_with[each.name] != request.object
                    ):
                        continue
                    request = await self._asked(each, trouble, request, target)
                    left_with[each.name] = request.object
        return request

    async def _validate(self, verb: str, request: Request, target: Target) -> None:
        hooks = [hook for hook in self._hooks(VALIDATING) if hook.takes(verb, target.path)]
        labels = namespace_labels(self._store, target.path.namespace)
        for hook, trouble in wanted(hooks, request, labels):
            await self._asked(hook, trouble, request, target)

    async def _asked(self, hook: Hook, trouble: str, request: Request, target: Target) -> Request:
        """The request after one webhook. Raises ApiError for a refusal, and for a failure where that counts."""
        try:
            if trouble:
                raise UnaskedError(f"its condition cannot be answered: {trouble}")
            response = _response(await self._ask(hook, encode(self._review(request, target))))
            if not response.allowed:
                raise _refusal(hook, response)
            return request._replace(object=_patched(request.object, response))
        except UnaskedError as error:
            if hook.may_fail:
                _log.warning("webhook %s was not asked: %s", hook.name, error)
                return request
            raise ApiError(
                500, "InternalError", f'Internal error occurred: failed calling webhook "{hook.name}": {error}'
            ) from error

    def _hooks(self, plural: str) -> list[Hook]:
        return list(hooks_of(self._store, plural))

    def _kind(self, target: Target) -> Json:
        resource = self._store.collection(target.path).resource
        return {"group": target.path.group, "version": target.path.version, "kind": resource.kind}

    def _review(self, request: Request, target: Target) -> Json:
        path = request.path
        self._reviews += 1
        subject = request.object or request.old or {}
        resource = {"group": path.group, "version": path.version, "resource": path.plural}
        return {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": f"review-{self._reviews}",
                "kind": request.kind,
                "resource": resource,
                "requestKind": request.kind,
                "requestResource": resource,
                **({"subResource": path.subresource} if path.subresource else {}),
                "name": section(subject, "metadata").get("name", ""),
                **({"namespace": path.namespace} if path.namespace else {}),
                "operation": request.operation,
                "userInfo": {"username": "system:anonymous"},
                "object": request.object,
                "oldObject": request.old,
                "dryRun": target.dry_run,
            },
        }


class _Said(msgspec.Struct):
    code: int = 403
    message: str = ""
    reason: str = ""


class _Response(msgspec.Struct, rename="camel"):
    allowed: bool = False
    status: _Said = msgspec.field(default_factory=_Said)
    patch: str = ""
    patch_type: str = ""


class _Review(msgspec.Struct):
    response: _Response


def _dry(target: Target) -> Target:
    return target._replace(query={**target.query, "dryRun": "All"})


def _response(answer: bytes) -> _Response:
    try:
        return msgspec.json.decode(answer, type=_Review).response
    except msgspec.MsgspecError as error:
        raise UnaskedError(f"its answer cannot be read: {error}") from error


def _patched(data: Json | None, response: _Response) -> Json | None:
    if not response.patch or data is None:
        return data
    try:
        operations: Any = decode(base64.b64decode(response.patch, validate=True))
        if response.patch_type != "JSONPatch":
            raise UnaskedError(f"its patch is {response.patch_type!r}, no JSONPatch")
        patched: Json = json_patch(data, operations)
    except (binascii.Error, msgspec.MsgspecError, ApiError) as error:
        raise UnaskedError(f"its patch cannot be used: {error}") from error
    return patched


def _refusal(hook: Hook, response: _Response) -> ApiError:
    said = response.status
    why = f": {said.message}" if said.message else " without explanation"
    reason = said.reason or ("Forbidden" if said.code == 403 else "")
    return ApiError(said.code, reason, f'admission webhook "{hook.name}" denied the request{why}')
