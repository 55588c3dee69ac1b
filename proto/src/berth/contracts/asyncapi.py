"""The AsyncAPI 3 document of everything on the bus, built from the catalogue.

It describes the bus from outside, for programs of other people: what can be followed (`receive`), and what can be asked
(`send`, with its reply). Who of Berth writes a channel is named by `x-berth-writers`. Schemas are inlined, so that the
document is whole by itself; the same are in `schemas/`, one file a message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from berth.contracts import buckets
from berth.contracts.catalogue import CHANNELS, Channel
from berth.contracts.subjects import PREFIX

ASYNCAPI = "3.0.0"
CONTRACT = PREFIX.rpartition(".")[2].removeprefix("v") + ".0.0"
"""The contract's version: its major number is that of the subjects; what is added to it never breaks a reader."""
_STREAMS = (buckets.COMMANDS, buckets.EVENTS)
_ALL = ".all"
_DESCRIPTION = """\
What Berth's services say to each other, and to you, over NATS with JetStream.

Every message is one JSON object; its field `type` is its tag. Fields at their default are left out, and later versions
may add fields: read with defaults, ignore what you do not know. Parameters of addresses are names in which letters,
digits and `-` stand for themselves, a dot is `_`, the empty name `=`, any other byte `=` and two hex digits. Addresses
that begin with `$KV.` are keys of a JetStream key-value bucket, best read with your client's key-value functions."""
_PARAMETERS = {
    "account": "What a commit is charged to, several tokens: node.<name>, quota.<tree>.<group> or reservation.<name>.",
    "class": "Which pods hooks are asked about at once, a hash of what they see of them.",
    "epoch": "Number of the ledger's life.",
    "group": "Name of a quota group.",
    "id": "Identifier of a plan.",
    "kind": "Plural of a kind, such as pods.",
    "name": "Name of the object, escaped.",
    "namespace": "Namespace of the object, escaped; `=` means that it has none.",
    "node": "Name of a node, escaped.",
    "phase": "The phase, in lower case.",
    "plan": "Identifier of a plan.",
    "pod": "Name of a pod, escaped.",
    "solver": "Name of an instance of placement-solver, escaped.",
    "service": "Name of a service, such as placement-solver.",
    "tree": "Name of a quota tree; `=` is the one without a name.",
}


def document() -> dict[str, Any]:
    """The document, ready to be encoded."""
    payloads, schemas = msgspec.json.schema_components(
        list(_messages().values()), ref_template="#/components/schemas/{name}"
    )
    messages = {
        tag: {"name": tag, "title": kind.__name__, "summary": _summary(kind), "payload": payload}
        for (tag, kind), payload in zip(_messages().items(), payloads, strict=True)
    }
    channels: dict[str, Any] = {}
    operations: dict[str, Any] = {}
    for rows in _addresses():
        _add(channels, operations, rows)
    return {
        "asyncapi": ASYNCAPI,
        "info": {
            "title": "Berth",
            "version": CONTRACT,
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {
            "bus": {
                "host": "{host}:4222",
                "protocol": "nats",
                "description": "nats-server with JetStream; the host is where your installation has it.",
                "variables": {"host": {"default": "127.0.0.1"}},
            }
        },
        "channels": channels,
        "operations": operations,
        "components": {"messages": messages, "schemas": schemas},
    }


def address(row: Channel) -> str:
    """The subject of a row of the catalogue, with parameters in braces."""
    subject = row.pattern if row.place in _STREAMS or _is_asked(row) else f"$KV.{row.place}.{row.pattern}"
    return re.sub("<([a-z]+)>", r"{\1}", subject)


def channel_id(row: Channel) -> str:
    """Its name in the document: place and fixed tokens of the pattern, such as `berth_evt.placement.bound`."""
    tokens = row.pattern.removeprefix(f"{PREFIX}.").split(".")
    fixed = [token for token in tokens if "<" not in token]
    place = "svc" if _is_asked(row) else row.place.lower()
    if _is_asked(row) or row.place in _STREAMS:
        fixed = fixed[1:]
    return ".".join([place, *fixed])


def _is_asked(row: Channel) -> bool:
    return row.place in ("request", "reply")


def _messages() -> dict[str, type[msgspec.Struct]]:
    return {row.tag: row.message for row in CHANNELS}


def _summary(kind: type[msgspec.Struct]) -> str:
    """The first paragraph of its docstring, on one line."""
    return " ".join((kind.__doc__ or "").split("\n\n")[0].split())


def _addresses() -> Iterator[list[Channel]]:
    """The rows of the catalogue, those of one address together."""
    found: dict[str, list[Channel]] = {}
    for row in CHANNELS:
        found.setdefault(address(row), []).append(row)
    yield from found.values()


def _add(channels: dict[str, Any], operations: dict[str, Any], rows: list[Channel]) -> None:
    first = rows[0]
    name = channel_id(first)
    channel = {
        "address": address(first),
        "title": name,
        "description": _place(first),
        "messages": {row.tag: {"$ref": f"#/components/messages/{row.tag}"} for row in rows},
        "x-berth-writers": sorted({row.writer for row in rows}),
    }
    if parameters := re.findall("<([a-z]+)>", first.pattern):
        channel["parameters"] = {
            each: {"description": _PARAMETERS.get(each, f"Name of the {each}, escaped.")} for each in parameters
        }
    if not _is_asked(first):
        channels[name] = channel
        operations[f"receive.{name}"] = _operation("receive", name, [row.tag for row in rows])
        return
    for suffix, more in (("", "one instance answers"), (_ALL, "each instance answers")):
        channels[name + suffix] = {
            **channel,
            "address": address(first) + suffix,
            "title": name + suffix,
            "description": f"{channel['description']}; {more}.",
        }
        operations[f"send.{name}{suffix}"] = _question(name + suffix, rows)


def _place(row: Channel) -> str:
    if _is_asked(row):
        return "A question and its answer; nothing is kept"
    if row.place in _STREAMS:
        return f"Kept in the stream {row.place}."
    return f"A key of the bucket {row.place}: the last value is kept."


def _operation(action: str, channel: str, tags: list[str]) -> dict[str, Any]:
    return {
        "action": action,
        "channel": {"$ref": _ref(channel)},
        "messages": [{"$ref": f"{_ref(channel)}/messages/{tag}"} for tag in tags],
    }


def _question(channel: str, rows: list[Channel]) -> dict[str, Any]:
    asked = [row.tag for row in rows if row.place == "request"]
    answered = [row.tag for row in rows if row.place == "reply"]
    answer = _operation("", channel, answered)
    del answer["action"]
    return {**_operation("send", channel, asked), "reply": answer}


def _ref(channel: str) -> str:
    return f"#/channels/{channel}"
