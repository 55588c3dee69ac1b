"""The environment that gives a service these settings, for starting it as a child process."""

from __future__ import annotations

from typing import Any

import msgspec

from berth.runtime.settings import variable_of


def environment_of(settings: msgspec.Struct) -> dict[str, str]:
    """The variables that give exactly these settings."""
    values = {field.name: getattr(settings, field.name) for field in msgspec.structs.fields(type(settings))}
    return {variable_of(name): _written(value) for name, value in values.items() if value is not None and value != ""}


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value)
    if isinstance(value, set | frozenset):
        return ",".join(sorted(str(item) for item in value))
    if isinstance(value, dict | msgspec.Struct):
        return msgspec.json.encode(value).decode()
    return str(value)
