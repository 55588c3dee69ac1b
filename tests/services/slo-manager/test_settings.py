"""What the environment may say."""

import pytest

from berth.runtime import SettingsError, load_settings
from berth.slo_manager.settings import Settings


def test_the_config_map_is_named_in_full():
    assert load_settings(Settings, {}).config_map() == ("berth-system", "slo-controller-config")
    told = load_settings(Settings, {"BERTH_SLO_CONFIG_MAP": "koordinator-system/slo-controller-config"})
    assert told.config_map() == ("koordinator-system", "slo-controller-config")


@pytest.mark.parametrize("value", ["x", "/x", "x/", "a/b/c"])
def test_any_other_form_is_refused(value):
    with pytest.raises(SettingsError, match="BERTH_SLO_CONFIG_MAP"):
        load_settings(Settings, {"BERTH_SLO_CONFIG_MAP": value})
