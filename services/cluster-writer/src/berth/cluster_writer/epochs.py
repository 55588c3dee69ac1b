"""Raising the epoch: what the writer does when the ledger has lost something, or when there is no Lease yet.

1. The Lease names the new epoch and no plan, so that no other writer begins anything. 2. The attempt of every unbound
pod of ours is raised, so that no bind judged before can land. 3. The epoch entry is written, with the version that a
view must have reached. A crash in between leaves two different epochs, and the next start begins again.
"""

from __future__ import annotations

import asyncio
import random as randomness
from collections.abc import Collection
from contextlib import suppress
from typing import Any

import msgspec

from berth.bus.port import BusPort, Committed, Refused, Stored, Write
from berth.cluster_writer import metrics
from berth.contracts import kube, names, subjects
from berth.contracts.codec import decode, encode
from berth.contracts.errors import InvalidMessage
from berth.contracts.ledger import Epoch
from berth.kube import resources
from berth.kube.api import KubeApi, Selection
from berth.kube.backoff import Backoff
from berth.kube.discovery import proven
from berth.kube.lease import KubeLease, Outcome
from berth.kube.lease_record import LeaseRecord
from berth.kube.listing import Listing, list_all
from berth.kube.resources import Resource
from berth.resources.amounts import parse_amounts
from berth.rules.pod_reading import PodItem, whole_pod
from berth.rules.reservation_resize import growth_asked
from berth.runtime.clock import Clock
from berth.telemetry import get_logger

log = get_logger(__name__)

FENCES_AT_ONCE = 32
WRITE_AGAIN_S = 2.0
"""The longest pause between two tries to write the entry. Until it is there solvers plan in the epoch before, in vain,
and fill again what was deleted to make space for it."""
ATTEMPT_MAX = 1 << 31
FINISHED = frozenset({"Succeeded", "Failed"})


class LostLeaseError(Exception):
    """Another writer holds the Lease: begin nothing."""


class Epochs:
    """Raises epochs. Raises LostLeaseError when the Lease turns out to be another's."""

    def __init__(
        self,
        bus: BusPort,
        api: KubeApi,
        lease: KubeLease,
        clock: Clock,
        random: randomness.Random,
        schedulers: Collection[str],
    ) -> None:
        self._bus = bus
        self._ledger = bus.ledger()
        self._api = api
        self._lease = lease
        self._clock = clock
        self._random = random
        self._schedulers = frozenset(schedulers)
        self.finds_ledger_full = False
        """The entry of an epoch waits for space in LEDGER."""

    async def raise_epoch(self, known_epoch: int, reason: str) -> int:
        """Do all three steps; the new epoch. `known_epoch` is the newest that LEDGER is known to have held."""
        record = self._lease.record
        if record is None or not self._lease.held:
            raise LostLeaseError
        epoch = max(record.epoch or 0, known_epoch) + 1
        log.warning("raising the epoch", epoch=epoch, reason=reason)
        await self._record(record, epoch)
        pods, reservations = await self._fenced()
        entry = Epoch(epoch=epoch, pods_version=_newest(pods), reservations_version=_newest(reservations))
        await self._write(entry)
        metrics.EPOCHS.inc()
        metrics.EPOCH.set(epoch)
        log.info("epoch raised", epoch=epoch, pods_version=entry.pods_version)
        return epoch

    async def _record(self, record: LeaseRecord, epoch: int) -> None:
        backoff = Backoff(self._random)
        while True:
            outcome = await self._lease.remember(epoch=epoch, plan="", seen=record)
            if outcome is Outcome.DONE:
                return
            if outcome is not Outcome.UNKNOWN:
                raise LostLeaseError
            await self._clock.sleep(backoff.next())

    async def _fenced(self) -> tuple[Listing[PodItem], Listing[kube.Reservation]]:
        """Fence everything, then list it: what was not found, yet is listed, is fenced again."""
        backoff = Backoff(self._random)
        while True:
            not_found = await self._fence_all()
            pods = await self._list(resources.PODS, PodItem)
            reservations = await self._list(resources.RESERVATIONS, kube.Reservation)
            listed = (*map(whole_pod, pods.items), *reservations.items)
            if not any(each.metadata.uid in not_found and self._needs_fence(each) for each in listed):
                return pods, reservations
            await self._clock.sleep(backoff.next())

    # --- fences ------------------------------------------------------------------------------------------------------

    async def _fence_all(self) -> set[str]:
        """Raise the attempt of every unbound object of ours; the uids of those that could not be found."""
        not_found: set[str] = set()
        limit = asyncio.Semaphore(FENCES_AT_ONCE)

        async def fence(resource: Resource, obj: kube.Pod | kube.Reservation) -> None:
            async with limit:
                if not await self._fence(resource, obj):
                    not_found.add(obj.metadata.uid)

        pods = await self._list(resources.PODS, PodItem)
        reservations = await self._list(resources.RESERVATIONS, kube.Reservation)
        is_lost = False
        try:
            async with asyncio.TaskGroup() as group:
                for pod in map(whole_pod, pods.items):
                    if self._needs_fence(pod):
                        group.create_task(fence(resources.PODS, pod))
                for reservation in reservations.items:
                    if self._needs_fence(reservation):
                        group.create_task(fence(resources.RESERVATIONS, reservation))
        except* LostLeaseError:
            is_lost = True
        if is_lost:
            raise LostLeaseError
        return not_found

    def _needs_fence(self, obj: kube.Pod | kube.Reservation) -> bool:
        if obj.status.phase in FINISHED:
            return False
        if isinstance(obj, kube.Pod):
            return not obj.spec.node_name and obj.spec.scheduler_name in self._schedulers
        template = obj.spec.template
        scheduler = template.spec.scheduler_name if template else ""
        if scheduler and scheduler not in self._schedulers:
            return False
        return not obj.status.node_name or _may_grow(obj)

    async def _fence(self, resource: Resource, obj: kube.Pod | kube.Reservation) -> bool:
        """Raise the attempt of one object, guarded; whatever changed meanwhile is looked at again. False: not found."""
        backoff = Backoff(self._random)
        uid = obj.metadata.uid
        current: kube.Pod | kube.Reservation = obj
        while self._needs_fence(current) and current.metadata.uid == uid:
            if not self._lease.held:
                # What another holder's solvers decide from its epoch on must not be taken back.
                raise LostLeaseError
            meta = current.metadata
            attempt = _attempt(meta) + 1
            body = {
                "metadata": {
                    "uid": uid,
                    "resourceVersion": meta.resource_version,
                    "annotations": {names.ANNOTATION_ATTEMPT: str(attempt)},
                }
            }
            answer = await self._api.patch(resource, meta.namespace, meta.name, body)
            if answer.ok or answer.missing:
                return answer.ok
            # A conflict is looked into soon; a refusal for any other reason must not make a hot loop.
            await self._clock.sleep(backoff.next(answer.retry_after_s))
            answer = await self._api.get(resource, meta.namespace, meta.name)
            if answer.missing:
                return False
            if answer.ok:
                with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # a proxy's page: again
                    if resource is resources.PODS:
                        current = whole_pod(msgspec.json.decode(answer.body, type=PodItem))
                    else:
                        current = msgspec.json.decode(answer.body, type=kube.Reservation)
        return True

    async def _list(self, resource: Resource, kind: type[Any]) -> Listing[Any]:
        """A consistent list, for as long as it takes. A kind that is not installed has no objects."""
        backoff = Backoff(self._random)
        while True:
            listing = await list_all(self._api, Selection(resource), kind)
            if isinstance(listing, Listing):
                return listing
            if (await proven(self._api, resource, listing)).not_installed:
                return Listing([], 0, [])
            await self._clock.sleep(backoff.next(listing.retry_after_s))

    # --- the entry ---------------------------------------------------------------------------------------------------

    async def _write(self, entry: Epoch) -> None:
        backoff = Backoff(self._random, cap_s=WRITE_AGAIN_S)
        while True:
            try:
                await self._bus.ensure()
                stored = await self._ledger.read(subjects.EPOCH_KEY)
                there = _epoch_in(stored)
                if there == entry:
                    return
                if not self._lease.held or (there is not None and there.epoch >= entry.epoch):
                    # Another writer has gone on meanwhile: an epoch never goes back.
                    raise LostLeaseError
                write = Write(subjects.EPOCH_KEY, encode(entry), stored.sequence if stored else 0)
                result = await self._ledger.commit([write])
                self.finds_ledger_full = isinstance(result, Refused) and result.is_full
                if isinstance(result, Committed):
                    return
                log.warning("the epoch could not be written yet", outcome=str(result))
            except LostLeaseError:
                raise
            except Exception as error:
                log.warning("the epoch could not be written yet", error=f"{type(error).__name__}: {error}")
            await self._clock.sleep(backoff.next())


def _may_grow(reservation: kube.Reservation) -> bool:
    """It is placed and asks for more: what grows it may be on its way, for nothing is sent that its key does not ask
    for."""
    held = parse_amounts(reservation.status.allocatable, "")[0]
    return bool(growth_asked(reservation.metadata.annotations or {}, held))


def _attempt(meta: kube.Meta) -> int:
    text = (meta.annotations or {}).get(names.ANNOTATION_ATTEMPT, "0")
    return min(int(text), ATTEMPT_MAX) if text.isascii() and text.isdigit() and len(text) <= 10 else 0


def _epoch_in(stored: Stored | None) -> Epoch | None:
    """The epoch entry that is there; None when there is none, or none that can be read."""
    try:
        return decode(stored.value, Epoch) if stored is not None and not stored.deleted else None
    except InvalidMessage:
        return None


def _newest(listing: Listing[Any]) -> int:
    """The highest version of a listed object; a list's own version may never be seen by followers."""
    return max((int(item.metadata.resource_version or 0) for item in listing.items), default=0)
