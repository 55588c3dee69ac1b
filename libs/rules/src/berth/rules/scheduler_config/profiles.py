"""Profiles: what holds for the pods of one scheduler name, with the defaults merged as kube-scheduler merges them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar, cast

from berth.contracts.base import Problem
from berth.contracts.names import SCHEDULER_NAME
from berth.rules.queueing.back_off import BackOff
from berth.rules.scheduler_config.args import KINDS, BerthArgs
from berth.rules.scheduler_config.plugins import (
    ALWAYS_ON,
    BIND,
    DEFAULTS,
    FILTER,
    KNOWN,
    NEEDED,
    POINTS,
    PRE_ENQUEUE,
    PRE_SCORE,
    QUEUE_SORT,
    SCORE,
    SORTS_AS_BERTH,
    TOGETHER,
    WITHOUT_EFFECT,
)
from berth.rules.scheduler_config.shapes import Args, PluginRef, Plugins, PluginSet

Decides: TypeAlias = Literal["native", "kube-scheduler"]
A = TypeVar("A", bound=Args)

ALL: Final = "*"
SCORE_SUM_MAX: Final = 2**63 - 1


class Profile(NamedTuple):
    """What holds for the pods of one scheduler name.

    `points` has the plugins of each extension point in the order in which they run, `weights` those that score (at
    least 1), `args` the arguments of every plugin that takes some, defaults with them. `decides`: what chooses among
    the nodes that fit, Berth's node cost or the sum of the scores.
    """

    scheduler_name: str
    points: Mapping[str, tuple[str, ...]]
    weights: Mapping[str, int]
    args: Mapping[str, Args]
    decides: Decides = "native"

    @property
    def constraints(self) -> tuple[str, ...]:
        """Plugins that rule nodes out."""
        return self.points[FILTER]

    def args_of(self, plugin: str, kind: type[A]) -> A:
        """The arguments of a plugin."""
        return cast(A, self.args.get(plugin) or kind().completed())


class SchedulerConfig(NamedTuple):
    """A configuration as read: profiles by scheduler name, and back-off of pods in seconds."""

    profiles: Mapping[str, Profile]
    initial_back_off_s: int = 1
    max_back_off_s: int = 10

    @property
    def back_off(self) -> BackOff:
        """How long a pod is left alone after each of its refusals."""
        return BackOff(self.initial_back_off_s * 1_000, self.max_back_off_s * 1_000)


def merged(custom: Plugins | None, path: str) -> tuple[dict[str, tuple[str, ...]], dict[str, int], list[Problem]]:
    """Plugins by extension point, weights of those that score, and what is wrong.

    As in kube-scheduler: the defaults are a `multiPoint` set; what an extension point names itself comes first, in its
    order, then what `multiPoint` names, then the rest. A weight of the extension point goes before that of
    `multiPoint`; 0 means 1.
    """
    problems: list[Problem] = []
    sets = {point: getattr(custom, _attribute(point)) or PluginSet() for point in POINTS} if custom else {}
    multi = _with_defaults(custom.multi_point if custom is not None else None)
    points: dict[str, tuple[str, ...]] = {}
    for point in POINTS:
        own = sets.get(point, PluginSet())
        problems += _misplaced(own.enabled or (), point, f"{path}.{point}.enabled")
        points[point] = _expanded(own, multi, point)
    problems += _twice(multi, f"{path}.multiPoint.enabled")
    weights = _weights((*(sets.get(SCORE, PluginSet()).enabled or ()), *multi), points[SCORE])
    if sum(weights.values()) * 100 > SCORE_SUM_MAX:
        problems.append(Problem(field=f"{path}.{SCORE}", message="has weights whose sum overflows"))
    if any(each.name == SORTS_AS_BERTH for each in sets.get(QUEUE_SORT, PluginSet()).enabled or ()):
        points[QUEUE_SORT] = (*points[QUEUE_SORT], SORTS_AS_BERTH)
    if len(points[QUEUE_SORT]) != 1:
        problems.append(Problem(field=f"{path}.{QUEUE_SORT}", message="must have exactly one plugin: PrioritySort"))
    if not points[BIND]:
        problems.append(Problem(field=f"{path}.{BIND}", message="must have a plugin: DefaultBinder"))
    if "SchedulingGates" not in points[PRE_ENQUEUE]:
        message = "must have SchedulingGates: no API server binds a pod that has gates"
        problems.append(Problem(field=f"{path}.{PRE_ENQUEUE}", message=message))
    problems += _halves(points, path)
    return points, weights, problems


def named(custom: Plugins | None, path: str) -> Iterator[Problem]:
    """Plugins that nobody knows, that Berth has not, or that it always has."""
    if custom is None:
        return
    for point in ("multiPoint", *POINTS):
        each: PluginSet = getattr(custom, _attribute(point)) or PluginSet()
        for word, plugins in (("enabled", each.enabled or ()), ("disabled", each.disabled or ())):
            for at, plugin in enumerate(plugins):
                yield from _known(
                    plugin.name, point, f"{path}.{point}.{word}[{at}].name", is_disabled=word == "disabled"
                )
                if plugin.weight is not None and plugin.weight < 0:
                    yield Problem(field=f"{path}.{point}.{word}[{at}].weight", message="must not be negative")


def profile_of(
    scheduler_name: str, plugins: Plugins | None, args: Mapping[str, Args], path: str
) -> Profile | list[Problem]:
    """The profile, or what is wrong with its plugins."""
    unknown = list(named(plugins, path))
    if unknown:
        return unknown
    points, weights, problems = merged(plugins, path)
    if problems:
        return problems
    complete: dict[str, Args] = {name: kind().completed() for name, (kind, _) in KINDS.items()} | dict(args)
    berth = complete["Berth"]
    decides: Decides = berth.decides if isinstance(berth, BerthArgs) else "native"
    return Profile(scheduler_name, points, weights, complete, decides)


def _known(name: str, point: str, path: str, *, is_disabled: bool) -> Iterator[Problem]:
    if name in ALWAYS_ON:
        is_score = name in KNOWN and point in (PRE_SCORE, SCORE)
        if is_disabled and not is_score:
            yield Problem(field=path, message=f"{name} cannot be switched off")
    elif name not in KNOWN and not (name == ALL and is_disabled):
        yield Problem(field=path, message=f"{name[:80]!r} is no plugin that Berth knows")


def _with_defaults(custom: PluginSet | None) -> list[PluginRef]:
    """The `multiPoint` set: the defaults that are not disabled, each replaced in place by what is said of it, and what
    else is enabled."""
    enabled = list(custom.enabled or ()) if custom is not None else []
    disabled = {each.name for each in custom.disabled or ()} if custom is not None else set()
    places = {each.name: at for at, each in enumerate(enabled)}
    result: list[PluginRef] = []
    replaced: set[int] = set()
    if ALL not in disabled:
        for plugin in DEFAULTS:
            if plugin.name in disabled:
                continue
            at = places.get(plugin.name)
            if at is None:
                result.append(PluginRef(name=plugin.name, weight=plugin.weight))
            else:
                result.append(enabled[at])
                replaced.add(at)
    return result + [each for at, each in enumerate(enabled) if at not in replaced]


def _expanded(own: PluginSet, multi: Sequence[PluginRef], point: str) -> tuple[str, ...]:
    """The plugins of an extension point, in the order in which they run."""
    enabled = [each.name for each in own.enabled or () if each.name in KNOWN]
    disabled = {each.name for each in own.disabled or ()}
    if ALL in disabled:
        return tuple(enabled)
    everywhere = [
        each.name
        for each in multi
        if each.name in KNOWN and point in KNOWN[each.name].points and each.name not in disabled
    ]
    first = [name for name in enabled if name in everywhere]
    return (
        *first,
        *(name for name in everywhere if name not in enabled),
        *(name for name in enabled if name not in everywhere),
    )


def _weights(plugins: Sequence[PluginRef], scoring: Sequence[str]) -> dict[str, int]:
    said: dict[str, int] = {}
    for plugin in plugins:
        said.setdefault(plugin.name, plugin.weight or 1)
    return {name: said[name] for name in scoring}


def _misplaced(enabled: Sequence[PluginRef], point: str, path: str) -> Iterator[Problem]:
    seen: set[str] = set()
    for at, each in enumerate(enabled):
        if each.name in KNOWN and point not in KNOWN[each.name].points:
            yield Problem(field=f"{path}[{at}].name", message=f"{each.name} has nothing at {point}")
        if each.name in seen:
            yield Problem(field=f"{path}[{at}].name", message=f"{each.name} is listed twice")
        seen.add(each.name)


def _halves(points: Mapping[str, tuple[str, ...]], path: str) -> Iterator[Problem]:
    """Plugins that are off at a point without which what they do elsewhere is another thing."""
    for plugin in DEFAULTS:
        if plugin.name in WITHOUT_EFFECT:
            continue
        together = TOGETHER.get(plugin.name, ())
        off = [point for point in together if plugin.name not in points[point]]
        if off and len(off) < len(together):
            on = [point for point in together if point not in off]
            message = f"{plugin.name} is off here and on at {', '.join(on)}: Berth has all of it or nothing"
            yield Problem(field=f"{path}.{off[0]}", message=message)
        for first, second in NEEDED:
            has_both = {first, second} <= plugin.points and not {first, second} <= set(together)
            if has_both and plugin.name in points[second] and plugin.name not in points[first]:
                message = f"{plugin.name} is off here, and its part at {second} needs it"
                yield Problem(field=f"{path}.{first}", message=message)


def _twice(multi: Sequence[PluginRef], path: str) -> Iterator[Problem]:
    seen: set[str] = set()
    for each in multi:
        if each.name in seen:
            yield Problem(field=path, message=f"{each.name} is listed twice")
        seen.add(each.name)


def _attribute(point: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in point)


def _default() -> Profile:
    args: dict[str, Any] = {name: kind().completed() for name, (kind, _) in KINDS.items()}
    points, weights, _ = merged(None, "")
    return Profile(SCHEDULER_NAME, points, weights, args)


DEFAULT: Final = _default()
"""The profile of pods for which nobody has configured one."""
