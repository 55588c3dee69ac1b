"""Feature gates of admission, by their names in the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from berth.contracts.base import Problem

POD_MUTATING: Final = "PodMutatingWebhook"
POD_VALIDATING: Final = "PodValidatingWebhook"
NODE_MUTATING: Final = "NodeMutatingWebhook"
NODE_VALIDATING: Final = "NodeValidatingWebhook"
CONFIG_MAP_VALIDATING: Final = "ConfigMapValidatingWebhook"
RESERVATION_MUTATING: Final = "ReservationMutatingWebhook"
QUOTA_MUTATING: Final = "ElasticMutatingWebhook"
QUOTA_VALIDATING: Final = "ElasticValidatingWebhook"
KEEPS_RESOURCES: Final = "ColocationProfileSkipMutatingResources"
FREE_SUB_PRIORITY: Final = "ColocationProfileSkipValidatingPriority"
QUOTA_TREES: Final = "MultiQuotaTree"
GUARANTEES_USE: Final = "ElasticQuotaGuaranteeUsage"
KEYS_MAY_DIFFER: Final = "ElasticQuotaEnableUpdateResourceKey"
NO_DEFAULT_QUOTA: Final = "DisableDefaultQuota"
IGNORES_OVERHEAD: Final = "ElasticQuotaIgnorePodOverhead"
PARENTS_TAKE_PODS: Final = "SupportParentQuotaSubmitPod"
BOOKS_PODS: Final = "EnableQuotaAdmission"
BOOKS_CHANGES: Final = "EnableQuotaAdmissionOnUpdate"
CHECKS_DEVICES: Final = "ValidatePodDeviceResource"
REQUIRES_LABELS: Final = "EnablePodEnhancedValidator"
KEEPS_DEVICES: Final = "DisableDeviceResourceSpec"

DEFAULTS: Final[Mapping[str, bool]] = {
    POD_MUTATING: True,
    POD_VALIDATING: True,
    NODE_MUTATING: False,
    NODE_VALIDATING: False,
    CONFIG_MAP_VALIDATING: False,
    RESERVATION_MUTATING: False,
    QUOTA_MUTATING: True,
    QUOTA_VALIDATING: True,
    KEEPS_RESOURCES: False,
    FREE_SUB_PRIORITY: False,
    QUOTA_TREES: False,
    GUARANTEES_USE: False,
    KEYS_MAY_DIFFER: False,
    NO_DEFAULT_QUOTA: False,
    IGNORES_OVERHEAD: False,
    PARENTS_TAKE_PODS: False,
    BOOKS_PODS: False,
    BOOKS_CHANGES: False,
    CHECKS_DEVICES: False,
    REQUIRES_LABELS: False,
    KEEPS_DEVICES: False,
}
"""Every gate that is known, and whether it is on unless somebody says otherwise."""


Gates: TypeAlias = frozenset[str]
"""The gates that are on."""

DEFAULT: Final[Gates] = frozenset(gate for gate, is_on in DEFAULTS.items() if is_on)


def read_gates(text: str) -> tuple[Gates, list[Problem]]:
    """Gates as Kubernetes writes them, `A=true,B=false`, over the defaults; what is no gate is a problem."""
    on = set(DEFAULT)
    problems: list[Problem] = []
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, _, value = part.partition("=")
        if name not in DEFAULTS:
            problems.append(Problem(field=name[:80], message="is no feature gate of admission"))
        elif value.lower() not in ("true", "false"):
            problems.append(Problem(field=name, message=f"{value[:20]!r} is neither true nor false"))
        elif value.lower() == "true":
            on.add(name)
        else:
            on.discard(name)
    return frozenset(on), problems
