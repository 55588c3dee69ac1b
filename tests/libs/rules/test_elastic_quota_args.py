"""ElasticQuotaArgs: Koordinator's defaults, what is read, what is refused by field."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from berth.rules.scheduler_config import DEFAULT, ElasticQuotaArgs, SchedulerConfig, read_scheduler_config


def read(args: dict[str, Any], *, is_shared: bool = True) -> ElasticQuotaArgs | dict[str, str]:
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "s", "pluginConfig": [{"name": "ElasticQuota", "args": args}]}],
    }
    found = read_scheduler_config(yaml.safe_dump(document), is_shared=is_shared)
    if isinstance(found, SchedulerConfig):
        return found.profiles["s"].args_of("ElasticQuota", ElasticQuotaArgs)
    return {each.field.removeprefix("profiles[0].pluginConfig[0].args."): each.message for each in found}


def test_what_nobody_says_is_as_in_koordinator() -> None:
    args = DEFAULT.args_of("ElasticQuota", ElasticQuotaArgs)
    assert (args.delay_evict_s, args.revoke_interval_s) == (120.0, 1.0)
    assert args.disable_default_quota_preemption
    assert not args.monitor_all_quotas


def test_times_and_switches_are_read() -> None:
    args = read(
        {"delayEvictTime": "2m30s", "revokePodInterval": "500ms", "disableDefaultQuotaPreemption": False}
        | {"quotaSnapshotUpdateInterval": "1m", "enableQueueHint": True}
    )
    assert isinstance(args, ElasticQuotaArgs)
    assert (args.delay_evict_s, args.revoke_interval_s) == (150.0, 0.5)
    assert not args.disable_default_quota_preemption


@pytest.mark.parametrize(
    ("field", "value", "word"),
    [
        ("delayEvictTime", "0s", "greater than 0"),
        ("revokePodInterval", "-1s", "greater than 0"),
        ("revokePodInterval", "soon", "not a duration"),
        ("quotaSnapshotUpdateInterval", "9000h", "at most 24h"),
        ("hookPlugins", [{"key": "a", "factoryKey": "b"}], "cannot be run"),
    ],
)
def test_a_wrong_argument_is_named(field: str, value: object, word: str) -> None:
    found = read({field: value})
    assert isinstance(found, dict)
    assert word in found[field]


@pytest.mark.parametrize(
    ("field", "value"),
    [("defaultQuotaGroupMax", {"cpu": 4}), ("quotaGroupNamespace", "quotas"), ("enableMinQuotaScale", False)],
)
def test_what_quota_manager_would_not_read_is_refused(field: str, value: object) -> None:
    """A ConfigMap is read by solvers alone."""
    assert isinstance(read({field: value}), ElasticQuotaArgs)
    found = read({field: value}, is_shared=False)
    assert isinstance(found, dict)
    assert "BERTH_SCHEDULER_CONFIG_FILE" in found[field]
