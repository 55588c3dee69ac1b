"""Files as HAMi-core lays them out, by its C structures: an own description of them, beside the product's."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

MAGIC = 19920718


class _MemoryV0(ctypes.LittleEndianStructure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("context", "module", "data", "offset", "total")]


class _MemoryV1(ctypes.LittleEndianStructure):
    _fields_ = [*_MemoryV0._fields_, ("unused", ctypes.c_uint64 * 3)]


class _UtilV0(ctypes.LittleEndianStructure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("dec", "enc", "sm")]


class _UtilV1(ctypes.LittleEndianStructure):
    _fields_ = [*_UtilV0._fields_, ("unused", ctypes.c_uint64 * 3)]


class _SlotV0(ctypes.LittleEndianStructure):
    _fields_ = [
        ("pid", ctypes.c_int32),
        ("hostpid", ctypes.c_int32),
        ("used", _MemoryV0 * 16),
        ("monitorused", ctypes.c_uint64 * 16),
        ("util", _UtilV0 * 16),
        ("status", ctypes.c_int32),
    ]


class _SlotV1(ctypes.LittleEndianStructure):
    _fields_ = [
        ("pid", ctypes.c_int32),
        ("hostpid", ctypes.c_int32),
        ("used", _MemoryV1 * 16),
        ("monitorused", ctypes.c_uint64 * 16),
        ("util", _UtilV1 * 16),
        ("status", ctypes.c_int32),
        ("seqlock", ctypes.c_uint64),
        ("unused", ctypes.c_uint64 * 2),
    ]


_SEMAPHORE = ctypes.c_uint64 * 4
_TABLES = [
    ("device_num", ctypes.c_uint64),
    ("uuids", (ctypes.c_char * 96) * 16),
    ("limit", ctypes.c_uint64 * 16),
    ("sm_limit", ctypes.c_uint64 * 16),
]
_COUNTS = [(name, ctypes.c_int32) for name in ("proc_num", "utilization_switch", "recent_kernel", "priority")]


class RegionV0(ctypes.LittleEndianStructure):
    _fields_ = [
        ("initialized_flag", ctypes.c_int32),
        ("sm_init_flag", ctypes.c_int32),
        ("owner_pid", ctypes.c_size_t),
        ("sem", _SEMAPHORE),
        *_TABLES,
        ("procs", _SlotV0 * 1024),
        *_COUNTS,
    ]


class RegionV1(ctypes.LittleEndianStructure):
    _fields_ = [
        ("initialized_flag", ctypes.c_int32),
        ("major_version", ctypes.c_uint32),
        ("minor_version", ctypes.c_uint32),
        ("sm_init_flag", ctypes.c_int32),
        ("owner_pid", ctypes.c_size_t),
        ("sem", _SEMAPHORE),
        *_TABLES,
        ("procs", _SlotV1 * 1024),
        *_COUNTS,
        ("last_kernel_time", ctypes.c_uint64),
        ("sem_postinit", _SEMAPHORE),
    ]


def a_region(layout: int, uuids: Sequence[str] = ("GPU-a",)) -> Any:
    """A region of one process that uses 100 bytes (10 of contexts, 20 of modules, 60 of data) and 7 % of each GPU."""
    region: Any = RegionV1() if layout else RegionV0()
    region.initialized_flag = MAGIC
    if layout:
        region.major_version, region.minor_version = 1, 2
        region.last_kernel_time = 1_000
    region.device_num = len(uuids)
    region.priority = 1
    region.proc_num = 1
    region.procs[0].pid = 7
    for at, uuid in enumerate(uuids):
        region.uuids[at].value = uuid.encode()
        region.limit[at] = 1_000 + at
        region.sm_limit[at] = 30 + at
        use(region, 0, at)
    return region


def use(region: Any, slot: int, device: int) -> None:
    """Let a process use the GPU as above."""
    used = region.procs[slot].used[device]
    used.context, used.module, used.data, used.offset, used.total = 10, 20, 60, 5, 100
    region.procs[slot].util[device].sm = 7


def content(region: Any) -> bytes:
    """The file: the structure, and the byte that the library writes behind it."""
    return bytes(region) + b"\0"
