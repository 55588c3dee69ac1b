"""Pods that a ClusterColocationProfile selects, and that were created without it: the webhook was away.

Told apart from pods that are older than the profile by what the API server says of both times. A profile that was
changed, and not only made, is judged by pods that came after it was first seen as it is, since no object says when that
was. A pod with the webhook's mark was asked about; whether the mark is genuine only replicas of the webhook can tell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from berth.auditor.core.objects import Lists
from berth.auditor.core.steps import Steps
from berth.contracts import kube, names
from berth.contracts.base import Problem
from berth.invariants import Finding
from berth.rules.admission.profiles import ALWAYS, Profile, read_profile
from berth.rules.webhooks import SPARED, entry_of_profile

NAMED_MAX = 5
STEP: Final = 2_000
"""So many pods and profiles are looked at in one step."""
_Label = tuple[str, str | None]
"""Name and value of a label; None: whatever value."""


class _Judged(NamedTuple):
    profile: Profile
    since: str
    """Of pods that were created later, by the API server's clock."""


class _Index:
    """Profiles by a label that whatever they select has: of many profiles a pod meets few."""

    def __init__(self, judged: Iterable[tuple[_Judged, list[_Label]]]) -> None:
        self._by_label: defaultdict[_Label, list[_Judged]] = defaultdict(list)
        self._others: list[_Judged] = []
        for each, labels in judged:
            for label in labels:
                self._by_label[label].append(each)
            if not labels:
                self._others.append(each)

    def __bool__(self) -> bool:
        return bool(self._others or self._by_label)

    def of(self, labels: Mapping[str, str]) -> Iterator[_Judged]:
        """Those that may select a pod with these labels."""
        if self._by_label:
            for name, value in labels.items():
                yield from self._by_label.get((name, value), ())
                yield from self._by_label.get((name, None), ())
        yield from self._others


class Unprofiled:
    """Looks again and again; remembers since when each profile says what it says."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[int, str | None]] = {}
        """Of profiles that were changed: which generation, and of which pods on it is judged."""

    def looking(self, lists: Lists) -> Steps[list[Finding]]:
        """One finding for each profile and namespace."""
        judged = _Index(self._judged(lists))
        namespaces = {each.metadata.name: each.metadata.labels or {} for each in lists.namespaces}
        missed: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        work = 0
        for pod in lists.pods if judged else ():
            work += 1
            meta = pod.metadata
            if _is_concerned(meta):
                labels = meta.labels or {}
                for profile, since in judged.of(labels):
                    work += 1
                    if (
                        (meta.creation_timestamp or "") > since
                        and profile.matches(labels)
                        and profile.matches_namespace(namespaces.get(meta.namespace, {}))
                    ):
                        missed[profile.name, meta.namespace].append(meta.name)
            if work >= STEP:
                work = 0
                yield
        return [_finding(profile, namespace, pods) for (profile, namespace), pods in sorted(missed.items())]

    def _judged(self, lists: Lists) -> Iterator[tuple[_Judged, list[_Label]]]:
        """Profiles that every pod which they select has to have, and labels of which such a pod has one.

        Without an entry the webhook is not called for a profile: another one may be.
        """
        before, self._since = self._since, {}
        for configuration in lists.webhooks:
            entries = {entry.get("name") for entry in configuration.webhooks or ()}
            for item in lists.profiles:
                meta = item.metadata
                profile = read_profile(meta.name, meta.annotations or {}, item.spec or {})
                since = self._asked_since(item, before.get(meta.uid), lists.pods)
                if (
                    isinstance(profile, Problem)
                    or profile.probability < ALWAYS
                    or entry_of_profile(meta.name) not in entries
                    or since is None
                ):
                    continue
                since = max(since, configuration.metadata.creation_timestamp or "")
                yield _Judged(profile, since), _labels_of(item.spec or {})

    def _asked_since(
        self, item: kube.ClusterColocationProfile, before: tuple[int, str | None] | None, pods: list[kube.Pod]
    ) -> str | None:
        """None: not known yet."""
        meta = item.metadata
        if meta.generation <= 1:
            return meta.creation_timestamp or ""
        since = None
        if before is not None and before[0] == meta.generation:
            newest = max((pod.metadata.creation_timestamp or "" for pod in pods), default="")
            since = newest if before[1] is None else before[1]
        self._since[meta.uid] = meta.generation, since
        return since


def _is_concerned(meta: kube.Meta) -> bool:
    notes = meta.annotations or {}
    return (
        meta.namespace not in SPARED
        and not meta.deletion_timestamp
        and names.ANNOTATION_PROFILES not in notes
        and names.ANNOTATION_MIRROR not in notes
    )


def _labels_of(spec: Mapping[str, Any]) -> list[_Label]:
    """Labels of which whatever the profile selects has exactly one; none: nobody can say so."""
    selector = spec.get("selector") or {}
    if named := selector.get("matchLabels"):
        return [next(iter(named.items()))]
    for each in selector.get("matchExpressions") or ():
        if each.get("operator") == "In":
            return [(each["key"], value) for value in dict.fromkeys(each.get("values") or ())]
        if each.get("operator") == "Exists":
            return [(each["key"], None)]
    return []


def _finding(profile: str, namespace: str, pods: list[str]) -> Finding:
    named = ", ".join(sorted(pods)[:NAMED_MAX]) + (", ..." if len(pods) > NAMED_MAX else "")
    text = f"profile {profile} selects pods of {namespace} that were created without it, {len(pods)} of them: {named}"
    return Finding(f"profile {profile}, namespace {namespace}", text)
