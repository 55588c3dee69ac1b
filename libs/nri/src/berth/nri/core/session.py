"""One connection to a runtime, without the socket: bytes in, calls and answers out, and the other way round."""

from __future__ import annotations

import msgspec
from google.protobuf.message import DecodeError

from berth.nri.core import mux, ttrpc
from berth.nri.core.fault import Fault
from berth.nri.ttrpc_pb2 import Request, Response, Status

RUNTIME_SERVICE = "nri.pkg.api.v1alpha1.Runtime"
PLUGIN_SERVICE = "nri.pkg.api.v1alpha1.Plugin"


class Call(msgspec.Struct, frozen=True):
    """The runtime asks. `timeout_s` is how long it waits, 0 when it does not say."""

    call: int
    service: str
    method: str
    payload: bytes
    timeout_s: float = 0.0


class Answer(msgspec.Struct, frozen=True):
    """The runtime has answered our call: with a payload, or with a status code that is not 0 and its text."""

    call: int
    payload: bytes = b""
    code: int = ttrpc.OK
    text: str = ""


class Refused(msgspec.Struct, frozen=True):
    """A call whose number breaks the protocol's rule; to be answered with this status, and no more."""

    call: int
    code: int
    text: str


class Passed(msgspec.Struct, frozen=True):
    """Something nobody waits for (another stream, a type of later versions, a late answer): skipped and counted."""

    what: str


Incoming = Call | Answer | Refused | Passed | Fault


def request(call: int, service: str, method: str, payload: bytes, timeout_s: float = 0.0) -> ttrpc.Message:
    """A call as a message."""
    nanoseconds = round(timeout_s * 1e9)
    data = Request(service=service, method=method, payload=payload, timeout_nano=nanoseconds).SerializeToString()
    return ttrpc.Message(call, ttrpc.REQUEST, data)


def response(call: int, payload: bytes = b"", code: int = ttrpc.OK, text: str = "") -> ttrpc.Message:
    """An answer as a message. One that is too large becomes a refusal that says so."""
    found = Response(payload=payload) if code == ttrpc.OK else Response(status=Status(code=code, message=text))
    data = found.SerializeToString()
    if len(data) > ttrpc.DATA_MAX:
        text = f"an answer of {len(data)} bytes; at most {ttrpc.DATA_MAX} are allowed"
        return response(call, code=ttrpc.RESOURCE_EXHAUSTED, text=text)
    return ttrpc.Message(call, ttrpc.RESPONSE, data)


class Session:
    """State of one connection: what has begun to arrive, numbers of calls, which of ours wait for an answer.

    After a `Fault` it takes nothing more; the connection is to be made anew.
    """

    def __init__(self) -> None:
        self._frames = mux.Demultiplexer()
        self._streams = {mux.PLUGIN: ttrpc.Assembler(), mux.RUNTIME: ttrpc.Assembler()}
        self._asked = 0
        """Number of the runtime's latest call."""
        self._next = 1
        self._waiting: set[int] = set()
        self._dead = False

    def receive(self, data: bytes) -> list[Incoming]:
        """What these bytes complete, in their order; a `Fault` is the last."""
        found: list[Incoming] = []
        for stream, piece in [] if self._dead else self._frames.feed(data):
            assembler = self._streams.get(stream)
            if assembler is None:
                found.append(Passed("stream"))
                continue
            for message in assembler.feed(piece):
                found.append(self._of(stream, message))
                if isinstance(found[-1], Fault):
                    return self._end(found)
            if assembler.fault is not None:
                found.append(assembler.fault)
                return self._end(found)
        if not self._dead and self._frames.fault is not None:
            found.append(self._frames.fault)
            return self._end(found)
        return found

    def end(self) -> Fault:
        """What it means that the runtime has closed the connection now."""
        if self._frames.inside:
            return Fault("torn", "the runtime has closed the connection within a frame")
        if any(each.inside for each in self._streams.values()):
            return Fault("torn", "the runtime has closed the connection within a message")
        return Fault("closed", "the runtime has closed the connection")

    def ask(self, method: str, payload: bytes, timeout_s: float) -> tuple[int, bytes] | Fault:
        """Number and bytes of a call to the runtime; a fault when it is too large, and then nothing was begun."""
        message = request(self._next, RUNTIME_SERVICE, method, payload, timeout_s)
        if len(message.data) > ttrpc.DATA_MAX:
            return Fault("oversized", f"{method}: a call of {len(message.data)} bytes; at most {ttrpc.DATA_MAX}")
        self._waiting.add(self._next)
        self._next += 2
        return message.call, mux.encode(mux.RUNTIME, ttrpc.encode(message))

    def answer(self, call: int, payload: bytes = b"", code: int = ttrpc.OK, text: str = "") -> bytes:
        """Bytes of the answer to a call of the runtime."""
        return mux.encode(mux.PLUGIN, ttrpc.encode(response(call, payload, code, text)))

    def _end(self, found: list[Incoming]) -> list[Incoming]:
        self._dead = True
        return found

    def _of(self, stream: int, message: ttrpc.Message) -> Incoming:
        if stream == mux.PLUGIN and message.type == ttrpc.REQUEST:
            return self._call(message)
        if stream == mux.RUNTIME and message.type == ttrpc.RESPONSE:
            return self._answer(message)
        return Passed("type")

    def _call(self, message: ttrpc.Message) -> Incoming:
        if message.call % 2 == 0:
            return Refused(message.call, ttrpc.INVALID_ARGUMENT, "the stream id of a client's call is odd")
        if message.call <= self._asked:
            return Refused(message.call, ttrpc.INVALID_ARGUMENT, "stream ids increase, and none comes twice")
        self._asked = message.call
        try:
            found = Request.FromString(message.data)
        except DecodeError:
            return Fault("malformed", f"a request of {len(message.data)} bytes cannot be read")
        return Call(message.call, found.service, found.method, found.payload, max(found.timeout_nano, 0) / 1e9)

    def _answer(self, message: ttrpc.Message) -> Incoming:
        if message.call not in self._waiting:
            return Passed("answer")
        self._waiting.discard(message.call)
        try:
            found = Response.FromString(message.data)
        except DecodeError:
            return Fault("malformed", f"a response of {len(message.data)} bytes cannot be read")
        return Answer(message.call, found.payload, found.status.code, found.status.message)
