"""The mark that profiles leave on a pod, so that they count once however often the webhook is called for it.

A pod that several entries of the configuration concern comes several times, each time as the last call left it, and
once more when another webhook has changed it. The mark says which labels and annotations profiles have written over
what, and what was drawn. So every later call finds what the first one found, and comes to the same result.

The mark is sealed with the pod's namespace. One that a user writes counts for nothing; one that is copied from another
pod says what that pod's author could have written, and no more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from berth.contracts.base import Problem
from berth.contracts.names import ANNOTATION_PROFILES
from berth.rules.admission.seal import Seal
from berth.rules.bounded_json import annotation_field, read_annotation

Written = dict[str, tuple[str | None, str | None]]
"""By key: the value before profiles, and the one that they left; None: absent."""
FIELD: Final = annotation_field(ANNOTATION_PROFILES)


class Mark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the annotation says."""

    profiles: list[str]
    draw: int
    labels: Written = {}
    annotations: Written = {}
    seal: str = ""

    def text(self, seal: Seal, namespace: str) -> str:
        """As the annotation has it, sealed."""
        sealed = msgspec.structs.replace(self, seal=seal.of(_content(self, namespace)))
        return msgspec.json.encode(sealed, order="sorted").decode()


class Original(NamedTuple):
    """Labels and annotations of a pod before any profile."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]


def read_mark(annotations: Mapping[str, str], seal: Seal, namespace: str) -> Mark | Problem | None:
    """The mark of a pod; None where there is none, a problem where it is none of ours."""
    mark = read_annotation(annotations, ANNOTATION_PROFILES, Mark)
    if mark is None or isinstance(mark, Problem):
        return mark
    if not seal.is_genuine(_content(mark, namespace), mark.seal):
        return Problem(field=FIELD, message="was not written by this webhook, and counts for nothing")
    return mark


def original(labels: Mapping[str, str], annotations: Mapping[str, str], mark: Mark) -> Original:
    """What was there before profiles; what others have written since then is taken as it is."""
    return Original(_before(labels, mark.labels), _before(annotations, mark.annotations))


def written(before: Mapping[str, str], now: Mapping[str, str]) -> Written:
    """What differs."""
    return {
        name: (before.get(name), now.get(name))
        for name in sorted({**before, **now})
        if name != ANNOTATION_PROFILES and before.get(name) != now.get(name)
    }


def _before(now: Mapping[str, str], changes: Written) -> dict[str, str]:
    found = {name: value for name, value in now.items() if name != ANNOTATION_PROFILES}
    for name, (old, new) in changes.items():
        if found.get(name) != new:
            continue
        if old is None:
            found.pop(name, None)
        else:
            found[name] = old
    return found


def _content(mark: Mark, namespace: str) -> bytes:
    return msgspec.json.encode([namespace, msgspec.structs.replace(mark, seal="")], order="sorted")
