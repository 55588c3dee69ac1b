"""What a ResourceManager's REST says: its nodes, and whether it is the active one of a pair."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from berth.contracts.base import Problem
from berth.yarn_operator.core.step import Manager
from berth.yarn_operator.core.units import Share

NODES_MAX: Final = 50_000
AMOUNT_MAX: Final = 1 << 40
_AMOUNTS: Final = ("usedMemoryMB", "availMemoryMB", "usedVirtualCores", "availableVirtualCores")


class Listing(NamedTuple):
    """NodeManagers by their ids (`host:port`), and what is wrong with others."""

    managers: dict[str, Manager]
    problems: tuple[Problem, ...] = ()


class _Nodes(msgspec.Struct, frozen=True):
    node: list[dict[str, Any]] | None = None


class _Document(msgspec.Struct, frozen=True):
    nodes: _Nodes | None = None


class _Info(msgspec.Struct, frozen=True, rename="camel"):
    ha_state: str = "ACTIVE"


class _InfoDocument(msgspec.Struct, frozen=True, rename="camel"):
    cluster_info: _Info


def read_listing(body: bytes) -> Listing | Problem:
    """The answer to `GET /ws/v1/cluster/nodes`; a problem when nothing of it can be used."""
    try:
        read = msgspec.json.decode(body, type=_Document)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        return Problem(field="nodes", message=f"is not readable: {error}"[:300])
    given: Sequence[dict[str, Any]] = (read.nodes.node if read.nodes else None) or ()
    if len(given) > NODES_MAX:
        return Problem(field="nodes.node", message=f"has more than {NODES_MAX} entries")
    managers: dict[str, Manager] = {}
    problems: list[Problem] = []
    for at, each in enumerate(given):
        name, state = each.get("id"), each.get("state")
        if not isinstance(name, str) or not name or len(name) > 300 or not isinstance(state, str):
            problems.append(Problem(field=f"nodes.node[{at}]", message="has no id, or no state"))
            continue
        amounts = [each.get(field, 0) for field in _AMOUNTS]
        bad = next(
            (field for field, amount in zip(_AMOUNTS, amounts, strict=True) if not _is_amount(field, amount)), ""
        )
        if bad:
            problems.append(Problem(field=f"nodes.node[{at}].{bad}", message=f"is no amount: {each[bad]!r}"[:200]))
            continue
        used_mb, free_mb, used_cores, free_cores = (int(amount) for amount in amounts)
        used = Share(used_cores, used_mb)
        # What is left is negative where more runs than is granted now.
        managers[name] = Manager(state, Share(max(0, used_cores + free_cores), max(0, used_mb + free_mb)), used)
    return Listing(managers, tuple(problems))


def is_active(body: bytes) -> bool:
    """Whether the answer to `GET /ws/v1/cluster/info` is that of the active one of a pair, or of one alone."""
    try:
        return msgspec.json.decode(body, type=_InfoDocument).cluster_info.ha_state == "ACTIVE"
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return False


def _is_amount(field: str, amount: object) -> bool:
    if isinstance(amount, bool) or not isinstance(amount, int | float) or not math.isfinite(amount):
        return False
    least = -AMOUNT_MAX if field.startswith("avail") else 0
    return least <= amount <= AMOUNT_MAX
