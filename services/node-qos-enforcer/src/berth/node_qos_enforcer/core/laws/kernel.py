"""Settings of the whole kernel: memory that it keeps free, features of its scheduler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

VM: Final = "proc/sys/vm/"
SCHED: Final = "proc/sys/kernel/"
MM: Final = "sys/kernel/mm/"
_KIB: Final = 1024
_FREE_FACTORS: Final = 10_000
_FREE_KIB: Final = range(10_240, 10_485_760 + 1)
_SWITCH: Final = range(2)
_INT64: Final = range(2**63)
_SETTINGS: Final = (
    ("watermarkScaleFactor", f"{VM}watermark_scale_factor", range(10, 400 + 1)),
    ("memcgReapBackGround", f"{MM}memcg_reaper/reap_background", _SWITCH),
    ("schedGroupIdentityEnabled", f"{SCHED}sched_group_identity_enabled", _SWITCH),
    ("schedIdleSaverWmark", f"{SCHED}sched_idle_saver_wmark", _INT64),
    ("pageCacheLimitEnabled", f"{MM}pagecache_limit/enabled", _SWITCH),
)
"""Field of the strategy, file below the root of the node, what it may hold."""


def settings_of(strategy: Mapping[str, Any], memory_bytes: int | None) -> dict[str, str]:
    """What to write, by file. A value that the file cannot hold is not written; nothing is, while memory is unknown."""
    return dict(_settings(strategy, memory_bytes)) if memory_bytes else {}


def _settings(strategy: Mapping[str, Any], memory_bytes: int) -> Iterator[tuple[str, str]]:
    factor = strategy.get("minFreeKbytesFactor")
    if type(factor) is int:
        free_kib = memory_bytes // _KIB * factor // _FREE_FACTORS
        if free_kib in _FREE_KIB:
            yield f"{VM}min_free_kbytes", str(free_kib)
    for field, file, allowed in _SETTINGS:
        value = strategy.get(field)
        if isinstance(value, int) and int(value) in allowed:
            yield file, str(int(value))


def feature_words(wanted: Mapping[str, Any]) -> dict[str, str]:
    """The words of `sched_features` that have a feature on or off, by its name."""
    return {name: name if is_on else f"NO_{name}" for name, is_on in sorted(wanted.items()) if isinstance(is_on, bool)}
