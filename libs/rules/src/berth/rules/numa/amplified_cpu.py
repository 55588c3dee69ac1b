"""Cpu of a node that shows more than it has: pods with CPUs of their own take real ones, which count times the ratio.

Checked beside the plain fit, which knows nothing of it. The sums are the node's; by zone it is `charges`.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from berth.rules.amplification import amplify

INSUFFICIENT: Final = "Insufficient amplified cpu"
INVALID: Final = "node(s) invalid CPU amplification ratio"

Ints: TypeAlias = npt.NDArray[np.int64]


def amplified_use(requested_milli: int, own_cpus: int, ratio: float) -> int:
    """What is in use of a node's cpu, in thousandths, with the CPUs that pods own times the ratio.

    Unless they are more than all requests come to: then the two do not belong together, and the requests stand.
    """
    owned = 1000 * own_cpus
    return requested_milli - owned + amplify(owned, ratio) if 0 < owned <= requested_milli else requested_milli


def amplified_uses(requested_milli: Ints, own_cpus: Ints, ratios: npt.NDArray[np.float64]) -> Ints:
    """What `amplified_use` says of each of many nodes; ratios are 1 at least."""
    owned = 1000 * own_cpus
    more = np.ceil(owned * ratios).astype(np.int64) - owned
    uses: Ints = requested_milli + np.where(owned <= requested_milli, more, 0)
    return uses


def lacking_cpu(
    request_milli: int,
    *,
    allocatable_milli: int,
    requested_milli: int,
    own_cpus: int,
    ratio: float,
    own_milli: int = 0,
) -> int:
    """How much cpu a pod lacks on a node, in the thousandths that the node shows; 0: it fits.

    Args:
        request_milli: what the pod asks for; 0 always fits.
        allocatable_milli: what the node shows.
        requested_milli: what the pods there ask for, with CPUs of their own or without.
        own_cpus: how many different CPUs belong to pods there as their own.
        ratio: how much more the node shows than it has. Up to 1 this says nothing, and the plain fit is enough.
        own_milli: how much of the request the pod gets as CPUs of its own, which are real ones.
    """
    if ratio <= 1 or request_milli <= 0:
        return 0
    need = request_milli - own_milli + amplify(own_milli, ratio)
    return max(0, need - (allocatable_milli - amplified_use(requested_milli, own_cpus, ratio)))
