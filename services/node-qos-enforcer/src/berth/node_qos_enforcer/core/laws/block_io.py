"""Limits and weights of disks, as lines of the files that hold them: `blkio.*` of version 1, `io.*` of version 2."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from berth.contracts.base import Problem

READ_IOPS: Final = "blkio.throttle.read_iops_device"
READ_BPS: Final = "blkio.throttle.read_bps_device"
WRITE_IOPS: Final = "blkio.throttle.write_iops_device"
WRITE_BPS: Final = "blkio.throttle.write_bps_device"
WEIGHT: Final = "blkio.cost.weight"
LATENCY: Final = "blkio.cost.qos"
MODEL: Final = "blkio.cost.model"
THROTTLES: Final = (READ_IOPS, READ_BPS, WRITE_IOPS, WRITE_BPS)
IO_MAX: Final = "io.max"
IO_WEIGHT: Final = "io.weight"
IO_LATENCY: Final = "io.cost.qos"
IO_MODEL: Final = "io.cost.model"
MAX: Final = "max"

Amount = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Percent = Annotated[int, Meta(ge=0, le=100)]


class Limits(msgspec.Struct, frozen=True, rename="camel"):
    """`ioCfg` of an entry: bytes and operations a second (0: no limit), latencies in microseconds."""

    read_iops: Amount = msgspec.field(name="readIOPS", default=0)
    write_iops: Amount = msgspec.field(name="writeIOPS", default=0)
    read_bps: Amount = msgspec.field(name="readBPS", default=0)
    write_bps: Amount = msgspec.field(name="writeBPS", default=0)
    io_weight_percent: Annotated[int, Meta(ge=1, le=100)] = 100
    read_latency: Amount = 3_000
    write_latency: Amount = 3_000
    read_latency_percent: Percent = 95
    write_latency_percent: Percent = 95
    enable_user_model: bool = False
    model_read_bps: Amount = msgspec.field(name="modelReadBPS", default=0)
    model_write_bps: Amount = msgspec.field(name="modelWriteBPS", default=0)
    model_read_seq_iops: Amount = msgspec.field(name="modelReadSeqIOPS", default=0)
    model_write_seq_iops: Amount = msgspec.field(name="modelWriteSeqIOPS", default=0)
    model_read_rand_iops: Amount = msgspec.field(name="modelReadRandIOPS", default=0)
    model_write_rand_iops: Amount = msgspec.field(name="modelWriteRandIOPS", default=0)


class Block(msgspec.Struct, frozen=True, rename="camel"):
    """An entry of `blocks`: which disk, and what holds for it."""

    name: str = ""
    kind: str = msgspec.field(name="type", default="")
    io_cfg: Limits = Limits()


FREE: Final = Limits()
"""No limit at all."""


def blocks_of(raw: object, field: str) -> tuple[Block, ...] | Problem:
    """Read entries of a strategy or an annotation."""
    try:
        return tuple(msgspec.convert(raw, list[Block]))
    except msgspec.ValidationError as error:
        return Problem(field=field[:300], message=f"is not readable: {error}"[:300])


def group_lines(disk: str, limits: Limits) -> dict[str, str]:
    """Lines of a group of pods on version 1, by file. Those of `FREE` let go of the disk."""
    return {
        READ_IOPS: f"{disk} {limits.read_iops}",
        READ_BPS: f"{disk} {limits.read_bps}",
        WRITE_IOPS: f"{disk} {limits.write_iops}",
        WRITE_BPS: f"{disk} {limits.write_bps}",
        WEIGHT: f"{disk} {limits.io_weight_percent}",
    }


def root_lines(disk: str, limits: Limits | None) -> dict[str, str]:
    """Lines of the root on version 1, by file; None lets go of the disk."""
    if limits is None:
        return {LATENCY: f"{disk} enable=0"}
    return {
        LATENCY: f"{disk} enable=1 ctrl=user {_latencies(limits)}",
        MODEL: f"{disk} ctrl=user {_model(limits)}" if limits.enable_user_model else f"{disk} ctrl=auto",
    }


def group_lines_v2(disk: str, limits: Limits) -> dict[str, str]:
    """Lines of a group of pods on version 2, by file."""
    amounts = {"rbps": limits.read_bps, "wbps": limits.write_bps, "riops": limits.read_iops, "wiops": limits.write_iops}
    return {
        IO_MAX: f"{disk} " + " ".join(f"{key}={amount or MAX}" for key, amount in amounts.items()),
        IO_WEIGHT: f"{disk} {limits.io_weight_percent}",
    }


def root_lines_v2(disk: str, limits: Limits | None) -> dict[str, str]:
    """Lines of the root on version 2, by file; None lets go of the disk."""
    if limits is None:
        return {IO_LATENCY: f"{disk} enable=0"}
    model = f"ctrl=user model=linear {_model(limits)}" if limits.enable_user_model else "ctrl=auto"
    return {IO_LATENCY: f"{disk} enable=1 ctrl=user {_latencies(limits)}", IO_MODEL: f"{disk} {model}"}


def needs_write(current: str, new: str) -> bool:
    """Whether a line has to be written to a file of version 1: one of the value 0 only where the disk has a line."""
    lines = [line.strip() for line in current.splitlines()]
    disk, _, value = new.partition(" ")
    if value == "0":
        return any(line.split(" ", 1)[0] == disk for line in lines)
    return new not in lines


def needs_write_v2(file: str, current: str, new: str) -> bool:
    """Whether a line has to be written to a file of version 2.

    The kernel prints more keys than were written, numbers with decimals, and no line for a disk without limits.
    """
    disk, values = _parsed(new)
    now = dict(map(_parsed, current.splitlines())).get(disk)
    if now is not None:
        return any(now.get(key) != value for key, value in values.items())
    if file == IO_MAX:
        return any(value != MAX for value in values.values())
    return values not in ({"": 100.0}, {"enable": 0.0})


def _parsed(line: str) -> tuple[str, dict[str, Any]]:
    disk, *words = line.split() or [""]
    pairs = (word.rpartition("=") for word in words)
    return disk, {key: _number(value) for key, _, value in pairs}


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _latencies(limits: Limits) -> str:
    return (
        f"rpct={limits.read_latency_percent} rlat={limits.read_latency}"
        f" wpct={limits.write_latency_percent} wlat={limits.write_latency}"
    )


def _model(limits: Limits) -> str:
    return (
        f"rbps={limits.model_read_bps} rseqiops={limits.model_read_seq_iops}"
        f" rrandiops={limits.model_read_rand_iops} wbps={limits.model_write_bps}"
        f" wseqiops={limits.model_write_seq_iops} wrandiops={limits.model_write_rand_iops}"
    )
