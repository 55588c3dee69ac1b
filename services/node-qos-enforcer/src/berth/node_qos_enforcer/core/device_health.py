"""Health of devices over time: it falls at once, and comes back after a clean minute.

What is found in one look is what the vendor says now. A device that was ill, or that was away, is reported as healthy
only when every look of a whole minute has found it well: one that fails again and again takes no new work in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from berth.contracts.node_report import ReportedDevice
from berth.vendors.devices import FoundDevice, Status

CLEAN_S: Final = 60.0
AWAY: Final = "Away"
AWAY_MESSAGE: Final = "it was not there for a while"
REMEMBERED_MAX: Final = 1_024
"""How many devices that are away are remembered."""

DeviceKey = tuple[str, str]
"""Kind and id, which stays with a card whatever its minor is; the minor of one without an id."""


class Health(NamedTuple):
    """What counts of one device.

    `code` and `message` say why it is ill. `since_s`: when that, or being well, began, unix seconds. `clean_since_s`:
    when an ill one was first found well without a break, monotonic seconds; None while it is found ill. `is_away`: the
    last look did not find it.
    """

    is_well: bool
    since_s: float
    code: str = ""
    message: str = ""
    clean_since_s: float | None = None
    is_away: bool = False


def followed(
    before: Mapping[DeviceKey, Health], devices: Iterable[FoundDevice], *, now_s: float, monotonic_s: float
) -> dict[DeviceKey, Health]:
    """The healths after a look. `now_s` is unix time, for people; what counts is `monotonic_s`.

    A device that was never seen before is what it is found to be.
    """
    found = {key_of(device): device for device in devices}
    after = {
        key: _after(before.get(key), device.status, now_s=now_s, monotonic_s=monotonic_s)
        for key, device in found.items()
    }
    away = [key for key in before if key not in found]
    after |= {key: _gone(before[key], now_s) for key in away[-REMEMBERED_MAX:]}
    return after


def judged(device: FoundDevice, health: Health) -> FoundDevice:
    """The device with the health that counts in the place of what this look found."""
    return replace(device, status=Status(healthy=health.is_well, code=health.code, message=health.message))


def key_of(device: FoundDevice) -> DeviceKey:
    """By what a device is known from one look to the next."""
    return device.kind, device.id or str(device.minor)


def remembered(devices: Iterable[ReportedDevice]) -> dict[DeviceKey, Health]:
    """The healths that a former process reported: a restart makes no device well."""
    return {
        (each.kind, each.id or str(each.minor)): Health(each.healthy, each.since, each.reason, each.message)
        for each in devices
    }


def _after(before: Health | None, status: Status | None, *, now_s: float, monotonic_s: float) -> Health:
    if status is not None and not status.healthy:
        since_s = now_s if before is None or before.is_well else before.since_s
        return Health(is_well=False, since_s=since_s, code=status.code, message=status.message)
    if before is None:
        return Health(is_well=True, since_s=now_s)
    if before.is_well:
        return before
    clean_since_s = monotonic_s if before.clean_since_s is None else before.clean_since_s
    if monotonic_s - clean_since_s >= CLEAN_S:
        return Health(is_well=True, since_s=now_s)
    return before._replace(clean_since_s=clean_since_s, is_away=False)


def _gone(before: Health, now_s: float) -> Health:
    if before.is_away:
        return before
    since_s = now_s if before.is_well else before.since_s
    code, message = (AWAY, AWAY_MESSAGE) if before.is_well else (before.code, before.message)
    return Health(is_well=False, since_s=since_s, code=code, message=message, is_away=True)
