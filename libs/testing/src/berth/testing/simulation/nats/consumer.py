"""What push and pull consumers have in common: which message is next, and which ones nobody has acknowledged yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from berth.testing.simulation.nats.message import NANO, Stored
from berth.testing.simulation.nats.subjects import CACHED_MAX, fits

if TYPE_CHECKING:
    from berth.testing.simulation.nats.scheduler import Timer
    from berth.testing.simulation.nats.server import SimNats
    from berth.testing.simulation.nats.stream import Stream

ACK_WAIT_S = 30.0
_ACK_POLICIES = frozenset({"none", "explicit"})


class _Unacked:
    """A message that was delivered: how often, when last under which number, and when it is due again."""

    __slots__ = ("consumer_sequence", "deliveries", "due")

    def __init__(self) -> None:
        self.consumer_sequence = 0
        self.deliveries = 0
        self.due = 0.0


class _Nak(msgspec.Struct):
    delay: int = 0


class Consumer:
    """A position in a stream. Subclasses say who gets the messages."""

    def __init__(self, stream: Stream, name: str, config: dict[str, Any]) -> None:
        self.stream = stream
        self.server: SimNats = stream.server
        self.name = name
        self.config = config
        self.created = self.server.next_time()
        self.in_memory: bool = bool(config.get("mem_storage")) and not config.get("durable_name")
        self.filters: list[str] = config.get("filter_subjects") or [config.get("filter_subject") or ">"]
        self._all = any(all(fits(each, subject) for subject in stream.config["subjects"]) for each in self.filters)
        self._wanted: dict[str, bool] = {}
        self.explicit: bool = config.get("ack_policy", "none") == "explicit"
        self.delivered = 0
        """Deliveries so far: the consumer's own sequence."""
        self.position = self._start()
        """Everything in the stream through this sequence has been delivered, or is not meant for this consumer."""
        self.pending = 0
        self.stranded = False
        """Its server no longer hears of what is stored."""
        self._backlog: deque[int] = deque()
        self.unacked: dict[int, _Unacked] = {}
        self._again: dict[int, None] = {}  # unacked and due
        self._due_timer: Timer | None = None
        self._due_at = 0.0
        self.rewind()

    def _start(self) -> int:
        policy = self.config.get("deliver_policy", "all")
        if policy == "all":
            return 0
        if policy == "by_start_sequence":
            # A start beyond the end waits for that sequence.
            return int(self.config.get("opt_start_seq", 1)) - 1
        if policy == "new":
            return self.stream.last
        raise NotImplementedError(f"the simulated server has no deliver_policy {policy}")

    # --- what the stream says -----------------------------------------------------------------------------------------

    def wants(self, subject: str) -> bool:
        """Whether a message on this subject is for this consumer."""
        if self._all:
            return True
        wanted = self._wanted.get(subject)
        if wanted is None:
            if len(self._wanted) >= CACHED_MAX:
                self._wanted.clear()
            wanted = self._wanted[subject] = any(fits(each, subject) for each in self.filters)
        return wanted

    def arrived(self, stored: Iterable[Stored]) -> None:
        """New messages in the stream."""
        for each in stored:
            if each.sequence > self.position and (self._all or self.wants(each.subject)):
                self._backlog.append(each.sequence)
                self.pending += 1
        self.work()

    def removed(self, stored: Stored) -> None:
        """A message is gone from the stream: replaced, expired, purged, or done with."""
        if stored.sequence > self.position:
            if self.wants(stored.subject):
                self.pending -= 1
        else:
            self.unacked.pop(stored.sequence, None)
            self._again.pop(stored.sequence, None)

    def rewind(self) -> None:
        """Look up again what lies ahead."""
        messages = self.stream.messages
        ahead = [
            each.sequence for each in messages.values() if each.sequence > self.position and self.wants(each.subject)
        ]
        self._backlog = deque(ahead)
        self.pending = len(ahead)
        for sequence in [each for each in self.unacked if each not in messages]:
            del self.unacked[sequence]

    # --- delivering ---------------------------------------------------------------------------------------------------

    def work(self) -> None:
        """Deliver what may be delivered now."""
        raise NotImplementedError

    def next(self) -> Stored | None:
        """The next message for whoever is ready: one that is due again, else the next of the stream."""
        messages = self.stream.messages
        while self._again:
            sequence = next(iter(self._again))
            del self._again[sequence]
            stored = messages.get(sequence)
            if stored is not None and sequence in self.unacked:
                limit = self.config.get("max_deliver", -1)
                if 0 < limit <= self.unacked[sequence].deliveries:
                    continue  # it stays unacknowledged, and is not given any more
                return stored
        if self.explicit and 0 < self.config.get("max_ack_pending", 1000) <= len(self.unacked):
            return None
        backlog = self._backlog
        while backlog:
            sequence = backlog.popleft()
            stored = messages.get(sequence)
            if stored is not None:
                self.position = sequence
                self.pending -= 1
                return stored
        return None

    def reply_for(self, stored: Stored) -> str:
        """Count a delivery; returns the subject that acknowledges it and says where it stands."""
        self.delivered += 1
        deliveries = 1
        if self.explicit:
            unacked = self.unacked.get(stored.sequence)
            if unacked is None:
                unacked = self.unacked[stored.sequence] = _Unacked()
            unacked.deliveries = deliveries = unacked.deliveries + 1
            unacked.consumer_sequence = self.delivered
            again = self.server.faults.duplicate(self.stream.name, self.name)
            self._due(stored.sequence, unacked, 0.0 if again else self._wait_s(deliveries))
        return (
            f"$JS.ACK.{self.stream.name}.{self.name}.{deliveries}.{stored.sequence}.{self.delivered}"
            f".{stored.time}.{self.pending}"
        )

    def _wait_s(self, deliveries: int) -> float:
        backoff = self.config.get("backoff")
        if backoff:
            return float(backoff[min(deliveries, len(backoff)) - 1]) / NANO
        wait = self.config.get("ack_wait")
        return wait / NANO if wait else ACK_WAIT_S

    # --- acknowledgements ---------------------------------------------------------------------------------------------

    def answered(self, sequence: int, data: bytes) -> None:
        """What somebody made of a delivery: `+ACK`, `-NAK`, `+TERM`, `+WPI`."""
        unacked = self.unacked.get(sequence)
        if unacked is None:
            return
        if data.startswith(b"-NAK"):
            body = data[4:].strip()
            delay = msgspec.json.decode(body, type=_Nak).delay if body else 0
            self._due(sequence, unacked, delay / NANO)
        elif data.startswith(b"+WPI"):
            self._due(sequence, unacked, self._wait_s(unacked.deliveries))
        else:  # an empty answer acknowledges, too
            del self.unacked[sequence]
            self._again.pop(sequence, None)
            if self.stream.config["retention"] == "workqueue":
                self.stream.remove(sequence, done=True)
            self.work()

    def _due(self, sequence: int, unacked: _Unacked, delay_s: float) -> None:
        unacked.due = self.server.now() + delay_s
        self._again.pop(sequence, None)
        self._arm(unacked.due)

    def _arm(self, due: float) -> None:
        if not self.server.running:
            return
        if self._due_timer is not None:
            if self._due_at <= due:
                return
            self._due_timer.cancel()
        self._due_at = due
        self._due_timer = self.server.later(max(0.0, due - self.server.now()), self._overdue)

    def _overdue(self) -> None:
        """Whatever is due and was not acknowledged comes again."""
        self._due_timer = None
        now = self.server.now() + 1e-6
        for sequence, unacked in self.unacked.items():
            if unacked.due <= now:
                self._again[sequence] = None
        self.work()
        waiting = [each.due for sequence, each in self.unacked.items() if sequence not in self._again]
        if waiting:
            self._arm(min(waiting))

    # --- life ---------------------------------------------------------------------------------------------------------

    def halt(self) -> None:
        """The server goes down, or the consumer ends: no timer is left."""
        if self._due_timer is not None:
            self._due_timer.cancel()
            self._due_timer = None

    def resume(self) -> None:
        """The server is back."""
        if self.unacked:
            self._arm(min(each.due for each in self.unacked.values()))

    def end(self, reason: str) -> None:
        """The consumer is deleted; whoever waits is told."""
        self.halt()

    def interest_changed(self) -> None:
        """Somebody began or ended to listen where this consumer delivers."""

    def copy(self, stream: Stream) -> Consumer:
        """The same consumer of a copy of its stream."""
        twin = type(self)(stream, self.name, dict(self.config))
        twin.created, twin.delivered, twin.position = self.created, self.delivered, self.position
        for sequence, unacked in self.unacked.items():
            twin.unacked[sequence] = mine = _Unacked()
            mine.consumer_sequence = unacked.consumer_sequence
            mine.deliveries = unacked.deliveries
            mine.due = unacked.due
        return twin

    def info(self) -> dict[str, Any]:
        """What the API says of it."""
        return {
            "stream_name": self.stream.name,
            "name": self.name,
            "created": self.server.timestamp(self.created),
            "config": self.config,
            "delivered": {"consumer_seq": self.delivered, "stream_seq": self.position},
            "ack_floor": self._floor(),
            "num_ack_pending": len(self.unacked),
            "num_redelivered": sum(each.deliveries > 1 for each in self.unacked.values()),
            "num_waiting": 0,
            "num_pending": self.pending,
            "ts": self.server.timestamp(self.server.unix_ns()),
        }

    def _floor(self) -> dict[str, int]:
        if not self.unacked:
            return {"consumer_seq": self.delivered, "stream_seq": self.position}
        return {
            "consumer_seq": min(each.consumer_sequence for each in self.unacked.values()) - 1,
            "stream_seq": min(self.unacked) - 1,
        }


def check_policy(config: dict[str, Any]) -> None:
    """Raises NotImplementedError for what nobody here needs."""
    if config.get("ack_policy", "none") not in _ACK_POLICIES:
        raise NotImplementedError(f"the simulated server has no ack_policy {config['ack_policy']}")
