"""Kubelet's list of its pods (`/pods`): the truth of the node, also while the API server is away."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from berth.contracts.base import Problem
from berth.contracts.kube import Pod
from berth.rules.bounded_json import read_json
from berth.rules.pod_reading import PodItem, parts_of
from berth.rules.salvage import Found

BYTES_MAX: Final = 64 << 20
_FIELD: Final = "pods"


class PodList(NamedTuple):
    """The pods, and what of them could not be read; such a pod is there without that part, or not at all where it has
    no name."""

    pods: tuple[Pod, ...] = ()
    problems: tuple[Problem, ...] = ()


class _List(msgspec.Struct, frozen=True):
    items: list[msgspec.Raw] | None = None


def read_pods(body: str) -> PodList | Problem:
    """What kubelet answers. A body that is no list is a problem of the whole."""
    read = read_json(body, _List, _FIELD, bytes_max=BYTES_MAX)
    if isinstance(read, Problem):
        return read
    pods: list[Pod] = []
    problems: list[Problem] = []
    for place, raw in enumerate(read.items or ()):
        field = f"{_FIELD}.items[{place}]"
        try:
            item = msgspec.json.decode(raw, type=PodItem)
        except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
            problems.append(Problem(field=field, message=f"is not readable: {error}"[:200]))
            continue
        found: Found = []
        spec, status = parts_of(item, found)
        problems += [Problem(field=f"{field}.{where}", message=message) for where, message in found]
        pods.append(Pod(metadata=item.metadata, spec=spec, status=status))
    return PodList(tuple(pods), tuple(problems))


def pods_now(before: tuple[Pod, ...], read: PodList | Problem) -> tuple[Pod, ...]:
    """Which pods count as those of the node after an answer: an error and an empty list keep those of before, since a
    kubelet that has just started answers with an empty list."""
    return before if isinstance(read, Problem) or not read.pods else read.pods
