"""What profiles make of an object: labels, annotations, scheduler, classes, patch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from berth.contracts import names, state
from berth.rules.admission.draft import Draft, Path
from berth.rules.admission.profiles import Profile
from berth.rules.strategic_merge import PatchError, strategic_merge

LABELS: Final = ("metadata", "labels")
ANNOTATIONS: Final = ("metadata", "annotations")
PREEMPT_LOWER: Final = "PreemptLowerPriority"


class Failed(NamedTuple):
    """Why a profile cannot be applied: the object is not admitted."""

    profile: str
    rule: str
    message: str


def applying(matched: Iterable[Profile], draw: int) -> list[Profile]:
    """Of the profiles that match those that the draw lets apply: of p percent, draws up to p."""
    return [profile for profile in matched if draw <= profile.probability]


def apply(
    draft: Draft,
    profiles: Iterable[Profile],
    priority_classes: Mapping[str, state.PriorityClass],
    *,
    spec: Path = ("spec",),
) -> Failed | None:
    """Applies profiles one after the other, so that the last one wins.

    Args:
        draft: the pod, or an object with a template.
        profiles: those that apply, in their order.
        priority_classes: by name.
        spec: where the specification of the pod is.
    """
    for profile in profiles:
        failed = _apply(draft, profile, priority_classes, spec)
        if failed is not None:
            return failed
    return None


def _apply(
    draft: Draft, profile: Profile, priority_classes: Mapping[str, state.PriorityClass], spec: Path
) -> Failed | None:
    _write_all(draft, LABELS, profile.labels)
    _write_all(draft, ANNOTATIONS, profile.annotations)
    for old, new in sorted(profile.label_keys.items()):
        draft.put((*LABELS, new), draft.labels.get(old, ""))
    for old, new in sorted(profile.annotation_keys.items()):
        draft.put((*ANNOTATIONS, new), draft.annotations.get(old, ""))
    for name, suffix in sorted(profile.label_suffixes.items()):
        value = draft.labels.get(name)
        if value is not None:
            draft.put((*LABELS, name), value + suffix)
    if profile.scheduler:
        draft.put((*spec, "schedulerName"), profile.scheduler)
    if profile.qos:
        draft.put((*LABELS, names.LABEL_QOS), profile.qos)
    if profile.priority_class:
        found = priority_classes.get(profile.priority_class)
        if found is None:
            message = f"profile {profile.name!r} names the PriorityClass {profile.priority_class!r}, which is not there"
            return Failed(profile.name, "noPriorityClass", message)
        draft.put((*spec, "priorityClassName"), found.name)
        draft.put((*spec, "priority"), found.value)
        draft.put((*spec, "preemptionPolicy"), found.preemption_policy or PREEMPT_LOWER)
    if profile.sub_priority is not None:
        draft.put((*LABELS, names.LABEL_PRIORITY), str(profile.sub_priority))
    return _merge(draft, profile) if profile.patch else None


def _merge(draft: Draft, profile: Profile) -> Failed | None:
    try:
        merged: Any = strategic_merge(draft.now, dict(profile.patch))
    except PatchError as error:
        return Failed(profile.name, "badPatch", f"profile {profile.name!r}: {error}")
    except RecursionError:
        return Failed(profile.name, "badPatch", f"profile {profile.name!r}: its patch is nested too deeply")
    draft.replace(merged)
    return None


def _write_all(draft: Draft, path: Path, values: Mapping[str, str]) -> None:
    for name, value in values.items():
        draft.put((*path, name), value)
