"""The file with the solvers' configuration, as quota-manager finds it at its start."""

from __future__ import annotations

from pathlib import Path

from berth.quota_manager.configuration import configured_by
from berth.quota_manager.settings import Settings
from berth.runtime import load_settings

TEXT = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: ElasticQuota
    args: {enableRuntimeQuota: false}
"""


def test_no_file_is_no_word() -> None:
    settings = load_settings(Settings, {"BERTH_QUOTA_SCALE_MIN": "false"})
    assert configured_by(settings).rules == settings.rules


def test_a_file_goes_before_the_settings(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(TEXT)
    found = configured_by(load_settings(Settings, {"BERTH_SCHEDULER_CONFIG_FILE": str(path)}))
    assert (found.rules.uses_runtime, found.problems) == (False, ())


def test_a_file_that_is_not_there_is_told_by_its_path(tmp_path: Path) -> None:
    path = str(tmp_path / "none.yaml")
    settings = load_settings(Settings, {"BERTH_SCHEDULER_CONFIG_FILE": path})
    found = configured_by(settings)
    assert found.rules == settings.rules
    assert [each.field for each in found.problems] == [path]
