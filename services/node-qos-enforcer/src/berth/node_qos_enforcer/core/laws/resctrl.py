"""Parts of the last-level cache and of memory bandwidth, as lines of a resctrl group's `schemata`.

A part of the cache is a mask of its ways, without gaps. Memory bandwidth is a percentage on Intel's CPUs, and an eighth
of a GB/s on AMD's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from berth.contracts.base import Problem
from berth.contracts.names import ANNOTATION_RESCTRL
from berth.node_qos_enforcer.core.malformed import Malformed, quoted
from berth.rules.bounded_json import read_annotation

INTEL: Final = "GenuineIntel"
AMD: Final = "AuthenticAMD"
AMD_UNITS: Final = 160
"""All of the bandwidth in AMD's units, as the protocol has it: 25 GB/s, of which four fifths are had."""
AMD_UNLIMITED: Final = 2048
CACHE: Final = "L3"
BANDWIDTH: Final = "MB"


class Lines(NamedTuple):
    """Lines of `schemata`, each written by itself; None: left as it is."""

    cache: str | None = None
    bandwidth: str | None = None


class _Range(msgspec.Struct, frozen=True, rename="camel"):
    range: list[int] | None = None
    percent: int | None = None
    cache_id: int = msgspec.field(name="cacheID", default=0)


class _Part(msgspec.Struct, frozen=True, rename="camel"):
    schemata: _Range = _Range()
    schemata_per_cache: list[_Range] = []


class Request(msgspec.Struct, frozen=True):
    """What a pod asks for."""

    llc: _Part = _Part()
    mb: _Part = _Part()


def parse_mask(text: str) -> int:
    """The ways of a cache, as `cbm_mask` has them. Raises Malformed for what is no row of ones."""
    try:
        ways = int(text.strip(), 16)
    except ValueError:
        raise Malformed("cbm_mask", f"is not hexadecimal: {quoted(text.strip())}") from None
    if ways <= 0 or ways & (ways + 1) or ways.bit_length() > 64:
        raise Malformed("cbm_mask", f"is no row of ones: {quoted(text.strip())}")
    return ways


def cache_mask(ways: str, start_percent: int, end_percent: int) -> int:
    """The ways from one percentage of the cache to another; none, when the range is narrower than a way.

    Raises:
        Malformed: when `ways` is no row of ones, or the range is none within 0 and 100.
    """
    count = parse_mask(ways).bit_length()
    if not 0 <= start_percent < end_percent <= 100:
        raise Malformed("range", f"is none within 0 and 100: {start_percent}..{end_percent}")
    start, end = (math.ceil(count * percent / 100) for percent in (start_percent, end_percent))
    return ((1 << end) - 1) - ((1 << start) - 1)


def class_bandwidth(vendor: str, percent: int | None) -> int | None:
    """Memory bandwidth of a class; None leaves it. Of a vendor that is not known percentages count."""
    if percent is None or not 0 < percent <= 100:
        return None
    if vendor == AMD:
        return AMD_UNLIMITED if percent == 100 else AMD_UNITS * percent // 100
    return -(-percent // 10) * 10


def class_lines(
    *,
    cache_ids: Iterable[int],
    ways: str,
    vendor: str,
    start_percent: int | None,
    end_percent: int | None,
    bandwidth_percent: int | None,
) -> Lines:
    """The lines of a class: the same part of every cache."""
    ids = sorted(cache_ids)
    cache = None
    if start_percent is not None and end_percent is not None:
        try:
            mask = cache_mask(ways, start_percent, end_percent)
        except Malformed:
            mask = -1
        cache = _line(CACHE, dict.fromkeys(ids, f"{mask:x}")) if mask >= 0 else None
    value = class_bandwidth(vendor, bandwidth_percent)
    return Lines(cache, None if value is None else _line(BANDWIDTH, dict.fromkeys(ids, str(value))))


def request_of(annotations: Mapping[str, str]) -> Request | Problem | None:
    """What a pod asks for by its annotation; None: nothing."""
    return read_annotation(annotations, ANNOTATION_RESCTRL, Request)


def pod_lines(request: Request, *, cache_ids: Sequence[int], ways: str, vendor: str) -> Lines:
    """The lines of a pod's own group. One that would not say something of every cache is not written at all."""
    masks: dict[int, int] = {}
    if request.llc.schemata.range is not None and len(request.llc.schemata.range) == 2:
        general = _mask(ways, request.llc.schemata.range)
        if general is None:
            return Lines(None, _bandwidth_line(request, cache_ids, vendor))
        masks = dict.fromkeys(cache_ids, general)
    for each in request.llc.schemata_per_cache:
        mask = _mask(ways, each.range or [])
        if mask is not None:
            masks[each.cache_id] = mask
    is_whole = len(masks) == len(cache_ids) and all(masks.get(cache, 0) > 0 for cache in cache_ids)
    cache = _line(CACHE, {each: f"{masks[each]:x}" for each in sorted(cache_ids)}) if is_whole and masks else None
    return Lines(cache, _bandwidth_line(request, cache_ids, vendor))


def _bandwidth_line(request: Request, cache_ids: Sequence[int], vendor: str) -> str | None:
    if vendor not in (INTEL, AMD):
        return None
    values = dict.fromkeys(cache_ids, class_bandwidth(vendor, request.mb.schemata.percent) or 0)
    for each in request.mb.schemata_per_cache:
        value = class_bandwidth(vendor, each.percent)
        if value is not None and each.cache_id in values:
            values[each.cache_id] = value
    is_whole = bool(values) and all(value > 0 for value in values.values())
    return _line(BANDWIDTH, {each: str(values[each]) for each in sorted(values)}) if is_whole else None


def parse_schemata(text: str) -> dict[str, dict[int, str]]:
    """What `schemata` says, by line and by cache; what is malformed is left out."""
    lines: dict[str, dict[int, str]] = {}
    for line in text.splitlines():
        prefix, colon, rest = line.strip().partition(":")
        if not colon or ":" in rest:
            continue
        parts = (part.partition("=") for part in rest.split(";"))
        lines[prefix] = {
            int(cache): value.strip()
            for cache, equals, value in parts
            if equals and cache.strip().isascii() and cache.strip().isdigit()
        }
    return lines


def _mask(ways: str, limits: Sequence[int]) -> int | None:
    if len(limits) != 2:
        return None
    try:
        return cache_mask(ways, *limits)
    except Malformed:
        return None


def _line(prefix: str, values: Mapping[int, str]) -> str:
    return f"{prefix}:" + "".join(f"{cache}={value};" for cache, value in values.items()) + "\n"
