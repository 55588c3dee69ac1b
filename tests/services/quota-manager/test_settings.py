"""Settings are read from the environment and checked."""

import pytest

from berth.contracts.quota import QuotaRules
from berth.quota_manager.core.engine import Rules
from berth.quota_manager.settings import Settings
from berth.runtime import SettingsError, load_settings


def test_defaults_are_those_of_the_protocol():
    assert load_settings(Settings, {}).rules == Rules(
        scales_min=True, guarantees_use=False, uses_runtime=True, charging=QuotaRules()
    )


def test_switches_reach_the_core():
    environ = {"BERTH_QUOTA_SCALE_MIN": "false", "BERTH_QUOTA_GUARANTEE_USAGE": "true"}
    environ |= {"BERTH_QUOTA_DEFAULT_GROUP": "0", "BERTH_QUOTA_RUNTIME": "no"}
    assert load_settings(Settings, environ).rules == Rules(
        scales_min=False, guarantees_use=True, uses_runtime=False, charging=QuotaRules(uses_default=False)
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [("WINDOW_S", "-1"), ("WRITEBACK_INTERVAL_S", "nan"), ("WRITEBACKS_PER_S", "0"), ("LEASE_TTL_S", "1")],
)
def test_nonsense_is_refused_by_name(name, value):
    with pytest.raises(SettingsError, match=f"BERTH_{name}"):
        load_settings(Settings, {f"BERTH_{name}": value})
