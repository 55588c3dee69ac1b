"""Parsers of /proc: stat, meminfo, a process's stat, cpuinfo, the kernel command line.

Fixed formats refuse a line that does not parse; key-value files skip it, because kernels add keys. Nothing here reads
a file.
"""

from __future__ import annotations

from typing import NamedTuple

from berth.node_qos_enforcer.core.malformed import Malformed, counter, quoted

STAT = "/proc/stat"
MEMINFO = "/proc/meminfo"
PID_STAT = "/proc/<pid>/stat"
KIB = 1024
MAX_KEYS = 4_096


class ProcessStat(NamedTuple):
    """The head of `/proc/<pid>/stat`."""

    pid: int
    comm: str
    state: str
    ppid: int
    pgrp: int


class MemInfo(NamedTuple):
    """Node memory in bytes."""

    total_bytes: int
    free_bytes: int
    available_bytes: int


class RdtSwitches(NamedTuple):
    """Which resctrl features the kernel command line switches on by name."""

    cat: bool
    mba: bool


def parse_cpu_ticks(text: str) -> int:
    """Return the used ticks of all CPUs: user, nice, system, irq and softirq (not idle, iowait or steal).

    Raises:
        Malformed: without a complete `cpu` line.
    """
    for line in text.splitlines():
        words = line.split()
        if words and words[0] == "cpu":
            return _ticks(words)
    raise Malformed(STAT, "no cpu line")


def parse_per_cpu_ticks(text: str) -> dict[int, int]:
    """Return the used ticks by CPU id.

    Raises:
        Malformed: when there is no line of a single CPU, or one does not parse.
    """
    ticks: dict[int, int] = {}
    for line in text.splitlines():
        words = line.split()
        if words and words[0].startswith("cpu") and words[0] != "cpu":
            ticks[counter(STAT, "CPU id", words[0][3:])] = _ticks(words)
    if not ticks:
        raise Malformed(STAT, "no line of a single CPU")
    return ticks


def _ticks(words: list[str]) -> int:
    if len(words) < 8:
        raise Malformed(STAT, f"line {words[0]} has {len(words)} fields, needs 8")
    return sum(counter(STAT, f"{words[0]} field {index}", words[index]) for index in (1, 2, 3, 6, 7))


def parse_meminfo(text: str) -> MemInfo:
    """Parse node memory (also `nodeN/meminfo`, whose lines begin with `Node N`).

    Raises:
        Malformed: when MemTotal, MemFree or MemAvailable is missing or not a number of kB, or more is free than there
            is.
    """
    found: dict[str, int] = {}
    for line in text.splitlines()[:MAX_KEYS]:
        key, colon, rest = line.partition(":")
        key = key.split(" ")[-1]
        if colon and key in ("MemTotal", "MemFree", "MemAvailable") and key not in found:
            words = rest.split()
            if len(words) != 2 or words[1] != "kB":
                raise Malformed(MEMINFO, f"{key} is not a number of kB: {quoted(rest.strip())}")
            found[key] = counter(MEMINFO, key, words[0]) * KIB
    for key in ("MemTotal", "MemFree", "MemAvailable"):
        if key not in found:
            raise Malformed(MEMINFO, f"{key} is missing")
    info = MemInfo(found["MemTotal"], found["MemFree"], found["MemAvailable"])
    if info.free_bytes > info.total_bytes or info.available_bytes > info.total_bytes:
        raise Malformed(MEMINFO, "more memory free or available than there is")
    return info


def parse_pid_stat(text: str) -> ProcessStat:
    """Parse the head of a process's stat; the name may hold blanks and brackets, so the last `)` ends it.

    Raises:
        Malformed: when one of the five fields is missing or not what it should be.
    """
    head, opened, rest = text.strip().partition(" (")
    comm, closed, tail = rest.rpartition(")")
    words = tail.split()
    if not opened or not closed or len(words) < 3:
        raise Malformed(PID_STAT, "shorter than pid, name, state, parent and group")
    if len(words[0]) != 1:
        raise Malformed(PID_STAT, f"state is not one character: {quoted(words[0])}")
    pid = counter(PID_STAT, "pid", head)
    return ProcessStat(pid, comm, words[0], counter(PID_STAT, "ppid", words[1]), counter(PID_STAT, "pgrp", words[2]))


def parse_key_values(text: str) -> dict[str, str]:
    """Parse `key value` lines; a line of fewer words is skipped, further words are ignored."""
    pairs = (line.split(None, 2) for line in text.splitlines()[:MAX_KEYS])
    return {words[0]: words[1] for words in pairs if len(words) >= 2}


def parse_cpu_vendor(text: str) -> str:
    """Return the vendor of the first processor of /proc/cpuinfo; empty where the kernel names none (arm64)."""
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and key.strip() == "vendor_id":
            return value.strip()
    return ""


def parse_cmdline_rdt(text: str) -> RdtSwitches:
    """Tell which of cache allocation and bandwidth allocation the `rdt=` options of the kernel command line name."""
    options = {
        option for word in text.split() if word.startswith("rdt=") for option in word.removeprefix("rdt=").split(",")
    }
    return RdtSwitches(cat="l3cat" in options, mba="mba" in options)
