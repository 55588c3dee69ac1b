"""The JetStream API: requests on `$JS.API.`, acknowledgements on `$JS.ACK.`, flow control on `$JS.FC.`."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from berth.testing.simulation.nats import problems
from berth.testing.simulation.nats.config import complete, updated
from berth.testing.simulation.nats.consumers import make_consumer
from berth.testing.simulation.nats.message import Publish, Stored
from berth.testing.simulation.nats.problems import Refusal
from berth.testing.simulation.nats.pull import PullConsumer
from berth.testing.simulation.nats.push import PushConsumer
from berth.testing.simulation.nats.stream import Stream
from berth.testing.simulation.nats.subjects import fits, overlap

if TYPE_CHECKING:
    from berth.testing.simulation.nats.server import SimNats

PREFIX = "$JS.API."
NEXT = "$JS.API.CONSUMER.MSG.NEXT."
ZERO_TIME = "0001-01-01T00:00:00Z"
SERVER_NAME = "simulated"
CLUSTER_SIZE = 3
SUBJECTS_MAX = 100_000
"""Most subjects in one answer of STREAM.INFO."""

Verb = Callable[["Api", list[str], Any], dict[str, Any]]


class Api:
    """Answers requests of one server."""

    def __init__(self, server: SimNats) -> None:
        self._server = server

    def receive(self, publish: Publish) -> bool:
        """Take a message on `$JS.`; False: nobody here listens on its subject."""
        subject = publish.subject
        if subject.startswith("$JS.ACK."):
            return self._acknowledged(publish)
        if subject.startswith("$JS.FC."):
            return self._flow(subject)
        if subject.startswith(NEXT):
            return self._next(publish, subject[len(NEXT) :].split("."))
        if not subject.startswith(PREFIX):
            return False
        tokens = subject[len(PREFIX) :].split(".")
        for length in (3, 2, 1):
            verb = _VERBS.get(".".join(tokens[:length]))
            if verb is not None:
                self._answer(publish, verb, tokens[:length], tokens[length:])
                return True
        return True  # the server listens on all of the API, and is silent about what it does not know

    def _answer(self, publish: Publish, verb: Verb, name: list[str], rest: list[str]) -> None:
        kind = "_".join(name).lower().replace("consumer_durable", "consumer").replace("info", "info")
        answer: dict[str, Any] = {"type": f"io.nats.jetstream.api.v1.{kind}_response"}
        try:
            body = msgspec.json.decode(publish.data) if publish.data.strip() else {}
            answer |= verb(self, rest, body)
        except msgspec.DecodeError as error:
            answer["error"] = problems.bad_json(str(error)).answer()
        except Refusal as refusal:
            answer["error"] = refusal.problem.answer()
        if publish.reply:
            self._server.send(publish.reply, msgspec.json.encode(answer))

    # --- streams ------------------------------------------------------------------------------------------------------

    def _stream(self, name: str) -> Stream:
        stream = self._server.streams.get(name)
        if stream is None:
            raise Refusal(problems.STREAM_MISSING)
        return stream

    def stream_create(self, rest: list[str], body: Any) -> dict[str, Any]:
        """STREAM.CREATE.<name>."""
        if body.get("name") != rest[0]:
            raise Refusal(problems.STREAM_NAME_MISMATCH)
        config = complete(body)
        if not config["subjects"]:
            config["subjects"] = [config["name"]]
        there = self._server.streams.get(config["name"])
        if there is not None:
            if there.config != config:
                raise Refusal(problems.STREAM_EXISTS)
            return _stream_info(there)
        self._check_subjects(config)
        stream = Stream(self._server, config)
        self._server.add_stream(stream)
        return _stream_info(stream)

    def stream_update(self, rest: list[str], body: Any) -> dict[str, Any]:
        """STREAM.UPDATE.<name>."""
        stream = self._stream(rest[0])
        config = updated(stream.config, body)
        self._check_subjects(config)
        for subject in stream.config["subjects"]:
            self._server.routes.remove(subject, stream)
        for subject in config["subjects"]:
            self._server.routes.add(subject, stream)
        stream.config = config
        stream.reshape()
        return _stream_info(stream)

    def _check_subjects(self, config: dict[str, Any]) -> None:
        for other in self._server.streams.values():
            if other.name != config["name"] and any(
                overlap(mine, theirs) for mine in config["subjects"] for theirs in other.config["subjects"]
            ):
                raise Refusal(problems.SUBJECTS_OVERLAP)

    def stream_info(self, rest: list[str], body: Any) -> dict[str, Any]:
        """STREAM.INFO.<name>, with the subjects of a pattern where one is asked for."""
        stream = self._stream(rest[0])
        info = _stream_info(stream)
        pattern = (body or {}).get("subjects_filter")
        if pattern:
            found = sorted(subject for subject in stream.by_subject if fits(pattern, subject))
            offset = int(body.get("offset", 0))
            page = found[offset : offset + SUBJECTS_MAX]
            info["state"]["subjects"] = {subject: len(stream.by_subject[subject]) for subject in page}
            info |= {"total": len(found), "offset": offset, "limit": SUBJECTS_MAX}
        return info

    def stream_delete(self, rest: list[str], body: Any) -> dict[str, Any]:
        """STREAM.DELETE.<name>."""
        self._server.remove_stream(self._stream(rest[0]))
        return {"success": True}

    def stream_purge(self, rest: list[str], body: Any) -> dict[str, Any]:
        """STREAM.PURGE.<name>."""
        stream = self._stream(rest[0])
        return {
            "success": True,
            "purged": stream.purge(body.get("filter", ""), body.get("keep", 0), body.get("seq", 0)),
        }

    def stream_names(self, rest: list[str], body: Any) -> dict[str, Any]:
        """STREAM.NAMES."""
        names = sorted(self._server.streams)
        return {"total": len(names), "offset": 0, "limit": 1024, "streams": names}

    def message_get(self, rest: list[str], body: Any) -> dict[str, Any]:
        """STREAM.MSG.GET.<name>: by sequence, the last one of a subject, or the next one of a pattern."""
        stream = self._stream(rest[0])
        sequence, last, following = body.get("seq", 0), body.get("last_by_subj"), body.get("next_by_subj")
        if not (sequence or last or following) or (last and (sequence or following)):
            raise Refusal(problems.BAD_REQUEST)
        stored: Stored | None
        if last and ("*" in last or ">" in last):
            found = [each for each in stream.messages.values() if fits(last, each.subject)]
            stored = found[-1] if found else None
        elif last:
            stored = stream.messages.get(stream.last_of(last))
        elif following:
            ahead = (each for each in stream.messages.values() if each.sequence >= sequence)
            stored = next((each for each in ahead if fits(following, each.subject)), None)
        else:
            stored = stream.messages.get(sequence)
        if stored is None:
            raise Refusal(problems.MESSAGE_MISSING)
        return {"message": self._message(stored)}

    def _message(self, stored: Stored) -> dict[str, Any]:
        message: dict[str, Any] = {"subject": stored.subject, "seq": stored.sequence}
        if stored.raw:
            message["hdrs"] = base64.b64encode(stored.raw).decode()
        if stored.data:
            message["data"] = base64.b64encode(stored.data).decode()
        message["time"] = self._server.timestamp(stored.time)
        return message

    def message_delete(self, rest: list[str], body: Any) -> dict[str, Any]:
        """STREAM.MSG.DELETE.<name>."""
        stream = self._stream(rest[0])
        if stream.config["deny_delete"]:
            raise Refusal(problems.DELETE_FORBIDDEN)
        if stream.remove(body.get("seq", 0)) is None:
            raise Refusal(problems.DELETE_MISSING)
        return {"success": True}

    # --- consumers ----------------------------------------------------------------------------------------------------

    def consumer_create(self, rest: list[str], body: Any) -> dict[str, Any]:
        """CONSUMER.CREATE.<stream>.<name>[.<filter>]."""
        if body.get("stream_name") != rest[0]:
            raise Refusal(problems.STREAM_NAME_MISMATCH)
        stream = self._stream(rest[0])
        name = rest[1] if len(rest) > 1 else body["config"].get("name") or self._server.next_name()
        return make_consumer(self._server, stream, name, body["config"], body.get("action", ""))

    def consumer_info(self, rest: list[str], body: Any) -> dict[str, Any]:
        """CONSUMER.INFO.<stream>.<name>."""
        consumer = self._stream(rest[0]).consumers.get(rest[1])
        if consumer is None:
            raise Refusal(problems.CONSUMER_MISSING)
        return consumer.info()

    def consumer_delete(self, rest: list[str], body: Any) -> dict[str, Any]:
        """CONSUMER.DELETE.<stream>.<name>."""
        consumer = self._stream(rest[0]).consumers.get(rest[1])
        if consumer is None:
            raise Refusal(problems.CONSUMER_MISSING)
        self._server.remove_consumer(consumer)
        return {"success": True}

    def consumer_names(self, rest: list[str], body: Any) -> dict[str, Any]:
        """CONSUMER.NAMES.<stream>."""
        names = sorted(self._stream(rest[0]).consumers)
        return {"total": len(names), "offset": 0, "limit": 1024, "consumers": names}

    # --- without an answer --------------------------------------------------------------------------------------------

    def _next(self, publish: Publish, tokens: list[str]) -> bool:
        stream = self._server.streams.get(tokens[0])
        consumer = stream.consumers.get(tokens[1]) if stream is not None and len(tokens) > 1 else None
        if not isinstance(consumer, PullConsumer):
            return False
        if publish.reply:
            consumer.request(publish.reply, publish.data)
        return True

    def _acknowledged(self, publish: Publish) -> bool:
        """`$JS.ACK.<stream>.<consumer>.<deliveries>.<stream sequence>...`; whoever asks for it gets an empty answer."""
        tokens = publish.subject.split(".")
        stream = self._server.streams.get(tokens[2]) if len(tokens) > 5 else None
        consumer = stream.consumers.get(tokens[3]) if stream is not None else None
        if consumer is None:
            return False
        if consumer.explicit and tokens[5].isdigit():
            consumer.answered(int(tokens[5]), publish.data)
        if publish.reply:
            self._server.send(publish.reply, b"")
        return True

    def _flow(self, subject: str) -> bool:
        tokens = subject.split(".")
        stream = self._server.streams.get(tokens[2])
        consumer = stream.consumers.get(tokens[3]) if stream is not None and len(tokens) > 4 else None
        if isinstance(consumer, PushConsumer):
            consumer.flow(subject)
            return True
        return False

    def account(self, rest: list[str], body: Any) -> dict[str, Any]:
        """INFO: what the account uses."""
        streams = self._server.streams.values()
        used = sum(stream.bytes for stream in streams)
        return {
            "memory": 0,
            "storage": used,
            "streams": len(streams),
            "consumers": sum(len(stream.consumers) for stream in streams),
        }


def _stream_info(stream: Stream) -> dict[str, Any]:
    messages = stream.messages
    first = next(iter(messages.values()), None)
    newest = messages.get(stream.last)
    stamp = stream.server.timestamp
    return {
        "config": stream.config,
        "created": stamp(stream.created),
        "state": {
            "messages": len(messages),
            "bytes": stream.bytes,
            "first_seq": first.sequence if first is not None else stream.last and stream.last + 1,
            "first_ts": stamp(first.time) if first is not None else ZERO_TIME,
            "last_seq": stream.last,
            "last_ts": stamp(newest.time) if newest is not None else ZERO_TIME,
            "num_subjects": len(stream.by_subject),
            "consumer_count": len(stream.consumers),
        },
        "cluster": _cluster(stream),
        "ts": stamp(stream.server.unix_ns()),
    }


def _cluster(stream: Stream) -> dict[str, Any]:
    """A server of its own names itself; one of a cluster says since when the stream has its leader, too."""
    server = stream.server
    if not server.clustered:
        return {"leader": SERVER_NAME}
    leader = f"{SERVER_NAME}-{stream.leader % CLUSTER_SIZE}"
    return {"name": SERVER_NAME, "leader": leader, "leader_since": server.timestamp(stream.led_since)}


_VERBS: dict[str, Verb] = {
    "INFO": Api.account,
    "STREAM.CREATE": Api.stream_create,
    "STREAM.UPDATE": Api.stream_update,
    "STREAM.INFO": Api.stream_info,
    "STREAM.DELETE": Api.stream_delete,
    "STREAM.PURGE": Api.stream_purge,
    "STREAM.NAMES": Api.stream_names,
    "STREAM.MSG.GET": Api.message_get,
    "STREAM.MSG.DELETE": Api.message_delete,
    "CONSUMER.CREATE": Api.consumer_create,
    "CONSUMER.DURABLE.CREATE": Api.consumer_create,
    "CONSUMER.INFO": Api.consumer_info,
    "CONSUMER.DELETE": Api.consumer_delete,
    "CONSUMER.NAMES": Api.consumer_names,
}
