"""From a text, YAML or JSON, to a configuration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from berth.contracts.base import Problem
from berth.rules.bounded_yaml import read_yaml
from berth.rules.scheduler_config.args import KINDS, PERCENT_MAX, misfit, read_args
from berth.rules.scheduler_config.plugins import ALWAYS_ON
from berth.rules.scheduler_config.profiles import Profile, SchedulerConfig, profile_of
from berth.rules.scheduler_config.quota_sharing import PLUGIN as QUOTAS
from berth.rules.scheduler_config.quota_sharing import why_not_shared
from berth.rules.scheduler_config.shapes import GROUP, KIND, Args, Document, PluginConfig, ProfileShape

PROFILES_MAX: Final = 64
NAME_MAX: Final = 253
DEFAULT_SCHEDULER: Final = "default-scheduler"
BACK_OFF_MAX_S: Final = 24 * 3600


def read_scheduler_config(text: str, *, is_shared: bool = True) -> SchedulerConfig | tuple[Problem, ...]:
    """The configuration in a text, or everything that is wrong with it.

    `is_shared`: other services than the solver can read the same text, so what is theirs may be said in it.
    """
    raw = read_yaml(text, "document")
    if isinstance(raw, Problem):
        return (raw,)
    try:
        document = msgspec.convert(raw, Document)
    except msgspec.ValidationError as error:
        return (misfit(error, ""),)
    problems = list(_about(document))
    profiles: dict[str, Profile] = {}
    shapes = document.profiles or [ProfileShape()]
    for at, shape in enumerate(shapes[:PROFILES_MAX]):
        path = f"profiles[{at}]"
        profile = _profile(shape, path, is_only=len(shapes) == 1)
        if not isinstance(profile, Profile):
            problems += profile
        elif profile.scheduler_name in profiles:
            message = f"{profile.scheduler_name} is the name of another profile too"
            problems.append(Problem(field=f"{path}.schedulerName", message=message))
        else:
            place = f"{path}.pluginConfig[{_place_of(QUOTAS, shape)}].args"
            for argument, why in why_not_shared(profile, profiles, is_shared=is_shared).items():
                problems.append(Problem(field=f"{place}.{argument}", message=why))
            profiles[profile.scheduler_name] = profile
    if problems:
        return tuple(problems)
    initial, longest = _back_off(document)
    return SchedulerConfig(profiles, initial, longest)


def _place_of(plugin: str, shape: ProfileShape) -> int:
    return next((at for at, config in enumerate(shape.plugin_config or ()) if config.name == plugin), 0)


def _about(document: Document) -> Iterator[Problem]:
    """What is wrong beside the profiles."""
    if document.api_version != GROUP:
        yield Problem(field="apiVersion", message=f"must be {GROUP}")
    if document.kind != KIND:
        yield Problem(field="kind", message=f"must be {KIND}")
    if document.extenders:
        yield Problem(field="extenders", message="extenders are not built: Berth calls nobody to decide")
    if document.parallelism is not None and document.parallelism <= 0:
        yield Problem(field="parallelism", message="must be greater than 0")
    yield from _percentage(document.percentage_of_nodes_to_score, "percentageOfNodesToScore")
    initial, longest = _back_off(document)
    if not 0 < initial <= BACK_OFF_MAX_S:
        yield Problem(field="podInitialBackoffSeconds", message=f"must be between 1 and {BACK_OFF_MAX_S}")
    if not initial <= longest <= BACK_OFF_MAX_S:
        message = f"must be between podInitialBackoffSeconds and {BACK_OFF_MAX_S}"
        yield Problem(field="podMaxBackoffSeconds", message=message)
    if document.profiles is not None and len(document.profiles) > PROFILES_MAX:
        yield Problem(field="profiles", message=f"has more than {PROFILES_MAX} entries")


def _back_off(document: Document) -> tuple[int, int]:
    initial, longest = document.pod_initial_backoff_seconds, document.pod_max_backoff_seconds
    return 1 if initial is None else initial, 10 if longest is None else longest


def _percentage(value: int | None, path: str) -> Iterator[Problem]:
    if value is not None and not 0 <= value <= PERCENT_MAX:
        yield Problem(field=path, message=f"{value} is not between 0 and {PERCENT_MAX}")


def _profile(shape: ProfileShape, path: str, *, is_only: bool) -> Profile | list[Problem]:
    problems = list(_percentage(shape.percentage_of_nodes_to_score, f"{path}.percentageOfNodesToScore"))
    name = shape.scheduler_name
    if name is None and is_only:
        name = DEFAULT_SCHEDULER
    if not name or len(name) > NAME_MAX:
        problems.append(Problem(field=f"{path}.schedulerName", message=f"must have 1 to {NAME_MAX} characters"))
    args: dict[str, Args] = {}
    for at, config in enumerate(shape.plugin_config or ()):
        place = f"{path}.pluginConfig[{at}]"
        found = _args(config, place)
        if config.name in args:
            problems.append(Problem(field=f"{place}.name", message=f"{config.name} is configured twice"))
        elif isinstance(found, list):
            problems += found
        elif found is not None:
            args[config.name] = found
    profile = profile_of(name or "", shape.plugins, args, f"{path}.plugins")
    if not isinstance(profile, Profile):
        problems += profile
        return problems
    return problems or profile


def _args(config: PluginConfig, path: str) -> Args | list[Problem] | None:
    if config.name in ALWAYS_ON and config.name not in KINDS:
        # Left unread they would be ignored: a default that holds is no argument that was understood.
        if config.args:
            return [Problem(field=path, message=f"arguments of {config.name} are not built")]
        return None
    if config.name not in KINDS and config.args:
        return [Problem(field=f"{path}.name", message=f"{config.name[:80]!r} is no plugin that takes arguments")]
    if config.name not in KINDS:
        return None
    return read_args(config.name, config.args or {}, f"{path}.args")
