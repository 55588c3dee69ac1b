"""From the API server's bytes to the caller's structs, one object at a time.

An object that does not fit the caller's struct is reported as `Malformed`, with its name, uid and version read by a
struct that wants nothing else; the objects around it are unaffected. Bytes of which not even those can
be read have no key: a reader of a stream cannot know what it missed and has to list again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from berth.contracts.kube import AnyObject, Meta
from berth.kube.resources import key_of

MESSAGE_LENGTH_MAX = 300
VERSION_DIGITS_MAX = 20
DEPTH_MAX = 10_000
"""How deep the objects nest that an API server takes."""


class VersionError(ValueError):
    """A resource version that is not a number, so that it cannot be compared."""


class HasMeta(Protocol):
    """What a caller's struct must have: the metadata of `berth.contracts.kube`."""

    @property
    def metadata(self) -> Meta:
        """Name, namespace, uid, resource version and so on."""


T = TypeVar("T", bound=HasMeta)
D = TypeVar("D")


class Decoded(NamedTuple, Generic[T]):
    """A readable object; `version` is its resource version as an integer."""

    item: T
    key: str
    version: int


class Malformed(NamedTuple):
    """An object that could not be read: where, and what is wrong there.

    `key`, `uid` and `version` are empty (0) when not even they could be read.
    """

    key: str
    uid: str
    version: int
    field: str
    message: str


class _ListMeta(msgspec.Struct, frozen=True, rename={"version": "resourceVersion", "token": "continue"}):
    version: str = "0"
    token: str = ""


class Page(msgspec.Struct, frozen=True):
    """One page of a list, its objects still undecoded."""

    metadata: _ListMeta = _ListMeta()
    items: list[msgspec.Raw] | None = None


class Envelope(msgspec.Struct, frozen=True):
    """One line of a watch, its object still undecoded."""

    type: str
    object: msgspec.Raw


class _Identity(msgspec.Struct, frozen=True, rename={"version": "resourceVersion"}):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    version: str = ""


class _Identified(msgspec.Struct, frozen=True):
    metadata: _Identity


_PAGE = msgspec.json.Decoder(Page)
_ENVELOPE = msgspec.json.Decoder(Envelope)
_IDENTIFIED = msgspec.json.Decoder(_Identified)
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, VersionError)


def read_page(body: bytes) -> Page | None:
    """The page in a list's body, None if it is not one."""
    try:
        return _deeply(_PAGE.decode, body)
    except _UNREADABLE:
        return None


def read_envelope(line: bytes) -> Envelope | Malformed:
    """The watch event in a line."""
    try:
        return _deeply(_ENVELOPE.decode, line)
    except _UNREADABLE as error:
        return Malformed("", "", 0, *place_of(error))


def read_identity(raw: bytes | msgspec.Raw) -> Decoded[AnyObject] | Malformed:
    """Only name, namespace, uid and resource version of an object, whatever else is wrong with it."""
    try:
        known = _deeply(_IDENTIFIED.decode, raw).metadata
    except _UNREADABLE as error:
        return Malformed("", "", 0, *place_of(error))
    if not known.name:
        return Malformed("", "", 0, "metadata.name", "missing")
    try:
        version = parse_version(known.version)
    except VersionError as error:
        return Malformed(key_of(known.namespace, known.name), known.uid, 0, *place_of(error))
    meta = Meta(name=known.name, namespace=known.namespace, uid=known.uid, resource_version=known.version)
    return Decoded(AnyObject(metadata=meta), key_of(known.namespace, known.name), version)


def read_bookmark(raw: bytes | msgspec.Raw) -> int | Malformed:
    """The resource version of a bookmark, whose object has nothing else."""
    try:
        return parse_version(_IDENTIFIED.decode(raw).metadata.version)
    except _UNREADABLE as error:
        return Malformed("", "", 0, *place_of(error))


def _deeply(decode: Callable[[bytes | msgspec.Raw], D], raw: bytes | msgspec.Raw) -> D:
    """What `decode` makes of it, however deep it nests: one object must not hide those around it."""
    try:
        return decode(raw)
    except RecursionError:
        usual = sys.getrecursionlimit()
        sys.setrecursionlimit(usual + DEPTH_MAX)
        try:
            return decode(raw)
        finally:
            sys.setrecursionlimit(usual)


class ObjectDecoder(Generic[T]):
    """Decodes objects of one kind."""

    def __init__(self, item_type: type[T]) -> None:
        self._decoder = msgspec.json.Decoder(item_type)

    def read(self, raw: bytes | msgspec.Raw) -> Decoded[T] | Malformed:
        """The object in `raw`."""
        try:
            item = self._decoder.decode(raw)
            meta = item.metadata
            return Decoded(item, key_of(meta.namespace, meta.name), parse_version(meta.resource_version))
        except _UNREADABLE as error:
            field, message = place_of(error)
        known = read_identity(raw)
        if isinstance(known, Malformed):
            return known
        return Malformed(known.key, known.item.metadata.uid, known.version, field, message)


def parse_version(text: str) -> int:
    """A resource version; the empty text is 0. Raises VersionError for anything but digits, at most 20."""
    if not text:
        return 0
    if len(text) > VERSION_DIGITS_MAX or not (text.isascii() and text.isdigit()):
        raise VersionError(f"resource version {text[:40]!r} is not a number")
    return int(text)


def place_of(error: Exception) -> tuple[str, str]:
    """Path of the field that an error is about (empty for the whole), and what is wrong there."""
    if isinstance(error, RecursionError):
        return "", "nested too deeply"
    if isinstance(error, VersionError):
        return "metadata.resourceVersion", str(error)
    text, _, path = str(error).partition(" - at `")
    return path.removesuffix("`").removeprefix("$").lstrip("."), text[:MESSAGE_LENGTH_MAX]
