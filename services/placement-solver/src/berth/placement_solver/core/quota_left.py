"""What quota groups have left for some kinds of pods, as rows of a model that counts them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from berth.contracts.quota import QuotaGroup
from berth.placement_solver.core.plan import Candidate
from berth.placement_solver.core.quota_limits import Bound
from berth.placement_solver.core.quotas import UNLIMITED, Quotas


class Left(NamedTuple):
    """Of one limit so much is left, at least 0; `charged` is what a pod of each kind takes of it."""

    left: int
    charged: tuple[int, ...]


def limits_of(kinds: Sequence[Candidate], quotas: Quotas) -> list[Left]:
    """Every limit by which a charge of one of the kinds is judged: see `Quotas.refusal`."""
    charged: dict[tuple[tuple[str, str], Bound, str], dict[int, int]] = {}
    left: dict[tuple[tuple[str, str], Bound, str], int] = {}
    for at, kind in enumerate(kinds):
        amounts = kind.charged if kind.quota is not None else {}
        for key, group, bound, limit, used in _judges(kind, quotas):
            for name in group.limits:
                asked, allowed = amounts.get(name, 0), limit.get(name, 0)
                if asked > 0 and allowed < UNLIMITED and not (bound == "min" and name not in group.min):
                    left[key, bound, name] = max(0, allowed - used.get(name, 0))
                    charged.setdefault((key, bound, name), {})[at] = asked
    return [Left(left[each], tuple(taken.get(at, 0) for at in range(len(kinds)))) for each, taken in charged.items()]


def _judges(
    kind: Candidate, quotas: Quotas
) -> Iterator[tuple[tuple[str, str], QuotaGroup, Bound, Mapping[str, int], Mapping[str, int]]]:
    """Groups with the limit that binds the pod there, and what is in use of it."""
    key = kind.quota
    group = quotas.groups.get(key) if key is not None else None
    if key is None or group is None:
        return
    if kind.non_preemptible:
        yield key, group, "min", group.min, quotas.used_for_good(key)
    yield key, group, "runtime", group.runtime, quotas.used(key)
    for name in group.ancestors:
        above_key = (key[0], name)
        above = quotas.groups.get(above_key)
        if above is not None:
            yield above_key, above, "max", above.max, quotas.used(above_key)
            if above.rules.checks_parents:
                yield above_key, above, "runtime", above.runtime, quotas.used(above_key)
