"""Requests to store calls, replies to responses. No rule of the API lives here."""

import asyncio
import random

from aiohttp import web

from berth.simcluster.admission.reviewing import Admission
from berth.simcluster.faults import Fault, Faults
from berth.simcluster.http.admin import Admin
from berth.simcluster.http.auth import Tokens
from berth.simcluster.http.discovery import discover
from berth.simcluster.http.target import Target, parse_target
from berth.simcluster.http.watch import Hub, Watcher
from berth.simcluster.http.watching import open_watch
from berth.simcluster.store import Reply, Store
from berth.simcluster.store.bodies import BODY_LIMIT_BYTES
from berth.simcluster.store.status import ApiError, no_such_path
from berth.simcluster.tables.table import Tables, wants_table
from berth.simcluster.verbs import call, refusal_of, timeout_s, verb_of

_JSON_TYPE = "application/json"
_REASONS = {
    400: "BadRequest",
    403: "Forbidden",
    409: "Conflict",
    422: "Invalid",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class App:
    """The handler of an `aiohttp.web.Server`."""

    def __init__(
        self,
        store: Store,
        hub: Hub,
        faults: Faults,
        tokens: Tokens,
        admin: Admin | None,
        admission: Admission,
        seed: int,
    ) -> None:
        """`admin`: None leaves `/sim/` unserved."""
        self.requests = 0
        self._store = store
        self._hub = hub
        self._faults = faults
        self._tokens = tokens
        self._admin = admin
        self._admission = admission
        self._random = random.Random(seed)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        self.requests += 1
        raw = request.raw_path
        try:
            self._tokens.user(request.headers.get("Authorization", ""))
            target = parse_target(raw)
            if target is None:
                return await self._other(request, raw)
            return await self._api(request, target)
        except web.HTTPRequestEntityTooLarge:
            text = f"Request entity too large: limit is {BODY_LIMIT_BYTES}"
            return respond(ApiError(413, "RequestEntityTooLarge", text).reply())
        except ConnectionError:
            raise
        except Exception as error:
            return respond(refusal_of(error, f"{request.method} {raw}"))

    async def _other(self, request: web.BaseRequest, raw: str) -> web.StreamResponse:
        path = raw.partition("?")[0]
        if path.startswith("/sim/") and self._admin is not None:
            return respond(self._admin.answer(request.method, raw, await request.read()))
        found = discover(self._store.state, path) if request.method == "GET" else None
        if found is None:
            raise no_such_path()
        return web.Response(body=found[1], headers={"Content-Type": found[0]})

    async def _api(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        verb = verb_of(request.method, target)
        body = await request.read() if request.method != "GET" else b""
        agent = request.headers.get("User-Agent", "")
        chosen = self._faults.choose(verb, target.path.plural, target.path.name, agent)
        if chosen.delay_s:
            await asyncio.sleep(chosen.delay_s)
        fault = chosen.fault
        if fault is not None and fault.kind == "error":
            return respond(_refusal(fault))
        if fault is not None and fault.kind == "drop-before":
            return _drop(request)
        tables = self._tables(request, target)
        if verb == "watch":
            return await self._watch(request, target, tables)
        content_type = request.headers.get("Content-Type", "")
        if self._admission.concerns(verb, target):
            reply = await self._admission.call(verb, target, body, content_type)
        else:
            reply = call(self._store, verb, target, body, content_type)
        if fault is not None and fault.kind == "drop-after":
            return _drop(request)
        return respond(tables.reply(reply) if tables else reply)

    def _tables(self, request: web.BaseRequest, target: Target) -> Tables | None:
        """What turns the answers of this request into tables; None where nobody asked for any."""
        accept = request.headers.get("Accept", "")
        if request.method != "GET" or "as=Table" not in accept or not wants_table(accept):
            return None
        resource = self._store.collection(target.path).resource
        return Tables(self._store.state, target.path, resource, target.query)

    async def _watch(self, request: web.BaseRequest, target: Target, tables: Tables | None) -> web.StreamResponse:
        watcher = open_watch(self._store, self._hub, target)
        response = web.StreamResponse(headers={"Content-Type": _JSON_TYPE, "Cache-Control": "no-cache, private"})
        response.enable_chunked_encoding()
        seconds = timeout_s(target) or self._random.uniform(1800, 3600)
        timer = asyncio.get_running_loop().call_later(seconds, watcher.close)
        try:
            await response.prepare(request)
            await _stream(response, watcher, tables)
        except ConnectionError:
            pass  # the client has gone
        finally:
            timer.cancel()
            self._hub.remove(watcher)
        return response


async def _stream(response: web.StreamResponse, watcher: Watcher, tables: Tables | None) -> None:
    async for chunk in watcher.chunks():
        await response.write(b"".join(map(tables.line, chunk.splitlines())) if tables else chunk)
    await response.write_eof()


def respond(reply: Reply) -> web.Response:
    """A reply as a response."""
    headers = {"Content-Type": _JSON_TYPE}
    if reply.retry_after_s is not None:
        headers["Retry-After"] = str(reply.retry_after_s)
    return web.Response(body=reply.body, status=reply.status, headers=headers)


def _refusal(fault: Fault) -> Reply:
    reason = _REASONS.get(fault.status, "InternalError")
    return ApiError(fault.status, reason, fault.message, retry_after_s=fault.retry_after_s).reply()


def _drop(request: web.BaseRequest) -> web.StreamResponse:
    """Cut the connection; the response that is returned goes nowhere."""
    transport = request.transport
    if transport is not None:
        transport.abort()
    return web.Response()
