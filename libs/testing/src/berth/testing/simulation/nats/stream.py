"""One stream: what is stored, under which conditions, and what goes when there is no space or no time left.

Sequences, replaced and expired messages behave as in the file store. A journal remembers what each message replaced, so
that a lost tail brings the former messages back, as it does on a disk.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from berth.bus import headers as h
from berth.testing.simulation.nats import problems
from berth.testing.simulation.nats.batch import Batches
from berth.testing.simulation.nats.message import NANO, RECORD_BYTES, Publish, Stored, number_of, ttl_seconds
from berth.testing.simulation.nats.problems import Refusal
from berth.testing.simulation.nats.subjects import fits

if TYPE_CHECKING:
    from berth.testing.simulation.nats.consumer import Consumer
    from berth.testing.simulation.nats.scheduler import Timer
    from berth.testing.simulation.nats.server import SimNats

JOURNAL = 4096
"""Newest messages that a lost tail may take."""


class Stream:
    """A stream and its consumers. `receive` is what the server calls for each message on its subjects."""

    def __init__(self, server: SimNats, config: dict[str, Any]) -> None:
        self.server = server
        self.config = config
        self.name: str = config["name"]
        self.created = self.led_since = server.next_time()
        self.leader = 0
        """Which of the servers of a cluster leads it, since `led_since`."""
        self.last = 0
        """Last sequence that was used."""
        self.bytes = 0
        self.messages: dict[int, Stored] = {}
        self.by_subject: dict[str, dict[int, None]] = {}
        self.consumers: dict[str, Consumer] = {}
        self.batches = Batches(self)
        self.message_ids: dict[str, tuple[int, int]] = {}  # id -> sequence, time
        self.undecided: set[str] = set()
        """Identities of messages that a leader has proposed, and that may still be lost with it."""
        self._id_order: deque[tuple[int, str]] = deque()
        self._journal: deque[tuple[int, list[Stored]]] = deque(maxlen=JOURNAL)
        self._expiring: list[tuple[int, int]] = []
        self._timer: Timer | None = None
        self._timer_at = 0
        self._inbound: deque[Publish] = deque()

    # --- on the way in ------------------------------------------------------------------------------------------------

    def receive(self, publish: Publish) -> None:
        """Store a message, or refuse it; whoever asked is told. May wait in the stream's own queue."""
        delay_s = self.server.faults.store_s(self.name)
        if self._inbound or delay_s > 0:
            self._inbound.append(publish)
            if len(self._inbound) == 1:
                self.server.later(delay_s, self._work_off)
            return
        self._take(publish)

    def _work_off(self) -> None:
        waiting, self._inbound = self._inbound, deque()
        if self.server.streams.get(self.name) is self:
            for publish in waiting:
                self._take(publish)

    def _take(self, publish: Publish) -> None:
        try:
            if h.BATCH_ID in publish.headers:
                self.batches.receive(publish)
            else:
                self._publish(publish)
        except Refusal as refusal:
            self.refuse(publish, refusal)

    def refuse(self, publish: Publish, refusal: Refusal) -> None:
        """Tell whoever waits for an answer."""
        if publish.reply:
            problem = refusal.problem
            self.server.send(
                publish.reply,
                b'{"error":{"code":%d,"err_code":%d,"description":"%b"},"stream":"%b","seq":0}'
                % (problem.code, problem.err_code, problem.description.encode(), self.name.encode()),
            )

    def acknowledge(self, publish: Publish, sequence: int, rest: bytes = b"") -> None:
        """Tell whoever waits for an answer, unless that gets lost."""
        if publish.reply and not self.server.faults.drop_ack(self.name, publish.subject):
            self.server.send(publish.reply, b'{"stream":"%b","seq":%d%b}' % (self.name.encode(), sequence, rest))

    def _publish(self, publish: Publish) -> None:
        headers = publish.headers
        message_id = ""
        expires = 0
        if headers:
            self.check_size(publish)
            expires = self.check_stream_and_ttl(publish)
            expected = number_of(headers.get(h.EXPECTED))
            if expected is not None:
                last = self.last_of(headers.get(h.EXPECTED + "-Subject", publish.subject))
                if last != expected:
                    raise Refusal(problems.wrong_sequence(last))
            expected = number_of(headers.get("Nats-Expected-Last-Sequence"))
            if expected is not None and expected != self.last:
                raise Refusal(problems.wrong_sequence(self.last))
            message_id = headers.get(h.MESSAGE_ID, "")
            if message_id in self.undecided:
                raise Refusal(problems.IN_PROCESS)
            if message_id:
                known = self.known_id(message_id)
                if known:
                    self.acknowledge(publish, known, b',"duplicate": true')
                    return
            self._check_last_id(headers.get("Nats-Expected-Last-Msg-Id"))
        else:
            self.check_size(publish)
        self.check_space([publish], may_replace=True)
        stored = self.store(publish, expires, message_id)
        self.acknowledge(publish, stored.sequence)
        self.tell((stored,))

    # --- conditions ---------------------------------------------------------------------------------------------------

    def check_size(self, publish: Publish) -> None:
        """Raises Refusal for a message that this stream never takes."""
        limit = self.config["max_msg_size"]
        if limit > 0 and len(publish.raw) + len(publish.data) > limit:
            raise Refusal(problems.TOO_LARGE)
        rollup = publish.headers.get("Nats-Rollup")
        if rollup and not self.config["allow_rollup_hdrs"]:
            raise Refusal(problems.ROLLUP_FORBIDDEN)
        if rollup and rollup not in ("sub", "all"):
            raise Refusal(problems.rollup_invalid(rollup))

    def check_stream_and_ttl(self, publish: Publish) -> int:
        """When the message expires, in Unix nanoseconds, 0: never. Raises Refusal."""
        wanted = publish.headers.get("Nats-Expected-Stream")
        if wanted and wanted != self.name:
            raise Refusal(problems.STREAM_DIFFERS)
        text = publish.headers.get(h.TTL)
        if not text:
            return 0
        if not self.config["allow_msg_ttl"]:
            raise Refusal(problems.TTL_DISABLED)
        seconds = ttl_seconds(text)
        return self.server.unix_ns() + int(seconds * NANO) if seconds else 0

    def last_of(self, subject: str) -> int:
        """Sequence of the newest message of a subject, a deletion marker included; 0: none."""
        there = self.by_subject.get(subject)
        return next(reversed(there)) if there else 0

    def known_id(self, message_id: str) -> int:
        """Sequence under which this identity was stored within the duplicate window; 0: it was not."""
        known = self.message_ids.get(message_id)
        if known is None:
            return 0
        if known[1] <= self.server.unix_ns() - self.config["duplicate_window"]:
            del self.message_ids[message_id]
            return 0
        return known[0]

    def _check_last_id(self, wanted: str | None) -> None:
        if wanted is not None:
            newest = self.messages.get(self.last)
            last = newest.message_id if newest is not None else ""
            if last != wanted:
                raise Refusal(problems.wrong_message_id(last))

    def check_space(self, publishes: Sequence[Publish], *, may_replace: bool = False) -> None:
        """Raises Refusal when the limits leave no space and nothing old may be discarded.

        `may_replace`: a message by itself fits a full stream where it replaces one that is not smaller. In a batch each
        counts as one more, whatever it replaces.
        """
        config = self.config
        bytes_max = max(1, self.bytes) if self.server.faults.full(self.name) else config["max_bytes"]
        if config["discard"] != "new" or (config["max_msgs"] <= 0 and bytes_max <= 0):
            return
        sizes = [RECORD_BYTES + len(p.subject) + len(p.data) + (len(p.raw) + 4 if p.raw else 0) for p in publishes]
        there = self.by_subject.get(publishes[0].subject) if may_replace else None
        replaced = None
        if there and 0 < config["max_msgs_per_subject"] <= len(there):
            replaced = self.messages[next(iter(there))]
        if 0 < config["max_msgs"] < len(self.messages) + len(publishes) and replaced is None:
            raise Refusal(problems.store_failed("maximum messages exceeded"))
        if 0 < bytes_max < self.bytes + sum(sizes) and (replaced is None or replaced.size < sizes[0]):
            raise Refusal(problems.store_failed("maximum bytes exceeded"))

    # --- storing and removing -----------------------------------------------------------------------------------------

    def store(self, publish: Publish, expires: int, message_id: str) -> Stored:
        """Append a message for which all conditions hold; `tell` the consumers afterwards."""
        self.last += 1
        now = self.server.next_time()
        stored = Stored(self.last, publish.subject, publish.raw, publish.data, now, expires, message_id)
        replaced: list[Stored] = []
        self._journal.append((self.last, replaced))
        rollup = publish.headers.get("Nats-Rollup") if publish.headers else None
        if rollup:
            for sequence in list(self.messages if rollup == "all" else self.by_subject.get(publish.subject, ())):
                self.remove(sequence)
        self._insert(stored)
        if message_id:
            self.message_ids[message_id] = (self.last, now)
            self._id_order.append((now, message_id))
            self._forget_ids(now)
        there = self.by_subject[publish.subject]
        limit = self.config["max_msgs_per_subject"]
        while 0 < limit < len(there):
            self.remove(next(iter(there)))
        self._discard_old()
        return stored

    def tell(self, stored: Iterable[Stored]) -> None:
        """Let the consumers know of new messages."""
        for consumer in list(self.consumers.values()):
            consumer.arrived(stored)

    def _insert(self, stored: Stored) -> None:
        self.messages[stored.sequence] = stored
        self.by_subject.setdefault(stored.subject, {})[stored.sequence] = None
        self.bytes += stored.size
        at = stored.expires
        if self.config["max_age"] and (not at or at > stored.time + self.config["max_age"]):
            at = stored.time + self.config["max_age"]
        if at:
            heapq.heappush(self._expiring, (at, stored.sequence))
            self._arm()

    def remove(self, sequence: int, *, done: bool = False) -> Stored | None:
        """Take a message out, for whatever reason; one that is `done` with does not come back with a lost tail."""
        stored = self.messages.pop(sequence, None)
        if stored is None:
            return None
        there = self.by_subject[stored.subject]
        del there[sequence]
        if not there:
            del self.by_subject[stored.subject]
        self.bytes -= stored.size
        if self._journal and not done:
            self._journal[-1][1].append(stored)
        for consumer in self.consumers.values():
            consumer.removed(stored)
        return stored

    def purge(self, pattern: str = "", keep: int = 0, before: int = 0) -> int:
        """Take out what matches, but the newest `keep`, or only what is older than the sequence `before`."""
        doomed = [
            each.sequence
            for each in self.messages.values()
            if (not pattern or fits(pattern, each.subject)) and (not before or each.sequence < before)
        ]
        if keep:
            doomed = doomed[:-keep]
        for sequence in doomed:
            self.remove(sequence)
        return len(doomed)

    def reshape(self) -> None:
        """New limits hold for what is there, too."""
        limit = self.config["max_msgs_per_subject"]
        for there in list(self.by_subject.values()):
            while 0 < limit < len(there):
                self.remove(next(iter(there)))
        self._discard_old()

    def _discard_old(self) -> None:
        config = self.config
        if config["discard"] != "old":
            return
        while (0 < config["max_msgs"] < len(self.messages)) or (0 < config["max_bytes"] < self.bytes):
            self.remove(next(iter(self.messages)))

    def _forget_ids(self, now: int) -> None:
        oldest = now - self.config["duplicate_window"]
        order = self._id_order
        while order and order[0][0] <= oldest:
            at, message_id = order.popleft()
            known = self.message_ids.get(message_id)
            if known is not None and known[1] == at:
                del self.message_ids[message_id]

    # --- expiry -------------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        """One timer, for the first message that will expire; those that are gone already are skipped cheaply."""
        while self._expiring and self._expiring[0][1] not in self.messages:
            heapq.heappop(self._expiring)
        if not self._expiring or not self.server.running:
            return
        at = self._expiring[0][0]
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
        self._timer_at = at
        self._timer = self.server.later(max(0.0, (at - self.server.unix_ns()) / NANO), self._expire)

    def _expire(self) -> None:
        self._timer = None
        now = self.server.unix_ns()
        while self._expiring and self._expiring[0][0] <= now + 1000:  # time in seconds is a float
            _, sequence = heapq.heappop(self._expiring)
            self.remove(sequence)
        self._arm()

    # --- life ---------------------------------------------------------------------------------------------------------

    def halt(self) -> None:
        """The server goes down: timers, open batches and what waits to be stored are gone."""
        self._inbound.clear()
        self.batches.clear()
        self._recall_ids()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for consumer in list(self.consumers.values()):
            consumer.halt()

    def resume(self) -> None:
        """The server is back."""
        self.led_since = self.server.next_time()
        self._arm()
        for consumer in list(self.consumers.values()):
            consumer.resume()

    def lose_tail(self, count: int) -> None:
        """The newest messages were never stored: what they replaced is there again, their sequences are free."""
        for _ in range(min(count, len(self._journal))):
            sequence, replaced = self._journal.pop()
            stored = self.messages.pop(sequence, None)
            if stored is not None:
                del self.by_subject[stored.subject][sequence]
                self.bytes -= stored.size
            self.last = sequence - 1
            for each in replaced:
                if each.sequence <= self.last:
                    self.messages[each.sequence] = each
                    self.by_subject.setdefault(each.subject, {})[each.sequence] = None
                    self.bytes += each.size
        self._restore(sorted(self.messages.values(), key=lambda each: each.sequence))

    def lead_anew(self, count: int, *, stranded: bool) -> None:
        """Another server leads, which has not heard of the newest messages; what waits to be stored is gone."""
        self._inbound.clear()
        self.batches.clear()
        self.leader, self.led_since = self.leader + 1, self.server.next_time()
        delivered = {consumer: consumer.position for consumer in self.consumers.values()}
        self.lose_tail(count)
        for consumer, position in delivered.items():
            consumer.position, consumer.stranded = position, stranded
            consumer.rewind()

    def _restore(self, messages: Iterable[Stored]) -> None:
        """Build everything anew from the messages that are there, in order."""
        self.messages, self.by_subject, self.bytes, self._expiring = {}, {}, 0, []
        for stored in messages:
            self._insert(stored)
        self._recall_ids()
        for consumer in list(self.consumers.values()):
            consumer.position = min(consumer.position, self.last)
            consumer.rewind()

    def _recall_ids(self) -> None:
        """A server that starts knows the identities of those messages that are still there."""
        known = [each for each in self.messages.values() if each.message_id]
        self.message_ids = {each.message_id: (each.sequence, each.time) for each in known}
        self._id_order = deque((each.time, each.message_id) for each in known)

    def copy(self) -> Stream:
        """As it is on the disk now: without consumers in memory, open batches or timers."""
        twin = Stream(self.server, dict(self.config))
        twin.created, twin.last = self.created, self.last
        twin._journal = deque(((sequence, list(replaced)) for sequence, replaced in self._journal), maxlen=JOURNAL)
        twin.consumers = {name: each.copy(twin) for name, each in self.consumers.items() if not each.in_memory}
        twin._restore(self.messages.values())
        if twin._timer is not None:
            twin._timer.cancel()
            twin._timer = None
        return twin
