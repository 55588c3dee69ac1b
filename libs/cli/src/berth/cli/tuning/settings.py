"""What is tuned: the weights of the node cost, as they stand in a configuration."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from berth.cli.errors import CliError
from berth.contracts.base import Problem
from berth.placement_solver.core.policy import Policy, Weights, policy_of
from berth.rules.bounded_yaml import read_yaml
from berth.rules.scheduler_config import DEFAULT, BerthArgs, SchedulerConfig, read_scheduler_config
from berth.rules.scheduler_config.shapes import GROUP, KIND

Settings: TypeAlias = dict[str, float | list[float]]
"""By path, such as `turningOver.gpusLeft`."""
PLUGIN: Final = "Berth"
SHORT: Final = "coresShort"
DIGITS: Final = 3
"""Of a value that is tried: what is printed is what was tried."""


class Knob(NamedTuple):
    """A setting: how large its changes are where it is about 0, and between what it may lie."""

    path: str
    unit: float
    least: float
    most: float


def _knobs(part: str, *more: Knob) -> tuple[Knob, ...]:
    return (
        Knob(f"{part}.shareDenied", 10.0, 0.0, 300.0),
        Knob(f"{part}.cardBroken", 2.0, 0.0, 100.0),
        Knob(f"{part}.{SHORT}", 0.5, 0.0, 8.0),
        Knob(f"{part}.coresLeft", 1.0, -50.0, 50.0),
        Knob(f"{part}.nodeBroken", 3.0, 0.0, 200.0),
        Knob(f"{part}.gpusLeft", 5.0, -200.0, 200.0),
        Knob(f"{part}.step", 0.2, 0.02, 10.0),
        *more,
    )


FILLING: Final = _knobs("filling")
TURNING_OVER: Final = _knobs("turningOver", Knob("turningOver.stranded", 20.0, 0.0, 400.0))
BOTH: Final = (
    Knob("scarce", 5.0, 0.0, 100.0),
    Knob("wholeReserve", 0.02, 0.0, 0.3),
    Knob("wholeReserveOfAsked", 0.1, 0.0, 1.0),
)


def current(configuration: str | None, scheduler: str) -> Settings:
    """What holds for the pods of a scheduler name. Raises CliError where the configuration cannot be used."""
    profile = DEFAULT
    if configuration is not None:
        found = read_scheduler_config(configuration)
        if not isinstance(found, SchedulerConfig):
            raise CliError(f"the configuration cannot be used: {found[0].field}: {found[0].message}")
        profile = found.profiles.get(scheduler, DEFAULT)
    if profile.decides != "native":
        raise CliError(f"the profile of {scheduler} is decided by kube-scheduler's scores: no weight matters there")
    policy = policy_of(profile.args_of(PLUGIN, BerthArgs).node_cost, Policy())
    return {
        **_weights("filling", policy.filling),
        **_weights("turningOver", policy.turning_over),
        "turningOver.stranded": policy.turning_over.stranded,
        "scarce": policy.scarce,
        "wholeReserve": policy.whole_reserve,
        "wholeReserveOfAsked": policy.whole_reserve_of_asked,
    }


def _weights(part: str, weights: Weights) -> Settings:
    return {
        f"{part}.shareDenied": weights.share_denied,
        f"{part}.cardBroken": weights.card_broken,
        f"{part}.{SHORT}": [weight for _, weight in weights.cores_short],
        f"{part}.coresLeft": weights.cores_left,
        f"{part}.nodeBroken": weights.node_broken,
        f"{part}.gpusLeft": weights.gpus_left,
        f"{part}.step": weights.step,
    }


def moved(settings: Settings, knobs: Sequence[Knob], spread: float, rng: np.random.Generator) -> Settings:
    """With one, two or three of the knobs turned by chance; the weights of `coresShort` by one factor."""
    result = dict(settings)
    for at in rng.permutation(len(knobs))[: int(rng.integers(1, 4))].tolist():
        knob, value = knobs[at], settings[knobs[at].path]
        by = spread * float(rng.standard_normal())
        if isinstance(value, list):
            factor = min(max(float(np.exp(by)), knob.least), knob.most)
            result[knob.path] = [_short(each * factor) for each in value]
        else:
            turned = value + max(abs(value), knob.unit) * by
            result[knob.path] = _short(min(max(turned, knob.least), knob.most))
    return result


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def changed(settings: Settings, before: Settings) -> Settings:
    """Those that are others than before."""
    return {path: value for path, value in settings.items() if value != before[path]}


def nested(settings: Settings) -> dict[str, Any]:
    """As `nodeCost` has them."""
    found: dict[str, Any] = {}
    for path, value in settings.items():
        part, _, name = path.rpartition(".")
        (found.setdefault(part, {}) if part else found)[name] = value
    return found


def configuration_with(settings: Settings, configuration: str | None, scheduler: str) -> str:
    """The configuration with these settings in the profile of a scheduler name, whatever it said of them."""
    document = _document(configuration)
    profiles = document["profiles"] = [dict(each) for each in document.get("profiles") or []]
    profile = next((each for each in profiles if each.get("schedulerName") == scheduler), None)
    if profile is None:
        profile = {"schedulerName": scheduler}
        profiles.append(profile)
    entries = [dict(each) for each in profile.get("pluginConfig") or []]
    own = next((each for each in entries if each.get("name") == PLUGIN), None)
    if own is None:
        own = {"name": PLUGIN}
        entries.append(own)
    args = dict(own.get("args") or {})
    own["args"] = {**args, "nodeCost": _merged(args.get("nodeCost") or {}, nested(settings))}
    profile["pluginConfig"] = entries
    return json.dumps(document)


def _merged(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    parts = {key: {**(before.get(key) or {}), **value} for key, value in after.items() if isinstance(value, dict)}
    return {**before, **after, **parts}


def _document(configuration: str | None) -> dict[str, Any]:
    if configuration is None:
        return {"apiVersion": GROUP, "kind": KIND}
    found = read_yaml(configuration, "configuration")
    if isinstance(found, Problem):
        raise CliError(f"the configuration cannot be used: {found.message}")
    return found
