"""Figures of services as people read them: words instead of field names, units that fit, ages instead of times.

The services answer with plain names and numbers, the unit last in the name (`memory_used_bytes`, `measured_at`); that
is what `--json` prints. Here they become `memory used 3.1 GiB` and `measured 2 s ago`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

Value = str | int | float
STATE_OF = " are"
"""`pods are: synced` qualifies `pods: 3`."""
SYNCED = "synced"


def fact_texts(facts: Mapping[str, Value], now: float) -> list[str]:
    """A short text for each figure, in the order given; empty values are left out."""
    texts = []
    for name, value in facts.items():
        if value == "" or name.endswith(STATE_OF):
            continue
        state = facts.get(name + STATE_OF, SYNCED)
        texts.append(_text(name, value, now) if state == SYNCED else f"{name} {state}")
    return texts


def _text(name: str, value: Value, now: float) -> str:
    if isinstance(value, int | float):
        for ending, shown in _UNITS.items():
            if name.endswith(ending):
                return f"{name.removesuffix(ending).replace('_', ' ')} {shown(float(value), now)}"
        value = f"{value:.6g}" if isinstance(value, float) else value
    return f"{name.replace('_', ' ')} {value}"


def _bytes(value: float, now: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.3g} {unit}"
        value /= 1024
    return f"{value:.4g} TiB"


def ago(value: float, now: float) -> str:
    """How long before `now` a time is, both in seconds."""
    seconds = max(0.0, now - value)
    if seconds < 120:
        return f"{seconds:.0f} s ago"
    return f"{seconds / 60:.0f} min ago" if seconds < 7200 else f"{seconds / 3600:.0f} h ago"


_UNITS: Mapping[str, Callable[[float, float], str]] = {
    "_bytes": _bytes,
    "_at": ago,
    "_milli": lambda value, now: f"{value / 1000:.4g} cores",
    "_us": lambda value, now: f"{value / 1000:.4g} ms",
    "_ms": lambda value, now: f"{value:.4g} ms",
    "_s": lambda value, now: f"{value:.3g} s",
}
