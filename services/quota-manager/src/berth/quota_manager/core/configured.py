"""What a KubeSchedulerConfiguration says of how groups share, over what the settings say.

It is read once, at the start, as Koordinator reads its arguments. One that cannot be used changes nothing and is told.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from berth.contracts.base import Problem
from berth.quota_manager.core.engine import Rules
from berth.rules.quota_of_pod import DEFAULT_GROUP, SYSTEM_GROUP
from berth.rules.scheduler_config import SchedulerConfig, read_scheduler_config, sharing_of


class Configured(NamedTuple):
    """How groups share. `home`: where the built-in groups are made, `maxes` with which max, by group.

    `said` are the arguments that count, by name and value; `problems` what is wrong with the configuration.
    """

    rules: Rules
    home: str
    maxes: Mapping[str, Mapping[str, Any]]
    said: Mapping[str, Any]
    problems: tuple[Problem, ...] = ()

    @property
    def state(self) -> str:
        """In one line, for people."""
        if self.problems:
            first = self.problems[0]
            return f"refused, the settings hold: {first.field}: {' '.join(first.message.split())}"[:500]
        return ", ".join(sorted(self.said)) or "says nothing of quotas"


def configured(rules: Rules, home: str, text: str | Problem) -> Configured:
    """`rules` and `home` are those of the settings. What the configuration says goes before them; a Problem: it cannot
    be had."""
    found = read_scheduler_config(text) if isinstance(text, str) else (text,)
    if not isinstance(found, SchedulerConfig):
        return Configured(rules, home, {}, {}, found)
    said = sharing_of(found.profiles)
    maxes = {
        group: said[argument]
        for group, argument in (
            (DEFAULT_GROUP, "default_quota_group_max"),
            (SYSTEM_GROUP, "system_quota_group_max"),
        )
        if argument in said
    }
    checks_parents = said.get("enable_check_parent_quota", rules.charging.checks_parents)
    shared = dataclasses.replace(
        rules,
        scales_min=said.get("enable_min_quota_scale", rules.scales_min),
        uses_runtime=said.get("enable_runtime_quota", rules.uses_runtime),
        charging=replace(rules.charging, checks_parents=checks_parents),
    )
    return Configured(shared, said.get("quota_group_namespace", home), maxes, said)
