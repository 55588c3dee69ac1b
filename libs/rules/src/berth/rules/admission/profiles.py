"""ClusterColocationProfiles, read once and matched often."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

import msgspec

from berth.contracts.base import Problem
from berth.contracts.kube import LabelSelector
from berth.contracts.names import ANNOTATION_KEEP_RESOURCES
from berth.rules.selectors import LabelTest, compile_selector

ALWAYS: Final = 100
_PERCENT: Final = re.compile(r"[0-9]{1,3}%", re.ASCII)
_INT32: Final = 2**31


class _Spec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    namespace_selector: LabelSelector | None = None
    selector: LabelSelector | None = None
    probability: int | str | None = None
    qos_class: Literal["", "LSE", "LSR", "LS", "BE", "SYSTEM"] | None = None
    priority_class_name: str | None = None
    koordinator_priority: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    label_keys_mapping: dict[str, str] | None = None
    annotation_keys_mapping: dict[str, str] | None = None
    label_suffixes: dict[str, str] | None = None
    scheduler_name: str | None = None
    patch: dict[str, Any] | None = None


class Profile(NamedTuple):
    """What a profile means. Fields that it leaves out are empty and change nothing."""

    name: str
    matches_namespace: LabelTest
    matches: LabelTest
    selects_objects: bool
    """Whether it has a selector of its own, beside that of namespaces."""
    probability: int = ALWAYS
    """Percent of what it matches."""
    qos: str = ""
    priority_class: str = ""
    sub_priority: int | None = None
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    label_keys: Mapping[str, str] = {}
    annotation_keys: Mapping[str, str] = {}
    label_suffixes: Mapping[str, str] = {}
    scheduler: str = ""
    patch: Mapping[str, Any] = {}
    keeps_resources: bool = False


def read_profile(name: str, annotations: Mapping[str, str], spec: Mapping[str, Any]) -> Profile | Problem:
    """A profile, or why it cannot be used: then it applies to nothing, so that a mistake changes no pod.

    A selector that is absent selects all.
    """
    try:
        read = msgspec.convert(spec, _Spec)
    except msgspec.ValidationError as error:
        return Problem(field="spec", message=str(error)[:200])
    except RecursionError:
        return Problem(field="spec", message="is nested too deeply")
    probability = _percent(read.probability)
    if probability is None:
        return Problem(field="spec.probability", message=f"{str(read.probability)[:20]!r} is nothing from 0% to 100%")
    if read.koordinator_priority is not None and not -_INT32 <= read.koordinator_priority < _INT32:
        return Problem(field="spec.koordinatorPriority", message="does not fit 32 bits")
    namespaces = compile_selector(read.namespace_selector or LabelSelector(), "spec.namespaceSelector")
    objects = compile_selector(read.selector or LabelSelector(), "spec.selector")
    for problem in (*namespaces.problems, *objects.problems):
        return problem
    return Profile(
        name=name,
        matches_namespace=namespaces.matches,
        matches=objects.matches,
        selects_objects=read.selector is not None,
        probability=probability,
        qos=read.qos_class or "",
        priority_class=read.priority_class_name or "",
        sub_priority=read.koordinator_priority,
        labels=read.labels or {},
        annotations=read.annotations or {},
        label_keys=read.label_keys_mapping or {},
        annotation_keys=read.annotation_keys_mapping or {},
        label_suffixes=read.label_suffixes or {},
        scheduler=read.scheduler_name or "",
        patch=read.patch or {},
        keeps_resources=ANNOTATION_KEEP_RESOURCES in annotations,
    )


class Profiles:
    """All profiles, in the order in which they apply: by name."""

    def __init__(self, profiles: Iterable[Profile] = ()) -> None:
        self._profiles = {profile.name: profile for profile in sorted(profiles, key=lambda each: each.name)}

    def __iter__(self) -> Iterator[Profile]:
        return iter(self._profiles.values())

    def __len__(self) -> int:
        return len(self._profiles)

    def put(self, profile: Profile) -> None:
        """A profile is there, or says something else."""
        is_new = profile.name not in self._profiles
        self._profiles[profile.name] = profile
        if is_new:
            self._profiles = dict(sorted(self._profiles.items()))

    def remove(self, name: str) -> None:
        """A profile is gone, or of no use."""
        self._profiles.pop(name, None)

    def of_pod(self, labels: Mapping[str, str], namespace: Mapping[str, str]) -> list[Profile]:
        """Those that match a pod with these labels in a namespace with those."""
        return [each for each in self if each.matches(labels) and each.matches_namespace(namespace)]

    def of_object(self, labels: Mapping[str, str]) -> list[Profile]:
        """Those that match an object without namespace: of a profile for namespaces alone it is none."""
        return [each for each in self if each.selects_objects and each.matches(labels)]


def _percent(written: int | str | None) -> int | None:
    if written is None:
        return ALWAYS
    if isinstance(written, str):
        if _PERCENT.fullmatch(written) is None:
            return None
        written = int(written[:-1])
    return written if 0 <= written <= ALWAYS else None
