"""What a kind of record is: the annotations it lies in, how they are written at a bind, and how they are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol, TypeVar

import msgspec

from berth.contracts.ledger import Grant, Loan
from berth.contracts.state import Device, PodTemplate

RECORD_LENGTH_MAX: Final = 256 * 1024

T = TypeVar("T")


class Bound(NamedTuple):
    """What an object is bound with, of which each kind writes its part.

    `reservation` is the name of the one that it draws on. `gang_size` counts the members that its plan holds. `uuids`
    are what the node calls what is granted, by kind and id of the grant; what has none is left out. `resource_spec` is
    what the pod's annotation of that name says once what it left to a default is written out; empty: it stays as it is.
    `template` is a pod's; who has no containers, as a Reservation, has an empty one. `loans` are what it borrows.
    `surcharge` is what its quota group is charged beyond the request.
    """

    plan: str
    grants: tuple[Grant, ...] = ()
    quota: str = ""
    reservation: str = ""
    reservation_uid: str = ""
    gang: str = ""
    gang_size: int = 0
    uuids: Mapping[tuple[str, str], str] = {}
    resource_spec: str = ""
    template: PodTemplate = PodTemplate()
    loans: tuple[Loan, ...] = ()
    surcharge: Mapping[str, int] = {}


class Record(Protocol):
    """A kind of record.

    `annotations` are its names; a bind writes `nothing` over each of them that it does not write otherwise.
    """

    annotations: tuple[str, ...]
    nothing: str

    def write(self, bound: Bound) -> dict[str, str]:
        """The annotations of an object that is bound with this; none where it says nothing of this kind."""


class GrantRecord(Record, Protocol):
    """A kind of record that says what was granted within a node.

    `name` is what texts call all that: who holds some of it and has no record that can be read keeps everybody from it
    on that node. `kinds` are those of its grants. `resources` are what pods ask for it by: what is free of them on a
    node says nothing, since they are given out one by one.
    """

    name: str
    kinds: frozenset[str]
    resources: frozenset[str]

    def asks(self, template: PodTemplate) -> bool:
        """Whether such a pod holds some, so that a record of it that says nothing keeps others off."""

    def unknown(self, amounts: Mapping[str, int]) -> str:
        """What texts call that which a pod with this request and without a record holds: `name`, or what of it."""

    def blocks(self, unknown: str) -> frozenset[str]:
        """The kinds of which nothing can be given out while somebody holds that unknown thing; none: it is of
        another record."""

    def read(self, annotations: Mapping[str, str]) -> tuple[Grant, ...] | None:
        """The grants as written, none where the record is absent; None when it cannot be read."""

    def completed(self, grants: tuple[Grant, ...], template: PodTemplate) -> tuple[Grant, ...]:
        """The grants of a record, with what the template of its pod or Reservation alone says of them."""

    def within(self, grants: tuple[Grant, ...], template: PodTemplate) -> tuple[Grant, ...]:
        """Of these grants those that the pod's request explains, with no more of each than it asks for."""

    def held(self, grants: tuple[Grant, ...], template: PodTemplate) -> tuple[Grant, ...]:
        """What a bound pod holds by these grants of its record: of each no less than it asks for, and no more; none
        where they are fewer than it asks for."""

    def whole(self, kind: str, resource: str) -> int | None:
        """How much one of this kind has of a resource, where all have the same; None: only its node says."""

    def called(self, grant: Grant) -> str:
        """How texts call what was granted."""

    def broken(self, grant: Grant, device: Device | None) -> str:
        """What is wrong with it, by the Device object of its node, if there is one; empty: nothing."""


def read_json(decoder: msgspec.json.Decoder[T], text: str) -> T | None:
    """The text of an annotation that anybody may have written; None when it cannot be read."""
    if len(text) > RECORD_LENGTH_MAX:
        return None
    try:
        return decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
