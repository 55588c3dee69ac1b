"""What a pod asks of a node's devices, as the solver asks about many nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from berth.placement_solver.core.devices.kubelet_counts import Number
from berth.rules.devices.columns import FAMILIES, GPU
from berth.rules.devices.hints import NO_HINT
from berth.rules.devices.joint import Chosen
from berth.rules.devices.request import DeviceRequest
from berth.rules.devices.slots import NoCapacity
from berth.rules.devices.split import Split
from berth.rules.devices.want import Want, gpu_want, want_on
from berth.rules.gpu_request import WHOLE_CARDS
from berth.rules.numa.hints import Hints
from berth.rules.records import registry

KNOWN_MAX: Final = 1024
"""Of so many nodes it is remembered what they said last."""
Answer: TypeAlias = Chosen | NoCapacity


@dataclass(frozen=True, eq=False, slots=True)
class DeviceQuery:
    """A request, and what makes it quick.

    `cards` is what it takes of how many GPUs, for prices. `least` is by family what a node must have free to be worth
    a look. `is_plain`: GPUs alone, any of them, so that `cards` says all. `number` is what a vendor's count asks for,
    `names` are the device names that are asked for. `known` and `known_hints` are what nodes said last, by row, each
    with the version of its devices then.
    """

    request: DeviceRequest
    cards: Want | None
    least: tuple[tuple[str, Want], ...]
    is_plain: bool
    number: Number | None = None
    names: tuple[str, ...] = ()
    known: dict[int, tuple[int, Answer]] = field(default_factory=dict)
    known_hints: dict[int, tuple[object, Hints]] = field(default_factory=dict)

    @property
    def takes_cards(self) -> bool:
        """Whether GPUs are among what is asked for."""
        return GPU.name in self.request.amounts

    def remember(self, row: int, version: int, answer: Answer) -> None:
        """Keep what a node said."""
        if len(self.known) >= KNOWN_MAX:
            self.known.clear()
        self.known[row] = version, answer

    def remember_hints(self, row: int, version: object, hints: Hints) -> None:
        """Keep on which NUMA nodes of a node the devices could lie."""
        if len(self.known_hints) >= KNOWN_MAX:
            self.known_hints.clear()
        self.known_hints[row] = version, hints


def query_of(request: DeviceRequest, requests: Mapping[str, int]) -> DeviceQuery:
    """The query of a request for some device, which was read of these `requests`."""
    least = tuple((kind, _least(kind, request)) for kind in FAMILIES if request.amounts.get(kind))
    cards = next((want for kind, want in least if kind == GPU.name), None)
    if request.split is not None:
        cards = _evened(request.split)
    is_plain = request.amounts.keys() == {GPU.name} and request == DeviceRequest(
        request.amounts, joint=request.joint, hints=dict.fromkeys(request.hints, NO_HINT)
    )
    asked = tuple(sorted(name for name in registry.GRANTED_RESOURCES & requests.keys() if requests[name] > 0))
    counted = next((name for name in asked if name in WHOLE_CARDS), None)
    number = Number(counted, requests[counted], is_plain) if counted is not None else None
    return DeviceQuery(request, cards, least, is_plain, number, asked)


def _least(kind: str, request: DeviceRequest) -> Want:
    """What some node must have at least: of a type of which all devices are taken, one of them."""
    amounts = request.amounts[kind]
    want = gpu_want(amounts) if kind == GPU.name else want_on(kind, amounts, (), request.hints.get(kind, NO_HINT))
    if isinstance(want, Want):
        return want
    family = FAMILIES[kind]
    return Want(family, family.vector(amounts), 1)


def _evened(split: Split) -> Want:
    """As much as it takes in all, evenly: near enough for a price."""
    cards = min(split.cards, -(-split.percent // 100)) if split.percent >= 100 else 1
    percent = split.percent // cards
    return Want(GPU, split.amounts(percent), cards, shared=percent < 100)
