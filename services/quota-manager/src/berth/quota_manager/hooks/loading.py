"""Finds the hooks that the settings name among the installed packages."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from berth.quota_manager.core.hooks.asking import CHARGES, REFUSES, SHOWS, NamedHook
from berth.rules.quota_hooks.seam import ENTRY_POINTS

FUNCTIONS: Final = (CHARGES, REFUSES, SHOWS)
RESOURCES_MAX: Final = 16
_RESOURCE: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_TAKEN: Final = ("kubernetes.io", "k8s.io", "koordinator.sh", "berth.sh", "nvidia.com")


class HookError(Exception):
    """A hook that is asked for cannot be used: the service does not start without it."""


def load_hooks(
    named: Sequence[str], installed: Callable[[], Collection[EntryPoint]] = lambda: entry_points(group=ENTRY_POINTS)
) -> list[NamedHook]:
    """The hooks of these names. Raises `HookError` for one that is not installed once, or is none."""
    found: list[NamedHook] = []
    owners: dict[str, str] = {}
    points = installed() if named else ()
    for name in dict.fromkeys(named):
        listed = [point for point in points if point.name == name]
        if len(listed) != 1:
            raise HookError(f"hook {name}: {len(listed)} installed packages have an entry point {ENTRY_POINTS} of it")
        try:
            loaded = listed[0].load()
            hook = loaded if any(hasattr(loaded, each) for each in FUNCTIONS) and not _is_made(loaded) else loaded()
        except Exception as error:  # code of others
            raise HookError(f"hook {name}: {listed[0].value} cannot be loaded: {error!r}") from error
        made = named_hook(name, hook)
        for resource in sorted(made.resources):
            if resource in owners:
                raise HookError(f"hook {name}: hook {owners[resource]} has the resource {resource} already")
            owners[resource] = name
        found.append(made)
    return found


def named_hook(name: str, hook: object) -> NamedHook:
    """An object as a hook. Raises `HookError` where it is none."""
    functions = {each: getattr(hook, each) for each in FUNCTIONS if callable(getattr(hook, each, None))}
    if not functions:
        raise HookError(f"hook {name}: has none of {', '.join(FUNCTIONS)}")
    listed = getattr(hook, "resources", ())
    if isinstance(listed, str) or not isinstance(listed, Collection) or len(listed) > RESOURCES_MAX:
        raise HookError(f"hook {name}: resources must be a list of at most {RESOURCES_MAX} names")
    for resource in listed:
        domain = resource.partition("/")[0] if isinstance(resource, str) else ""
        is_taken = any(domain == each or domain.endswith(f".{each}") for each in _TAKEN)
        if not isinstance(resource, str) or not _RESOURCE.fullmatch(resource) or is_taken:
            raise HookError(f"hook {name}: {resource!r} is no resource name of a domain of your own")
    if CHARGES in functions and not listed:
        raise HookError(f"hook {name}: charges, and names no resources that it may charge")
    return NamedHook(name, functions, frozenset(listed))


def _is_made(loaded: object) -> bool:
    """It is a class, whose object is the hook."""
    return isinstance(loaded, type)
