"""Values of the classes LSR, LS and BE, for pods by their label and for those without one."""

from __future__ import annotations

from typing import TypeVar

from berth.rules.cpus.qos import BE, BEST_EFFORT, BURSTABLE, GUARANTEED, LS, LSE, LSR

T = TypeVar("T")


def by_label(lsr: T, ls: T, be: T) -> dict[str, T]:
    """The value of each label; LSE has no configuration of its own, and goes by LSR's."""
    return {LSE: lsr, LSR: lsr, LS: ls, BE: be}


def by_kube_qos(guaranteed: T, ls: T, be: T) -> dict[str, T]:
    """The value of each of Kubernetes' classes."""
    return {GUARANTEED: guaranteed, BURSTABLE: ls, BEST_EFFORT: be}
