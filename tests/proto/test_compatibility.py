"""Messages that were recorded are read for ever: by the present code, with every field that they carry.

`recorded/<tag>.json` belongs to the version in the making and holds at least a `full` message, in which every field
differs from its default, and a `minimal` one; a new field is added to `full` together with the field.
`recorded/<version>/` is what a version wrote. It was closed with that version: its `SHA256SUMS` says how it was, and
nothing in it is ever edited, added or taken away.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from msgspec import inspect

from berth.contracts.base import Message
from berth.contracts.catalogue import CHANNELS
from berth.contracts.codec import decode, encode
from berth.contracts.errors import InvalidMessage

FOLDER = Path(__file__).parent / "recorded"
MESSAGES: dict[str, type[msgspec.Struct]] = {channel.tag: channel.message for channel in CHANNELS}


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """The recordings of one version, by tag."""
    return {path.name.removesuffix(".json"): json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


RECORDED = read(FOLDER)
CLOSED = {folder.name: read(folder) for folder in sorted(FOLDER.iterdir()) if folder.is_dir()}
CASES = [pytest.param(tag, name, id=f"{tag}-{name}") for tag, each in RECORDED.items() for name in each]
CLOSED_CASES = [
    pytest.param(version, tag, name, id=f"{version}-{tag}-{name}")
    for version, recorded in CLOSED.items()
    for tag, each in recorded.items()
    for name in each
]


def losses(recorded: dict[str, Any], kind: type[msgspec.Struct]) -> list[str]:
    """What a reader of this type no longer understands of a recorded message."""
    try:
        message = decode(json.dumps(recorded).encode(), kind)
    except InvalidMessage as error:
        return [str(error)]
    return list(_differences(recorded, json.loads(encode(message)), ""))


def _differences(then: Any, now: Any, path: str) -> Iterator[str]:
    if isinstance(then, dict) and isinstance(now, dict):
        for name, value in then.items():
            if name in now:
                yield from _differences(value, now[name], f"{path}.{name}")
            else:
                yield f"{path}.{name}: is lost"
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        for index, (one, other) in enumerate(zip(then, now, strict=True)):
            yield from _differences(one, other, f"{path}[{index}]")
    elif type(then) is not type(now) or then != now:
        yield f"{path}: was {then!r}, is {now!r}"


def carried(kind: inspect.Type, value: Any) -> Iterator[tuple[str, str]]:
    """(struct, field) of every field that a value carries, by the type that reads it."""
    match kind:
        case inspect.StructType(cls=cls, fields=fields) if isinstance(value, dict):
            for field in fields:
                if field.encode_name in value:
                    yield f"{cls.__module__}.{cls.__qualname__}", field.encode_name
                    yield from carried(field.type, value[field.encode_name])
        case inspect.ListType(item_type=item) if isinstance(value, list):
            for part in value:
                yield from carried(item, part)
        case inspect.DictType(value_type=item) if isinstance(value, dict):
            for part in value.values():
                yield from carried(item, part)
        case inspect.UnionType(types=members):
            for member in members:
                yield from carried(member, value)


def declared(kind: inspect.Type) -> Iterator[tuple[str, str]]:
    """(struct, field) of every field that a message of this type can carry."""
    match kind:
        case inspect.StructType(cls=cls, fields=fields):
            for field in fields:
                yield f"{cls.__module__}.{cls.__qualname__}", field.encode_name
                yield from declared(field.type)
        case inspect.ListType(item_type=item) | inspect.DictType(value_type=item):
            yield from declared(item)
        case inspect.UnionType(types=members):
            for member in members:
                yield from declared(member)


@pytest.mark.parametrize(("version", "tag", "name"), CLOSED_CASES)
def test_a_message_of_an_earlier_version_is_read_whole(version: str, tag: str, name: str) -> None:
    message = CLOSED[version][tag][name]
    assert message["type"] == tag
    assert tag in MESSAGES, "keep the old struct beside the new one: readers take both"
    assert losses(message, MESSAGES[tag]) == []


@pytest.mark.parametrize("version", sorted(CLOSED))
def test_what_a_version_recorded_is_never_edited(version: str) -> None:
    folder = FOLDER / version
    sums = dict(reversed(line.split()) for line in (folder / "SHA256SUMS").read_text().splitlines())
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.json")}
    assert found == sums


def test_a_version_is_recorded() -> None:
    assert CLOSED_CASES


def test_every_message_is_recorded() -> None:
    assert RECORDED.keys() >= MESSAGES.keys()


def test_no_recorded_message_has_lost_its_reader() -> None:
    """A tag goes only when nothing that was ever recorded carries it: keep the old struct beside the new one."""
    assert RECORDED.keys() <= MESSAGES.keys()


@pytest.mark.parametrize(("tag", "name"), CASES)
def test_a_recorded_message_is_read_whole(tag: str, name: str) -> None:
    assert RECORDED[tag][name]["type"] == tag
    assert losses(RECORDED[tag][name], MESSAGES[tag]) == []


@pytest.mark.parametrize("tag", sorted(RECORDED))
def test_a_minimal_message_is_written_as_it_was(tag: str) -> None:
    """No required field has been added, and no default is sent."""
    minimal = RECORDED[tag]["minimal"]
    assert json.loads(encode(decode(json.dumps(minimal).encode(), MESSAGES[tag]))) == minimal


@pytest.mark.parametrize("tag", sorted(MESSAGES))
def test_every_field_is_recorded(tag: str) -> None:
    kind = inspect.type_info(MESSAGES[tag])
    known = {place for message in RECORDED[tag].values() for place in carried(kind, message)}
    assert set(declared(kind)) - known == set(), f"add them to recorded/{tag}.json"


# --- the check itself notices ------------------------------------------------------------------------------------


def changed(tag: str, **types: Any) -> type[msgspec.Struct]:
    """The message with fields of other types; None removes a field, (type,) adds a required one."""
    kind = MESSAGES[tag]
    fields: dict[str, Any] = {
        field.name: (field.type, msgspec.NODEFAULT) if field.required else (field.type, field.default)
        for field in msgspec.structs.fields(kind)
    }
    for field in msgspec.structs.fields(kind):
        if not field.required and field.default is msgspec.NODEFAULT:
            fields[field.name] = (field.type, msgspec.field(default_factory=field.default_factory))
    for name, new in types.items():
        if new is None:
            del fields[name]
        elif isinstance(new, tuple):
            fields[name] = (new[0], msgspec.NODEFAULT)
        else:
            fields[name] = (new, fields[name][1])
    listed = [
        (name, new) if default is msgspec.NODEFAULT else (name, new, default) for name, (new, default) in fields.items()
    ]
    return cast(
        type[msgspec.Struct], msgspec.defstruct("Changed", listed, bases=(Message,), tag=tag, kw_only=True, frozen=True)
    )


@pytest.mark.parametrize(
    ("tag", "types", "loss"),
    [
        ("placement.bound.v1", {}, None),
        ("placement.bound.v1", {"gang": None}, ".gang: is lost"),
        ("placement.bound.v1", {"plan": None}, ".plan: is lost"),
        ("placement.bound.v1", {"gang": int}, "gang: Expected `int`, got `str`"),
        ("placement.bound.v1", {"latency_ms": str}, "latency_ms: Expected `str`, got `float`"),
        ("placement.bound.v1", {"cluster": (str,)}, "cluster: is missing"),
        ("epoch.raised.v1", {"pods_version": float}, ".pods_version: was 48211, is 48211.0"),
        ("quotagroup.set.v1", {"runtime": dict[str, str]}, "runtime[...]: Expected `str`, got `int`"),
    ],
)
def test_a_breaking_change_is_noticed(tag: str, types: dict[str, Any], loss: str | None) -> None:
    found = losses(RECORDED[tag]["full"], changed(tag, **types))
    assert found == ([] if loss is None else [loss])


def test_a_change_inside_is_noticed() -> None:
    found = list(_differences({"a": [{"b": 1, "c": 2}]}, {"a": [{"b": 1}]}, ""))
    assert found == [".a[0].c: is lost"]
    assert list(_differences({"a": [1, 2]}, {"a": [1]}, "")) == [".a: was [1, 2], is [1]"]
    assert list(_differences({"a": True}, {"a": 1}, "")) == [".a: was True, is 1"]
    assert list(_differences({"a": 1}, {"a": 1, "b": 2}, "")) == []
