"""The files in which HAMi-core keeps what the processes of a container use of their GPUs.

The library that is preloaded into a container maps one file, and every process of the container writes into it while
we read. The layouts are those of `shared_region_t` in HAMi-core: 0, which has no version in it and is known by its
size, and 1, by its version. All numbers are little-endian; a file has one byte more than its structure, which the
library writes to make it that long.

    layout 0: magic i32, sm_init i32, owner u64, semaphore 32, devices u64, uuids 16 x 96,
              limit 16 x u64, sm_limit 16 x u64, 1024 slots, slots i32, switch i32, recent i32, priority i32
    layout 1: magic i32, major u32, minor u32, sm_init i32, owner u64, semaphore 32, devices u64, ... as above,
              last kernel u64, semaphore 32
    slot:     pid i32, host pid i32, 16 x memory, 16 x monitored u64, 16 x utilisation, status i32
    memory:   context, module, data, offset, total (all u64); layout 1: 3 x u64 unused
    utilisation: decoder, encoder, SM (all u64); layout 1: 3 x u64 unused
    layout 1 ends a slot with 4 unused bytes, a sequence u64 (odd while the slot is being written) and 2 x u64 unused

A slot counts while its process is there: those below the number of slots, with a pid. Later ones hold what processes
that ended have left.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from berth.contracts.base import Problem

MAGIC: Final = 19920718
DEVICES_MAX: Final = 16
SLOTS_MAX: Final = 1024
UUID_BYTES: Final = 96
BYTES_MAX: Final = 1 << 22
"""A file that is larger is none of these."""

_MEMORY_MAX: Final = 1 << 48
"""Bytes. No card has more; above it is what an unsigned counter becomes when it falls below zero."""
_SM_MAX: Final = 10_000
_TIME_MAX: Final = 1 << 40
_HEAD: Final = struct.Struct("<iIIi")


class _Layout(NamedTuple):
    version: int
    devices_at: int
    memory_bytes: int
    utilisation_bytes: int
    slot_bytes: int
    sequence_at: int | None
    size: int

    @property
    def uuids_at(self) -> int:
        return self.devices_at + 8

    @property
    def limits_at(self) -> int:
        return self.uuids_at + DEVICES_MAX * UUID_BYTES

    @property
    def slots_at(self) -> int:
        return self.limits_at + 2 * 8 * DEVICES_MAX

    @property
    def counts_at(self) -> int:
        return self.slots_at + SLOTS_MAX * self.slot_bytes


_V0: Final = _Layout(0, 48, 40, 24, 1168, None, 1_197_896)
_V1: Final = _Layout(1, 56, 64, 48, 1960, 1936, 2_008_952)


class DeviceUse(NamedTuple):
    """One GPU as its container sees it: limits (0: none), use in bytes of all its processes, and SM use in percent.

    `total_bytes` is what counts against the limit; the parts are what it is made of, the rest of it is overhead.
    """

    place: int
    uuid: str
    limit_bytes: int
    sm_limit_percent: int
    total_bytes: int
    context_bytes: int
    module_bytes: int
    data_bytes: int
    offset_bytes: int
    sm_percent: int


class Region(NamedTuple):
    """What one file says. `last_kernel_s` is when a kernel was last started, in seconds since 1970; 0: not known.

    A device whose id is not written yet is left out of `devices`.
    """

    layout: int
    processes: int
    devices: tuple[DeviceUse, ...]
    last_kernel_s: int = 0
    priority: int = 0


class NotReady(NamedTuple):
    """The container has made its file and has not filled it in yet. That is no fault."""

    reason: str


def read_region(content: bytes, field: str) -> Region | NotReady | Problem:
    """What a file says. A problem names `field`, and the part of the file that cannot be true or was being written.

    Who meets a torn file reads it again: writers take microseconds.
    """
    if len(content) < _HEAD.size:
        return NotReady("is empty") if not content else Problem(field=field, message="is torn: it ends in its head")
    magic, major, minor, _ = _HEAD.unpack_from(content)
    if magic == 0:
        return NotReady("is not initialised")
    if magic != MAGIC:
        return Problem(field=f"{field}.initialized_flag", message=f"is {magic}, not {MAGIC}: no file of HAMi-core")
    layout = _layout_of(len(content), major)
    if layout is None:
        whose = f"version {major}.{minor}" if major == _V1.version else "no known version"
        return Problem(field=field, message=f"is torn or of another layout: {len(content)} bytes, {whose}")
    return _read(content, layout, field)


def _layout_of(size: int, major: int) -> _Layout | None:
    # A file of layout 0 has no version: where one would be is whether SM limits are in force.
    if size in (_V0.size, _V0.size + 1):
        return _V0
    return _V1 if major == _V1.version and _V1.size <= size <= BYTES_MAX else None


def _read(content: bytes, layout: _Layout, field: str) -> Region | Problem:
    (count,) = struct.unpack_from("<Q", content, layout.devices_at)
    slots, _, _, priority = struct.unpack_from("<4i", content, layout.counts_at)
    if count > DEVICES_MAX:
        return Problem(field=f"{field}.device_num", message=f"is {count}: at most {DEVICES_MAX}")
    if not 0 <= slots <= SLOTS_MAX:
        return Problem(field=f"{field}.proc_num", message=f"is {slots}: at most {SLOTS_MAX}")
    last_kernel_s = struct.unpack_from("<Q", content, layout.counts_at + 16)[0] if layout is _V1 else 0
    if last_kernel_s > _TIME_MAX:
        return Problem(field=f"{field}.last_kernel_time", message="is no time")
    living = _living(content, layout, slots, field)
    if isinstance(living, Problem):
        return living
    devices: list[DeviceUse] = []
    for index in range(count):
        device = _device(content, layout, living, index, field)
        if isinstance(device, Problem):
            return device
        if device is not None:
            devices.append(device)
    return Region(layout.version, len(living), tuple(devices), last_kernel_s, priority)


def _living(content: bytes, layout: _Layout, slots: int, field: str) -> list[int] | Problem:
    """Where the slots of living processes begin."""
    living: list[int] = []
    for slot in range(slots):
        at = layout.slots_at + slot * layout.slot_bytes
        (pid,) = struct.unpack_from("<i", content, at)
        if pid == 0:
            continue
        if pid < 0:
            return Problem(field=f"{field}.procs[{slot}].pid", message=f"is {pid}")
        if layout.sequence_at is not None and struct.unpack_from("<Q", content, at + layout.sequence_at)[0] & 1:
            return Problem(field=f"{field}.procs[{slot}]", message="is torn: it is being written")
        living.append(at)
    return living


def _device(content: bytes, layout: _Layout, living: list[int], index: int, field: str) -> DeviceUse | Problem | None:
    at = layout.uuids_at + index * UUID_BYTES
    raw = content[at : at + UUID_BYTES].partition(b"\0")[0]
    if not raw:
        return None
    if not (raw.isascii() and raw.decode("ascii").isprintable()):
        return Problem(field=f"{field}.uuids[{index}]", message="is no id of a GPU")
    limit_bytes, sm_limit = (
        struct.unpack_from("<Q", content, layout.limits_at + (of * DEVICES_MAX + index) * 8)[0] for of in (0, 1)
    )
    sums = [0] * 6
    for slot in living:
        memory = struct.unpack_from("<5Q", content, slot + 8 + index * layout.memory_bytes)
        utilised_at = slot + 8 + DEVICES_MAX * (layout.memory_bytes + 8) + index * layout.utilisation_bytes
        use = (*memory, struct.unpack_from("<3Q", content, utilised_at)[2])
        sums = [total + more for total, more in zip(sums, use, strict=True)]
    context, module, data, offset, total, sm_percent = sums
    # The total is written before its parts, and a counter that is taken below zero starts again at the top.
    if max(context, module, data, offset, total) > _MEMORY_MAX:
        return Problem(field=f"{field}.procs[].used[{index}]", message="is more memory than a GPU can have")
    if context + module + data > total:
        return Problem(field=f"{field}.procs[].used[{index}]", message="is torn: its parts are more than the total")
    if sm_percent > _SM_MAX or sm_limit > _SM_MAX:
        return Problem(field=f"{field}.device_util[{index}]", message="is no percentage")
    return DeviceUse(
        index, raw.decode("ascii"), limit_bytes, sm_limit, total, context, module, data, offset, sm_percent
    )
