"""Cpu of a node that shows more than it has: pods with CPUs of their own take real ones, which count times the ratio.

Checked beside the plain fit, which knows nothing of it. The sums are the node's; by zone it is `charges`.
"""

from __future__ import annotations

from typing import Final

from berth.rules.amplification import amplify

INSUFFICIENT: Final = "Insufficient amplified cpu"


def amplified_use(requested_milli: int, own_cpus: int, ratio: float) -> int:
    """What is in use of a node's cpu, in thousandths, with the CPUs that pods own times the ratio.

    Unless they are more than all requests come to: then the two do not belong together, and the requests stand.
    """
    owned = 1000 * own_cpus
    return requested_milli - owned + amplify(owned, ratio) if 0 < owned <= requested_milli else requested_milli


def lacking_cpu(
    request_milli: int,
    *,
    allocatable_milli: int,
    requested_milli: int,
    own_cpus: int,
    ratio: float,
    is_bound: bool,
) -> int:
    """How much cpu a pod lacks on a node, in the thousandths that the node shows; 0: it fits.

    Args:
        request_milli: what the pod asks for; 0 always fits.
        allocatable_milli: what the node shows.
        requested_milli: what the pods there ask for, with CPUs of their own or without.
        own_cpus: how many different CPUs belong to pods there as their own.
        ratio: how much more the node shows than it has. Up to 1 this says nothing, and the plain fit is enough.
        is_bound: whether the pod gets CPUs of its own.
    """
    if ratio <= 1 or request_milli <= 0:
        return 0
    need = amplify(request_milli, ratio) if is_bound else request_milli
    return max(0, need - (allocatable_milli - amplified_use(requested_milli, own_cpus, ratio)))
