"""How long a message is tried that its sender does not send again, and what keeps it from holding up the others.

The server counts deliveries, whatever became of them: an effect that met an outage, a message that was handed back
untried, a process that died. Up to the limit of deliveries a patient message is tried like any other. Beyond it, until
its time is over:

- it comes after a long pause, and only one such message is tried at a time: one that hangs holds one handler;
- a consumer that has not met it before puts it off once. Nobody knows what became of it elsewhere, and should it be
  what kills the process, there is work done in between;
- failures that are its own are counted apart, and end it as many times as they end others.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from berth.bus.port import Clock, Message

NO_PATIENCE: Mapping[str, float] = MappingProxyType({})
PAUSE_S = 300.0
"""Between two tries of a message beyond the limit of deliveries."""


class Patience:
    """What one consumer knows of its patient messages, by stream sequence."""

    def __init__(self, limits_s: Mapping[str, float], max_deliver: int, clock: Clock) -> None:
        self._limits_s = limits_s
        self._max_deliver = max_deliver
        self._clock = clock
        self._faults: dict[int, int] = {}  # failures of its own, of each message that this consumer has met
        self._trying: int | None = None

    def covers(self, message: Message, stored_at: float) -> bool:
        """Whether deliveries do not end this message yet. `stored_at`: Unix time in seconds."""
        limit_s = self._limits_s.get(message.type)
        return limit_s is not None and self._clock.now() - stored_at < limit_s

    def begin(self, message: Message) -> bool:
        """Whether a message that is covered is tried now. `finish` has to follow then."""
        if message.deliveries > self._max_deliver:
            is_known = message.sequence in self._faults
            self._faults.setdefault(message.sequence, 0)
            if not is_known or self._trying is not None:
                return False
            self._trying = message.sequence
        return True

    def finish(self, message: Message) -> None:
        """The try is over, whatever came of it."""
        if self._trying == message.sequence:
            self._trying = None

    def failed(self, message: Message, *, own_fault: bool) -> bool:
        """Count a failure. Whether it is the last one."""
        faults = self._faults[message.sequence] = self._faults.get(message.sequence, 0) + own_fault
        return faults >= self._max_deliver

    def forget(self, message: Message) -> None:
        """It was carried out, or buried."""
        self._faults.pop(message.sequence, None)
