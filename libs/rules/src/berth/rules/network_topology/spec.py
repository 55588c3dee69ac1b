"""What a gang asks of the network: the annotations `network-topology-spec` and `network-topology-index`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from berth.contracts.base import Problem
from berth.contracts.names import ANNOTATION_GANG_TOPOLOGY, ANNOTATION_GANG_TOPOLOGY_INDEX
from berth.rules.bounded_json import annotation_field, read_annotation
from berth.rules.network_topology.layers import LAYERS_MAX, ROOT
from berth.rules.numbers import parse_integer

MUST: Final = "MustGather"
PREFER: Final = "PreferGather"
NUMBER_MAX: Final = 2**31 - 1
FIELD: Final = annotation_field(ANNOTATION_GANG_TOPOLOGY)
INDEX_FIELD: Final = annotation_field(ANNOTATION_GANG_TOPOLOGY_INDEX)


class GatherRule(NamedTuple):
    """What is asked of one layer: `MustGather` or `PreferGather`, and the multiple of pods in each domain (1: any)."""

    layer: str
    strategy: str
    multiple: int = 1


class GatherSpec(NamedTuple):
    """The rules of a gang by layer; or why they cannot be used."""

    rules: tuple[GatherRule, ...] = ()
    problem: Problem | None = None

    def beyond(self, layers: Sequence[str]) -> Problem | None:
        """What it says of a layer that there is none of. `layers`: all, from the top down."""
        for at, rule in enumerate(self.rules):
            if rule.layer not in layers and rule.layer != ROOT:
                known = ", ".join(layers)
                return _problem(f".gatherStrategy[{at}].layer", f"{rule.layer!r} is no layer of the network ({known})")
        return None


class _Rule(msgspec.Struct, rename="camel"):
    layer: str = ""
    strategy: str = ""
    pod_count_multiple: int = 0


class _Spec(msgspec.Struct, rename="camel"):
    gather_strategy: list[_Rule] = []


def read_spec(annotations: Mapping[str, str]) -> GatherSpec | None:
    """What the annotations of a PodGroup or a member ask for; None: nothing of the network."""
    if ANNOTATION_GANG_TOPOLOGY not in annotations:
        return None
    read = read_annotation(annotations, ANNOTATION_GANG_TOPOLOGY, _Spec)
    if read is None:
        return GatherSpec(problem=_problem("", "is empty"))
    if isinstance(read, Problem):
        return GatherSpec(problem=read)
    if len(read.gather_strategy) > LAYERS_MAX:
        return GatherSpec(problem=_problem(".gatherStrategy", f"has more than {LAYERS_MAX} rules"))
    rules: list[GatherRule] = []
    for at, each in enumerate(read.gather_strategy):
        field = f".gatherStrategy[{at}]"
        if not each.layer:
            return GatherSpec(problem=_problem(f"{field}.layer", "is missing"))
        if any(rule.layer == each.layer for rule in rules):
            return GatherSpec(problem=_problem(f"{field}.layer", f"{each.layer!r} has a rule already"))
        if each.strategy not in (MUST, PREFER):
            return GatherSpec(problem=_problem(f"{field}.strategy", f"must be {MUST} or {PREFER}"))
        if not 0 <= each.pod_count_multiple <= NUMBER_MAX:
            return GatherSpec(
                problem=_problem(f"{field}.podCountMultiple", f"must be an integer from 0 to {NUMBER_MAX}")
            )
        rules.append(GatherRule(each.layer, each.strategy, max(1, each.pod_count_multiple)))
    return GatherSpec(tuple(rules))


def index_problem(annotations: Mapping[str, str]) -> Problem | None:
    """Why the rank of a member cannot be used; None: it can, or there is none."""
    text = annotations.get(ANNOTATION_GANG_TOPOLOGY_INDEX)
    number = parse_integer(text, bits=32) if text else 0
    if number is not None and number >= 0:
        return None
    return Problem(field=INDEX_FIELD, message=f"must be an integer from 0 to {NUMBER_MAX}")


def must_gather_layer(rules: Iterable[GatherRule], layers: Sequence[str]) -> str:
    """The lowest layer that the pods have to stay in one domain of; the whole cluster where there is none.

    `layers` from the top down. A layer that is not among them counts as above all that are.
    """
    depth = {name: at for at, name in enumerate(layers, 1)}
    must = [each.layer for each in rules if each.strategy == MUST]
    return max(must, key=lambda layer: depth.get(layer, 0), default=ROOT)


def _problem(path: str, message: str) -> Problem:
    return Problem(field=FIELD + path, message=message)
