"""The ledger: many keys written in one step, or none of them.

A JetStream atomic batch on the ledger's bucket. Every message expects the last sequence of its key; one that is not
met refuses the whole batch. The answer to the last message settles the batch; without that answer its outcome is
unknown, and only reading the keys shows it. A batch is never sent twice.

A write by itself needs no batch: so a full bucket takes it where it replaces something larger.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from berth.bus import headers as h
from berth.bus import jetstream, metrics
from berth.bus.client import Delivery
from berth.bus.errors import BusError, Denied, Disconnected, NoAnswer, TimedOut, describe
from berth.bus.keys import VALUE_BYTES_MAX, check_key
from berth.bus.link import Link
from berth.bus.port import Committed, Refused, Stored, Unknown, Write
from berth.bus.topology import TOMBSTONE_TTL_S

BATCH_MAX = 1_000
"""The server's limit of messages in one batch."""
OPEN_MAX = 16
"""Batches of this process open at once; the server allows 50 per stream over all clients."""
TIMEOUT_S = 10.0
DENIED = 403
NO_BUCKET = jetstream.STREAM_NOT_FOUND


class Ledger:
    """See `berth.bus.port.LedgerPort`."""

    def __init__(self, link: Link, bucket: str) -> None:
        self._link = link
        self._bucket = bucket
        self._prefix = f"$KV.{bucket}."
        self._open = asyncio.Semaphore(OPEN_MAX)

    async def commit(self, writes: Sequence[Write], *, traceparent: str | None = None) -> Committed | Refused | Unknown:
        """Store all of the writes, in order, or none.

        Refused carries the server's code: 10071 or 10164 for another sequence, 10059 for a missing bucket. Unknown:
        the connection was lost or the answer did not come. Raises ValueError for more than `BATCH_MAX` writes, a key
        twice, an illegal key, a negative sequence or a value that is too large.
        """
        check(writes)
        async with self._open:
            outcome = await self._send(writes, traceparent)
        metrics.BATCHES.labels(type(outcome).__name__.lower()).inc()
        return outcome

    async def read(self, key: str) -> Stored | None:
        """Newest message of a key as the leader knows it; None: there is none. Raises BusError."""
        return await jetstream.newest(self._link, self._bucket, key)

    async def keys(self, pattern: str) -> list[str]:
        """Keys that fit a pattern and have a message, as the leader knows them, in order. Raises BusError."""
        found = await jetstream.subjects(self._link, f"KV_{self._bucket}", self._prefix + pattern)
        return sorted(subject[len(self._prefix) :] for subject in found)

    async def _send(self, writes: Sequence[Write], traceparent: str | None) -> Committed | Refused | Unknown:
        batch, last = self._link.token(), writes[-1]
        subject = self._prefix + last.key
        try:
            with self._link.replies.expect(subject) as expected:
                generation = self._link.generation
                for number, write in enumerate(writes, 1):
                    if self._link.generation != generation:
                        return Unknown("connection lost while the batch was sent")
                    headers = _headers(write)
                    if len(writes) > 1:
                        headers |= {h.BATCH_ID: batch, h.BATCH_SEQUENCE: str(number)}
                    if len(writes) > 1 and write is last:
                        headers[h.BATCH_COMMIT] = "1"
                    if traceparent:
                        headers[h.TRACEPARENT] = traceparent
                    to = expected.reply if write is last else ""
                    await self._link.publish(self._prefix + write.key, write.value or b"", reply=to, headers=headers)
                return _outcome(await expected.answer(TIMEOUT_S))
        except (Disconnected, TimedOut) as error:
            return Unknown(describe(error))
        except NoAnswer:
            return Refused(NO_BUCKET, f"there is no bucket {self._bucket}")
        except Denied as error:
            return Refused(DENIED, describe(error))
        except BusError as error:
            return Unknown(describe(error))


def check(writes: Sequence[Write]) -> None:
    """Raises ValueError for a batch that must not be sent; see `Ledger.commit`."""
    if not 0 < len(writes) <= BATCH_MAX:
        raise ValueError(f"a batch has 1 to {BATCH_MAX} writes, not {len(writes)}")
    if len({write.key for write in writes}) != len(writes):
        raise ValueError("a key occurs twice in a batch")
    for write in writes:
        check_key(write.key)
        if write.expected < 0:
            raise ValueError(f"{write.key}: expected sequence {write.expected} is negative")
        if write.value is not None and len(write.value) > VALUE_BYTES_MAX:
            raise ValueError(f"{write.key}: value of {len(write.value)} bytes is larger than {VALUE_BYTES_MAX}")


def _outcome(msg: Delivery) -> Committed | Refused | Unknown:
    ack = jetstream.decode_ack(msg.data)
    if ack.error is None:
        return Committed(ack.seq)
    if ack.error.code == 0:
        return Unknown(ack.error.description)
    return Refused(ack.error.err_code, ack.error.description)


def _headers(write: Write) -> dict[str, str]:
    headers = {h.EXPECTED: str(write.expected)}
    if write.value is None:
        headers[h.OPERATION] = "DEL"
        headers[h.TTL] = f"{TOMBSTONE_TTL_S}s"
    return headers
