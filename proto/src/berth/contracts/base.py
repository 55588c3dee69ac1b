"""The common shape of messages: frozen, keyword-only, tagged with noun, verb and version, small on the wire."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

Integer: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""An integer of a message. One that does not fit 64 bits is refused while it is read, so that no core meets it."""


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """A message that travels alone. Subclasses set `tag="noun.verb.vN"`; defaults are left out on the wire."""


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of a message, without a tag of its own."""


class Problem(Part, frozen=True, kw_only=True):
    """Something in an object that Berth cannot use: the path of the field and what is wrong with it."""

    field: str
    message: str


class Reason(Part, frozen=True, kw_only=True):
    """One reason for a refusal, with how many nodes it rules out and what would make it go away.

    `code` is stable and short: the constraint that rejects (`NodeResourcesFit`), `unsupported`, `invalid`, `quota`;
    `message` is a sentence for people, `nodes` how many nodes it ruled out (0 when it concerns no node), `field` the
    path in the pod when one field is to blame, `repair` the smallest change known to help, empty when none is known.
    """

    code: str
    message: str
    nodes: Integer = 0
    field: str = ""
    repair: str = ""
