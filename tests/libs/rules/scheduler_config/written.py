"""Configurations as people write them, and what is read from them."""

from __future__ import annotations

from typing import Any

import yaml

from berth.rules.scheduler_config import Profile, SchedulerConfig, read_scheduler_config

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
FILTERS = (
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
    "DynamicResources",
)
"""The constraints of a profile that says nothing."""


def config(**fields: Any) -> SchedulerConfig:
    """What is read from a document with these fields, which is right."""
    found = read_scheduler_config(yaml.safe_dump({**HEAD, **fields}))
    assert isinstance(found, SchedulerConfig), found
    return found


def profile(plugins: dict[str, Any] | None = None, **args: dict[str, Any]) -> Profile:
    """What is read from a document with one profile."""
    found = config(profiles=[shape(plugins, **args)])
    return found.profiles["s"]


def shape(plugins: dict[str, Any] | None = None, **args: dict[str, Any]) -> dict[str, Any]:
    """A profile as it is written, with the arguments of each plugin that is named."""
    return {
        "schedulerName": "s",
        "plugins": plugins,
        "pluginConfig": [{"name": name, "args": each} for name, each in args.items()],
    }


def problems(text: str | dict[str, Any]) -> dict[str, str]:
    """What is said against a document that is wrong, by field."""
    found = read_scheduler_config(text if isinstance(text, str) else yaml.safe_dump({**HEAD, **text}))
    assert not isinstance(found, SchedulerConfig)
    assert found
    return {problem.field: problem.message for problem in found}


def on(*names: str, **weights: int) -> dict[str, Any]:
    """A point at which these are enabled."""
    return {"enabled": [{"name": name} for name in names] + [{"name": n, "weight": w} for n, w in weights.items()]}


def off(*names: str) -> dict[str, Any]:
    """A point at which these are disabled."""
    return {"disabled": [{"name": name} for name in names]}
