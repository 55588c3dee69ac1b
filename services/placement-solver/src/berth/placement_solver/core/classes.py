"""Pod classes: pods that ask for the same are one class, so that a thousand replicas are judged once.

A class carries everything compiled: request as columns, device wish, node rule, tolerations. What the rules cannot
accept, or Berth does not support yet, is a reason of the class, so that every such pod is refused by name.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from berth.contracts import names
from berth.contracts.base import Problem, Reason
from berth.contracts.state import PodTemplate
from berth.placement_solver.core.constraints.node_resources_fit import Demand
from berth.placement_solver.core.devices import Want
from berth.placement_solver.core.lowest import Lowest
from berth.placement_solver.core.policy import Policy
from berth.placement_solver.core.price import Price
from berth.placement_solver.core.profiles import Profiles
from berth.placement_solver.core.rated_rows import Rating
from berth.placement_solver.core.reasons import invalid, refusals_of, unsupported
from berth.placement_solver.core.registry import Asked, Chosen, Registry
from berth.placement_solver.core.seams import Depends, Spec

CLASSES_MAX: Final = 4096
ROWS_BYTES_MAX: Final = 512 << 20

DEVICE_ANNOTATIONS: Final = (
    names.ANNOTATION_DEVICE_HINT,
    names.ANNOTATION_DEVICE_JOINT,
    names.ANNOTATION_GPU_PARTITION_SPEC,
    names.ANNOTATION_GPU_SPLIT,
)
"""Annotations that say more about the devices that a pod asks for."""
DEVICE_LABELS: Final = (names.LABEL_GPU_ISOLATION,)
"""Labels that do."""
UNSUPPORTED_RESOURCES: Final = "nvidia.com/mig-"
"""Resources that are MIG instances. Their GPUs are not given out, so there is nothing to count them against."""


@dataclass(eq=False)
class PodClass:
    """One class, compiled against the columns of `Nodes`. The caches belong to `core.cost` and `core.explain`.

    `asked` is what constraints say of all its pods, in the order of the registry; `by_node` and `by_capacity` are the
    parts that change with what a node is, and with what is free on it. `demand` and `want` are what it takes, `chosen`
    who chooses what it is granted within a node, `rules` those of its profile, `ratings` what the scores say that count
    for it.
    """

    index: int
    template: PodTemplate
    requests: Mapping[str, int]
    rules: Registry
    asked: tuple[Asked, ...]
    demand: Demand
    want: Want | None
    chosen: tuple[Chosen, ...]
    ratings: list[Rating]
    refusals: list[Reason]
    by_node: tuple[Asked, ...] = ()
    by_capacity: tuple[Asked, ...] = ()
    suitable: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    suitable_at: int = 0
    policy: Policy | None = None
    price: Price | None = None
    cost: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0, np.float64))
    cost_at: int = 0
    ranked: Lowest | None = None
    ranked_for: tuple[bool, int, int] = (False, -1, 0)
    ranked_at: int = 0
    untold: tuple[Reason, ...] = ()
    """Its constraints as reasons without words."""
    nowhere: tuple[Reason, ...] = ()
    """Why no node took it when `cost_at` was `nowhere_at`."""
    nowhere_at: int = -1

    def __post_init__(self) -> None:
        self.by_capacity = tuple(each for each in self.asked if Depends.CAPACITY in each[0].depends)
        self.by_node = tuple(each for each in self.asked if Depends.CAPACITY not in each[0].depends)

    @property
    def rows_bytes(self) -> int:
        """How much memory takes what it keeps for each node."""
        size = self.cost.nbytes + self.suitable.nbytes
        if self.ranked is not None:
            size += self.ranked.nbytes
        for each in self.ratings:
            if each.values is not None:
                size += each.values.nbytes
        return size

    def drop_rows(self) -> None:
        """Keep nothing for each node; it is worked out again when it is asked for."""
        self.cost, self.suitable = self.cost[:0].copy(), self.suitable[:0].copy()
        self.ranked = None
        for each in self.ratings:
            each.forget()


class _Key(msgspec.Struct, frozen=True, omit_defaults=True, array_like=True):
    profile: str
    requests: dict[str, int]
    node_selector: dict[str, str]
    affinity: object
    tolerations: object
    ports: object
    constraints: object
    notes: dict[str, str]
    qos: str
    scored: object
    images: object


_encode = msgspec.json.Encoder(order="sorted").encode


class ClassTable:
    """Interns templates. Bounded: the class used longest ago is dropped, and compiled again when it comes back.

    What the classes keep for each node takes at most `rows_bytes_max` bytes in all, beside that of the class in use.
    """

    def __init__(self, profiles: Profiles, rows_bytes_max: int = ROWS_BYTES_MAX) -> None:
        self._profiles = profiles
        self._classes: OrderedDict[bytes, PodClass] = OrderedDict()
        self._made = 0
        self._rows_bytes_max = rows_bytes_max
        self._sizes: OrderedDict[PodClass, int] = OrderedDict()  # of those with rows, used longest ago first
        self.rows_bytes = 0
        """What is kept for each node takes so many bytes."""

    def of(self, template: PodTemplate, problems: list[Problem]) -> PodClass:
        """The class of a pod; problems found at the door become its refusals."""
        annotations, labels = template.annotations, template.labels
        notes: dict[str, str] = {}
        if annotations:
            notes |= {name: annotations[name] for name in DEVICE_ANNOTATIONS if name in annotations}
        if labels:
            notes |= {name: labels[name] for name in DEVICE_LABELS if name in labels}
        rules = self._profiles.of(template.scheduler)
        notes |= rules.cores.notes_of(template)
        by_score = rules.decides_by_score
        key = _encode(
            (
                _Key(
                    rules.profile.scheduler_name,
                    template.requests,
                    template.node_selector,
                    template.affinity and template.affinity.node_affinity,
                    template.tolerations,
                    template.host_ports,
                    template.constraints,
                    notes,
                    template.labels.get(names.LABEL_QOS, ""),
                    template.scored if by_score else None,
                    template.images if by_score else None,
                ),
                problems,
            )
        )
        found = self._classes.get(key)
        if found is not None:
            self._classes.move_to_end(key)
            return found
        self._classes[key] = made = self._compile(template, problems, rules)
        if len(self._classes) > CLASSES_MAX:
            _, dropped = self._classes.popitem(last=False)
            self._drop_rows(dropped)
        return made

    def forget(self) -> None:
        """The profiles changed: every class is compiled again when it comes back."""
        self._classes.clear()
        for cls in list(self._sizes):
            self._drop_rows(cls)

    def keep(self, cls: PodClass) -> None:
        """The class has worked out what it keeps for each node; others make way if it is too much in all."""
        size = cls.rows_bytes
        self.rows_bytes += size - self._sizes.get(cls, 0)
        self._sizes[cls] = size
        self._sizes.move_to_end(cls)
        while self.rows_bytes > self._rows_bytes_max and len(self._sizes) > 1:
            self._drop_rows(next(iter(self._sizes)))

    def _drop_rows(self, cls: PodClass) -> None:
        self.rows_bytes -= self._sizes.pop(cls, 0)
        cls.drop_rows()

    def __iter__(self) -> Iterator[PodClass]:
        return iter(self._classes.values())

    def _compile(self, template: PodTemplate, problems: list[Problem], rules: Registry) -> PodClass:
        spec = Spec(("", ""), "", "", template)
        compiled = rules.compile_class(spec)
        queries = {constraint.name: query for constraint, query in compiled.asked}
        devices = queries.get(rules.device_share.name)
        self._made += 1
        return PodClass(
            index=self._made,
            template=template,
            requests=template.requests,
            asked=compiled.asked,
            rules=rules,
            demand=queries.get(rules.fit.name) or rules.fit.prefilter(spec),
            want=devices.cards if devices is not None else None,
            chosen=tuple((each, queries[each.constraint]) for each in rules.allocators if each.constraint in queries),
            ratings=[
                Rating(each.score, each.weight, query)
                for each in rules.scores_for(rules.scores_of_class, template)
                if (query := each.score.prescore(spec)) is not None
            ],
            refusals=[*map(invalid, problems), *refusals_of(compiled), *map(unsupported, _beyond(template))],
        )


def _beyond(template: PodTemplate) -> Iterator[str]:
    """Paths of what the pod asks for and Berth does not do yet."""
    yield from template.constraints
    for name in sorted(template.requests):
        if name.startswith(UNSUPPORTED_RESOURCES) and template.requests[name] > 0:
            yield f"resources.requests[{name}]"
