"""What each plan was made from, as its entry in the ledger says it (`berth.contracts.round`).

`answers` and `prices` are the parts of it that are read back; `remaking` makes the plan again.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from berth.bus.port import Clock
from berth.contracts.codec import MESSAGE_BYTES_MAX
from berth.contracts.round import Answer, Arriving, Ground, Round
from berth.placement_solver.origins.answers import is_too_large, joined
from berth.recording.grounds import Known, named, pack, told
from berth.transaction.claims import Name

if TYPE_CHECKING:
    from berth.placement_solver.cluster_view import ClusterView
    from berth.placement_solver.core.price import Basis

TOLD_AGAIN_S: Final = 300.0
"""The ground is told in full so often, for who has begun to listen."""
TOLD_BYTES_MAX: Final = MESSAGE_BYTES_MAX * 3 // 4
SCARCITIES_MAX: Final = 256
LATE_MAX: Final = 256
"""Members of gangs that a plan names which came late."""
VERSION: Final = version("berth-placement-solver")


class Made(NamedTuple):
    """How a plan was made, by who made it: see `Round`."""

    kind: str = "batch"
    groups: Mapping[str, dict[str, int]] = {}
    seed: int = 0
    answer: Answer | None = None
    late: Sequence[Name] = ()


BATCH: Final = Made()


class Origins:
    """Of the plans of one solver. The settings are those of the solver that no bucket shows."""

    def __init__(self, cluster: ClusterView, clock: Clock, settings: Ground) -> None:
        """`settings`: those fields of the ground that never change."""
        self._cluster = cluster
        self._clock = clock
        self._settings = replace(settings, version=VERSION)
        self._for: tuple[object, ...] = ()
        self._known: Known | None = None
        self._told: Known | None = None
        self._told_at = float("-inf")
        self._full_at = float("-inf")
        self._streams: tuple[tuple[str, ...], str] = ((), "")

    def of(self, made: Made) -> Round:
        """What a plan that was made just now was made from."""
        cluster, reading = self._cluster, self._cluster.reading
        known = self._ground()
        held = cluster.capacity.held
        besides = ""
        if made.answer is not None and is_too_large(made.answer):
            besides = "an answer of the optimiser that is larger than a plan can tell"
        elif len(made.late) > LATE_MAX:
            besides = "more members of gangs that came late than it can name"
        elif reading.is_lost:
            besides = "more values than it can name that were replaced before they were read"
        elif held and not known.ground.kept:
            besides = "more capacity that was kept for a batch with the optimiser than it can name"
        elif cluster.configuration.problems:
            besides = "the configuration before one that cannot be used"
        elif cluster.solver.costs.basis.scarcity.size and not known.ground.scarcity:
            besides = "more prices of scarce nodes than it can name"
        said = Round(
            kind=made.kind,
            read=reading.reads,
            ended=reading.ended,
            streams=self._stream_id(),
            solvers=list(cluster.solvers) if len(cluster.solvers) > 1 else [],
            ground=known.ground.id,
            groups=dict(made.groups),
            seed=made.seed,
            heard_s=cluster.loads.now_s if cluster.looks_at_load else 0.0,
            besides=besides,
            answer=None if besides else made.answer,
            late=[] if besides else [joined(each) for each in made.late],
            kept=[at for at, key in enumerate(cluster.kept.keys) if key in held] if held else [],
        )
        ground = self._to_tell(known)
        return said if ground is None else replace(said, told=ground)

    def committed(self, said: Round) -> None:
        """The plan is in the ledger, and with it what it told."""
        if said.told is not None and self._known is not None and said.told.id == self._known.ground.id:
            self._told = self._known
            self._told_at = self._clock.monotonic()
            if not said.told.after:
                self._full_at = self._told_at

    def _to_tell(self, known: Known) -> Ground | None:
        now, before = self._clock.monotonic(), self._told
        is_due = now - self._full_at >= TOLD_AGAIN_S
        if before is known and not is_due:
            return None
        ground = told(known.ground, known.nodes, None if is_due else before)
        size = sum(map(len, (ground.nodes, ground.kept, ground.scarcity, ground.configuration or "")))
        return ground if size <= TOLD_BYTES_MAX else None

    def _ground(self) -> Known:
        """What holds now."""
        cluster = self._cluster
        nodes, basis = cluster.nodes, cluster.solver.costs.basis
        kept = cluster.kept.text if cluster.capacity.held else ""
        key = (len(nodes), nodes.renamed, basis, cluster.configuration.text, kept)
        if self._known is None or not _same(key, self._for):
            self._for = key
            names = tuple(nodes.names)
            settings = replace(self._settings, configuration=cluster.configuration.text, kept=kept)
            ground = priced(settings, basis)
            found = Known(named(ground, names), names)
            if self._known is None or found.ground.id != self._known.ground.id:
                self._known = found
        return self._known

    def _stream_id(self) -> str:
        streams = self._cluster.reading.streams
        if streams != self._streams[0]:
            self._streams = (streams, streams_id(streams))
        return self._streams[1]


def streams_id(streams: tuple[str, ...]) -> str:
    """One word for when streams were made."""
    digest = hashlib.blake2b("\n".join(sorted(set(streams))).encode(), digest_size=6)
    return b64encode(digest.digest(), b"-_").decode()


def _same(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    """Whether nothing is another thing; prices are compared by identity."""
    return len(one) == len(other) and all(
        a is b or (isinstance(a, int | str) and a == b) for a, b in zip(one, other, strict=True)
    )


def priced(ground: Ground, basis: Basis) -> Ground:
    """With what says how placements are priced."""
    prices = basis.prices
    ground = replace(
        ground,
        turning_over=prices.turning_over,
        share_sizes=[size for size, _ in prices.shares],
        share_prices=[price for _, price in prices.shares],
        whole=prices.whole,
        arriving=[Arriving(**each._asdict()) for each in prices.typical],
    )
    if not basis.scarcity.size:
        return ground
    values, places = np.unique(basis.scarcity, return_inverse=True)
    if values.size > SCARCITIES_MAX:
        return ground
    return replace(ground, scarcities=values.tolist(), scarcity=pack(places.astype(np.uint8).tobytes()))
