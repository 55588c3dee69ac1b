"""Parsers of /proc: stat, meminfo, cpuinfo, cmdline, and the key-value form shared with files of control groups.

Fixed formats refuse a line that does not parse; key-value files skip it, because kernels add keys. Nothing here reads
a file.
"""

from __future__ import annotations

from typing import NamedTuple

from berth.node_qos_enforcer.core.malformed import Malformed, counter, quoted

STAT = "/proc/stat"
MEMINFO = "/proc/meminfo"
KIB = 1024
MAX_KEYS = 4_096


class MemInfo(NamedTuple):
    """Node memory in bytes."""

    total_bytes: int
    free_bytes: int
    available_bytes: int

    @property
    def used_bytes(self) -> int:
        """Memory that would not come back by dropping clean pages."""
        return self.total_bytes - self.available_bytes


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


def parse_key_values(text: str) -> dict[str, str]:
    """Parse `key value` lines; a line of fewer words is skipped, further words are ignored."""
    pairs = (line.split(None, 2) for line in text.splitlines()[:MAX_KEYS])
    return {words[0]: words[1] for words in pairs if len(words) >= 2}


def value_of(text: str, key: str) -> str | None:
    """Return one value of `key value` lines, as `parse_key_values` does, without the others; None without one."""
    begin = text.rfind(f"\n{key} ") + 1
    if not begin and not text.startswith(f"{key} "):
        return parse_key_values(text).get(key)
    begin += len(key) + 1
    end = text.find("\n", begin)
    value = text[begin:] if end < 0 else text[begin:end]
    return value if value.isalnum() else parse_key_values(text).get(key)


class Rdt(NamedTuple):
    """What the kernel was started with for caches (`l3cat`) and for memory bandwidth (`mba`)."""

    cat: bool
    mba: bool


class Cpu(NamedTuple):
    """Who made the CPUs, what they can do, and what of caches and bandwidth the kernel was told to have."""

    vendor: str = ""
    flags: frozenset[str] = frozenset()
    rdt: Rdt = Rdt(False, False)


UNKNOWN_CPU = Cpu()


def parse_vendor(text: str) -> str:
    """Return who made the CPUs, by /proc/cpuinfo; empty where it does not say (arm64)."""
    line = next((line for line in text.splitlines() if line.startswith("vendor_id")), "")
    return line.partition(":")[2].strip()


def parse_cpu_flags(text: str) -> frozenset[str]:
    """Return what the first CPU of /proc/cpuinfo can do."""
    line = next((line for line in text.splitlines() if line.startswith("flags")), "")
    return frozenset(line.partition(":")[2].split())


def parse_rdt(text: str) -> Rdt:
    """Read `rdt=` of the kernel's command line."""
    options = {option for word in text.split() if word.startswith("rdt=") for option in word[4:].split(",")}
    return Rdt("l3cat" in options, "mba" in options)
