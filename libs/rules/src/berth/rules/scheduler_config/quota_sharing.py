"""What ElasticQuotaArgs say of how groups share: quota-manager goes by it, for the pods of all profiles alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from berth.rules.scheduler_config.elastic_quota import ElasticQuotaArgs
from berth.rules.scheduler_config.profiles import Profile

PLUGIN: Final = "ElasticQuota"
SHARED: Final = {
    "default_quota_group_max": "defaultQuotaGroupMax",
    "system_quota_group_max": "systemQuotaGroupMax",
    "quota_group_namespace": "quotaGroupNamespace",
    "enable_check_parent_quota": "enableCheckParentQuota",
    "enable_runtime_quota": "enableRuntimeQuota",
    "enable_min_quota_scale": "enableMinQuotaScale",
}
"""By attribute, the arguments that say it."""
_NOBODYS: Final = ElasticQuotaArgs()


def quota_sharing(profile: Profile) -> dict[str, Any]:
    """What a profile says of it, by attribute: what differs from the defaults."""
    args = profile.args_of(PLUGIN, ElasticQuotaArgs)
    said = ((each, getattr(args, each)) for each in SHARED)
    return {each: value for each, value in said if value != getattr(_NOBODYS, each)}


def sharing_of(profiles: Mapping[str, Profile]) -> dict[str, Any]:
    """What all profiles together say of it, by attribute. They agree: others are refused as they are read."""
    said: dict[str, Any] = {}
    for profile in profiles.values():
        said.update(quota_sharing(profile))
    return said


def why_not_shared(profile: Profile, others: Mapping[str, Profile], *, is_shared: bool) -> dict[str, str]:
    """What of it cannot be honoured, by argument, and why. `is_shared`: quota-manager can read the same text."""
    said, theirs = quota_sharing(profile), sharing_of(others)
    if not is_shared:
        why = "is quota-manager's, which reads files alone: give it and placement-solver BERTH_SCHEDULER_CONFIG_FILE"
        return {SHARED[each]: why for each in said}
    why = "differs from what another profile says, and groups share in one way for all pods"
    return {SHARED[each]: why for each in said if each in theirs and theirs[each] != said[each]}
