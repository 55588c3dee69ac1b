"""METRICS, key `pressure.<node>`: whom a node's agent asks to have evicted, and why; written by that agent alone."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from berth.contracts.base import Integer, Message, Part

ASKS_MAX: Final = 64
MESSAGE_MAX: Final = 1_024
_Name = Annotated[str, Meta(max_length=253)]


class EvictionAsk(Part, frozen=True, kw_only=True):
    """One pod that is to leave, for one need.

    `number` tells this ask from an earlier one for the pod: it grows, and its answer repeats it. `need` names the
    crossing of a threshold, `feature` the rule by which the pod was chosen (`BEMemoryEvict`), `rank` its place among
    those who might leave, from 0. `release` is what the need wants, by resource, as the node is now, pods that are
    leaving among it; `counts` is what the pod counts for, both by `accumulator`: `podUsed` or `podResourceRequest`
    (thousandths of a core, bytes). `inputs` are the figures behind it, `message` is for people.
    """

    uid: _Name
    number: Integer
    need: _Name
    feature: _Name
    accumulator: _Name
    rank: Integer = 0
    release: dict[str, Integer] = {}
    counts: dict[str, Integer] = {}
    inputs: dict[str, Integer] = {}
    message: Annotated[str, Meta(max_length=MESSAGE_MAX)] = ""


class NodePressure(Message, frozen=True, kw_only=True, tag="nodepressure.set.v1"):
    """What an agent asks for now, in the order of need; an ask stays until its pod is gone, its answer was no, or the
    need is over.

    Written when an ask comes or goes, and every ten seconds while there is one: what is older than a minute, or was
    there before its reader, is nobody's need any more. `at` is unix seconds of the node's clock, for people.
    """

    node: str
    at: float
    asks: Annotated[list[EvictionAsk], Meta(max_length=ASKS_MAX)] = []
