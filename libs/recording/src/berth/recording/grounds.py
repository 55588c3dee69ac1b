"""Grounds: what a solver goes by for many plans, told in full, or as what another one has besides."""

from __future__ import annotations

import binascii
import hashlib
import zlib
from base64 import b64decode, b64encode
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from berth.contracts.base import Problem
from berth.contracts.round import Ground

KEPT_MAX: Final = 64
"""Grounds that are remembered at a time; those that were used longest ago go first."""
UNPACKED_MAX: Final = 64 << 20
"""Bytes that a packed field may come to: more is no list of nodes."""

_encode = msgspec.json.Encoder(order="sorted").encode


class Known(NamedTuple):
    """A ground, and the names of its nodes by place."""

    ground: Ground
    nodes: tuple[str, ...]


def pack(data: bytes) -> str:
    """Bytes as a field of a message."""
    return b64encode(zlib.compress(data, 6)).decode()


def unpack(text: str) -> bytes:
    """What was packed. Raises ValueError where nothing was."""
    try:
        inflater = zlib.decompressobj()
        data = inflater.decompress(b64decode(text, validate=True), UNPACKED_MAX)
    except (zlib.error, binascii.Error) as error:
        raise ValueError(f"is not packed: {error}") from error
    if not inflater.eof:
        raise ValueError("is cut off, or too large")
    return data


def pack_nodes(nodes: Sequence[str]) -> str:
    """Names of nodes as a field."""
    return pack("\n".join(nodes).encode()) if nodes else ""


def unpack_nodes(text: str) -> tuple[str, ...]:
    """The names. Raises ValueError."""
    return tuple(unpack(text).decode().split("\n")) if text else ()


def named(ground: Ground, nodes: Sequence[str]) -> Ground:
    """The ground in full under the id of its content: with these nodes, whatever it says of them."""
    digest = hashlib.blake2b(digest_size=9)
    digest.update(_encode(replace(ground, id="", after="", nodes="", renamed={})))
    for name in nodes:
        digest.update(name.encode())
        digest.update(b"\n")
    return replace(ground, id=b64encode(digest.digest(), b"-_").decode(), after="", nodes="", renamed={})


def told(ground: Ground, nodes: Sequence[str], before: Known | None = None) -> Ground:
    """How to tell a ground that `named` has made: as what is another thing than `before`, where that is little."""
    if before is not None and len(before.nodes) <= len(nodes):
        changed = {name: at for at, name in enumerate(nodes) if at >= len(before.nodes) or before.nodes[at] != name}
        if len(changed) * 8 <= len(nodes):
            return replace(ground, after=before.ground.id, renamed=changed)
    return replace(ground, nodes=pack_nodes(nodes))


class Grounds:
    """Those that were told, by id."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Known] = OrderedDict()

    def __iter__(self) -> Iterator[Known]:
        return iter(self._known.values())

    def take(self, ground: Ground) -> Problem | None:
        """Remember one that was told; what is wrong with it, if it cannot be used."""
        try:
            nodes = self._nodes(ground)
        except ValueError as error:
            return Problem(field="round.told.nodes", message=str(error)[:200])
        if nodes is None:
            return Problem(field="round.told.after", message=f"{ground.after[:40]} is not known")
        if named(ground, nodes).id != ground.id:
            return Problem(field="round.told.id", message=f"{ground.id[:40]} is not the name of its content")
        self._known[ground.id] = Known(replace(ground, after="", nodes="", renamed={}), nodes)
        self._known.move_to_end(ground.id)
        while len(self._known) > KEPT_MAX:
            self._known.popitem(last=False)
        return None

    def of(self, ground_id: str) -> Known | None:
        """The ground of an id; None: it was not told, or too long ago."""
        found = self._known.get(ground_id)
        if found is not None:
            self._known.move_to_end(ground_id)
        return found

    def _nodes(self, ground: Ground) -> tuple[str, ...] | None:
        if not ground.after:
            return unpack_nodes(ground.nodes)
        before = self.of(ground.after)
        if before is None:
            return None
        nodes = list(before.nodes)
        for name, at in sorted(ground.renamed.items(), key=lambda each: each[1]):
            if not 0 <= at <= len(nodes):
                raise ValueError(f"{name[:60]} has the place {at} of {len(nodes)}")
            if at == len(nodes):
                nodes.append(name)
            else:
                nodes[at] = name
        return tuple(nodes)
