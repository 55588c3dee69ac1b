"""What a scheduler configuration says of how groups share goes before the settings; what is wrong with it is named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from berth.contracts.base import Problem
from berth.quota_manager.core.configured import configured
from berth.quota_manager.core.engine import Rules
from berth.quota_manager.core.made_quotas import Maker, QuotaObjects
from berth.rules.quota_of_pod import DEFAULT_GROUP, SYSTEM_GROUP

HOME = "koordinator-system"
RULES = Rules()


def text(*profiles: dict[str, Any]) -> str:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    shapes = [
        {"schedulerName": f"s{at}", "pluginConfig": [{"name": "ElasticQuota", "args": args}]}
        for at, args in enumerate(profiles)
    ]
    return json.dumps({**head, "profiles": shapes})


def test_what_it_says_goes_before_the_settings() -> None:
    said = {"enableRuntimeQuota": False, "enableMinQuotaScale": False, "enableCheckParentQuota": True}
    found = configured(RULES, HOME, text({**said, "quotaGroupNamespace": "quotas"}, {}, said))
    assert (found.rules.uses_runtime, found.rules.scales_min, found.rules.charging.checks_parents) == (
        False,
        False,
        True,
    )
    assert found.home == "quotas"
    assert not found.problems
    assert "enable_runtime_quota" in found.state


def test_what_it_does_not_say_is_as_the_settings_say() -> None:
    settings = Rules(uses_runtime=False, guarantees_use=True)
    found = configured(settings, "elsewhere", text({"monitorAllQuotas": True}))
    assert (found.rules, found.home, found.maxes) == (settings, "elsewhere", {})
    assert found.state == "says nothing of quotas"


def test_built_in_groups_are_made_with_their_max() -> None:
    found = configured(RULES, HOME, text({"defaultQuotaGroupMax": {"cpu": 10, "memory": "20Gi"}}))
    maker = Maker(1.0, 30.0, found.maxes)
    made = {each.command.name: each.command for each in maker.requests((), QuotaObjects(), found.home, 0.0, 1)}
    assert made[DEFAULT_GROUP].spec == {"max": {"cpu": 10, "memory": "20Gi"}}  # type: ignore[union-attr]
    assert made[SYSTEM_GROUP].spec["max"]["cpu"] == "1844674407370955"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("args", "field", "word"),
    [
        ({"defaultQuotaGroupMax": {"cpu": -1}}, "defaultQuotaGroupMax[cpu]", "negative"),
        ({"systemQuotaGroupMax": {"memory": "much"}}, "systemQuotaGroupMax[memory]", "quantity"),
        ({"quotaGroupNamespace": ""}, "quotaGroupNamespace", "1 to 63"),
        ({"quotaGroupNamespace": "No Home"}, "quotaGroupNamespace", "namespace"),
        ({"enableRuntimeQuota": "perhaps"}, "enableRuntimeQuota", "bool"),
    ],
)
def test_what_is_wrong_is_named_and_changes_nothing(args: dict[str, Any], field: str, word: str) -> None:
    found = configured(RULES, HOME, text(args))
    assert (found.rules, found.home, found.maxes) == (RULES, HOME, {})
    (problem,) = found.problems
    assert problem.field == f"profiles[0].pluginConfig[0].args.{field}"
    assert word in problem.message
    assert "the settings hold" in found.state


def test_profiles_that_disagree_are_refused() -> None:
    one, other = {"defaultQuotaGroupMax": {"cpu": 1}}, {"defaultQuotaGroupMax": {"cpu": 2}}
    (problem,) = configured(RULES, HOME, text(one, other)).problems
    assert problem.field == "profiles[1].pluginConfig[0].args.defaultQuotaGroupMax"
    assert "another profile" in problem.message


def test_a_file_that_cannot_be_read_is_a_problem() -> None:
    found = configured(RULES, HOME, Problem(field="/a", message="cannot be read"))
    assert found.rules == RULES
    assert "/a: cannot be read" in found.state
