"""Koordinator's ElasticQuotaArgs: shape, defaults, and what is refused in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from berth.contracts.base import Problem
from berth.resources.amounts import parse_amounts
from berth.rules.durations import parse_duration_s
from berth.rules.scheduler_config.shapes import Args, Strict

HOME: Final = "koordinator-system"
SECONDS_MAX: Final = 24 * 3600
NAMESPACE_MAX: Final = 63
NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")

ResourceList: TypeAlias = dict[str, str | int | float]


class HookPlugin(Strict, frozen=True, kw_only=True):
    """A plug-in of the peer, which is compiled into it; none is taken."""

    key: str = ""
    factory_key: str = ""
    factory_args: Any = None


class ElasticQuotaArgs(Args, frozen=True, kw_only=True):
    """ElasticQuotaArgs; durations as Go writes them.

    How groups share (`quota_sharing.py`) is quota-manager's, and one for all profiles. The maxes are those that the
    built-in groups are made with.

    `monitor_all_quotas`: groups that stay above their runtime for `delay_evict_time` give back by eviction, whoever
    waits or not; looked for every `revoke_pod_interval`. `disable_default_quota_preemption`: pods of the default group
    leave for nobody of their own group. Queue hints are the peer's own: pods are woken by what concerns them, whatever
    is said here.
    """

    delay_evict_time: str = "120s"
    revoke_pod_interval: str = "1s"
    default_quota_group_max: ResourceList = {}
    system_quota_group_max: ResourceList = {}
    quota_group_namespace: str = HOME
    monitor_all_quotas: bool = False
    enable_check_parent_quota: bool = False
    enable_runtime_quota: bool = True
    enable_min_quota_scale: bool = True
    disable_default_quota_preemption: bool = True
    enable_queue_hint: bool = False
    quota_snapshot_update_interval: str = "120s"
    hook_plugins: tuple[HookPlugin, ...] = ()

    @property
    def delay_evict_s(self) -> float:
        """How long a group has to be over its runtime, in seconds."""
        return parse_duration_s(self.delay_evict_time)

    @property
    def revoke_interval_s(self) -> float:
        """How often that is looked for, in seconds."""
        return parse_duration_s(self.revoke_pod_interval)


def problems_of(args: ElasticQuotaArgs, path: str) -> Iterator[Problem]:
    """What is wrong with the arguments. `path` is where they stand."""
    for field, text in (
        ("delayEvictTime", args.delay_evict_time),
        ("revokePodInterval", args.revoke_pod_interval),
        ("quotaSnapshotUpdateInterval", args.quota_snapshot_update_interval),
    ):
        yield from _duration(text, f"{path}.{field}")
    for field, given in (
        ("defaultQuotaGroupMax", args.default_quota_group_max),
        ("systemQuotaGroupMax", args.system_quota_group_max),
    ):
        for place, message in parse_amounts(given, f"{path}.{field}")[1]:
            yield Problem(field=place, message=message)
    home = args.quota_group_namespace
    if not 0 < len(home) <= NAMESPACE_MAX:
        yield Problem(field=f"{path}.quotaGroupNamespace", message=f"must have 1 to {NAMESPACE_MAX} characters")
    elif not NAMESPACE.fullmatch(home):
        yield Problem(field=f"{path}.quotaGroupNamespace", message=f"{home!r} is no name of a namespace")
    if args.hook_plugins:
        message = "plug-ins that are compiled into Koordinator cannot be run here"
        yield Problem(field=f"{path}.hookPlugins", message=message)


def _duration(text: str, path: str) -> Iterator[Problem]:
    try:
        seconds = parse_duration_s(text)
    except ValueError as error:
        yield Problem(field=path, message=str(error))
        return
    if not 0 < seconds <= SECONDS_MAX:
        yield Problem(field=path, message=f"must be greater than 0 and at most {SECONDS_MAX // 3600}h")
