"""The file with a KubeSchedulerConfiguration, read once."""

from __future__ import annotations

from pathlib import Path

from berth.contracts.base import Problem
from berth.quota_manager.core.configured import Configured, configured
from berth.quota_manager.settings import Settings
from berth.rules.bounded_yaml import TEXT_MAX


def configured_by(settings: Settings) -> Configured:
    """How groups share, by the settings and the file that they name."""
    path = settings.scheduler_config_file
    if not path:
        return Configured(settings.rules, settings.quota_namespace, {}, {})
    try:
        with Path(path).open(encoding="utf-8") as file:
            text: str | Problem = file.read(TEXT_MAX + 1)
    except (OSError, UnicodeDecodeError) as error:
        text = Problem(field=path, message=f"cannot be read: {error}"[:300])
    return configured(settings.rules, settings.quota_namespace, text)
