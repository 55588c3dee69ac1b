"""Which solvers are alive, by their leases: each renews a key of its own, and silence means it is gone.

Time is this process's own; two solvers may disagree for a moment, which costs a refused batch and nothing else.
"""

from __future__ import annotations

from berth.bus.port import Clock
from berth.contracts import subjects

FAMILY = "solver"


class Members:
    """Instances seen renewing, with when that was last."""

    def __init__(self, me: str, clock: Clock, ttl_s: float) -> None:
        self._me = me
        self._clock = clock
        self._ttl_s = ttl_s
        self._seen: dict[str, float] = {}

    def reset(self) -> None:
        """The bucket starts over."""
        self._seen.clear()

    def seen(self, key: str, deleted: bool) -> None:
        """A lease was renewed or given back."""
        family, _, rest = key.partition(".")
        if family != FAMILY:
            return
        instance = subjects.unescape(rest)
        if deleted:
            self._seen.pop(instance, None)
        else:
            self._seen[instance] = self._clock.monotonic()

    def alive(self) -> tuple[str, ...]:
        """Solvers that renewed lately, sorted; always with this one."""
        now = self._clock.monotonic()
        self._seen = {name: at for name, at in self._seen.items() if now - at < self._ttl_s}
        return tuple(sorted({self._me, *self._seen}))
