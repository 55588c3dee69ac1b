"""`berth profile --dry-run`: which profiles match a pod, what they would change, and whether the result is admitted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from berth.bus import Bus
from berth.cli.asking import on_bus
from berth.cli.bus_options import BusOptions
from berth.cli.errors import EXIT_BAD, EXIT_OK, CliError
from berth.cli.judge import read_bucket
from berth.cli.manifests import Item, read
from berth.cli.output import columns, fitted, width
from berth.contracts import buckets, names, state
from berth.contracts.base import Problem
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.rules.admission.classes import class_with_default, priority_with_default, qos_with_default
from berth.rules.admission.profiles import ALWAYS, Profile, read_profile
from berth.rules.admission.review import review
from berth.rules.admission.seam import CREATE, Answer, Request
from berth.rules.admission.views import Views
from berth.rules.cpus.qos import BATCH, FREE, MID, PROD
from berth.simcluster.store.patch import json_patch
from berth.vendors.registry import REGISTRY

Json = dict[str, Any]

KEYS: Final = ("clustercolocationprofile.*", "priorityclass.*", "namespace.*")
_OF_PROTOCOL: Final = {PROD: 9000, MID: 7000, BATCH: 5000, FREE: 3000}
"""PriorityClasses that are there wherever the protocol is spoken."""


class PodReport(msgspec.Struct, frozen=True, kw_only=True):
    """What would become of one pod. `profiles` say by name whether they apply, and why not. Classes and priority are
    those that it would have, by its marks or by default."""

    pod: str
    qos: str
    priority_class: str
    priority: int
    profiles: dict[str, str]
    patch: tuple[Json, ...] = ()
    refusals: list[str] = []
    warnings: list[str] = []


class Known:
    """The profiles to go by, with those that cannot be used, and the rest of what is known."""

    def __init__(self) -> None:
        self.views = Views(kept_whole=frozenset(name for vendor in REGISTRY for name in vendor.keeps_whole))
        self.unusable: dict[str, str] = {}
        self._classes: dict[str, state.PriorityClass] = {}
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self.views.priority_classes, self.views.namespaces = self._classes, self._namespaces

    def see_profile(self, name: str, annotations: Mapping[str, str], spec: Mapping[str, Any]) -> None:
        """A profile."""
        found = read_profile(name, annotations, spec)
        if isinstance(found, Problem):
            self.unusable[name] = f"{found.field}: {found.message}"
        else:
            self.views.profiles.put(found)

    def see_class(self, item: state.PriorityClass) -> None:
        """A priority class."""
        self._classes[item.name] = item

    def see_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        """A namespace."""
        self._namespaces[name] = labels


async def profile(
    files: Sequence[Path], *, profiles: Path | None, draw: int, namespace: str | None, bus: BusOptions, as_json: bool
) -> int:
    """Print it; EXIT_BAD when a pod would be refused."""
    pods = [item for file in files for item in read(file, namespace)]
    if not pods:
        raise CliError("name a file with -f, or - for standard input")
    for item in pods:
        if item.kind != "Pod":
            raise CliError(f"{item.shown}: is no pod")
    known = of_file(profiles) if profiles is not None else await on_bus(bus, of_bus)
    reports = [report(item, known, draw) for item in pods]
    if as_json:
        print(msgspec.json.encode(reports).decode())
    else:
        print("\n".join(line for each in reports for line in shown(each, width())))
    return EXIT_BAD if any(each.refusals for each in reports) else EXIT_OK


def of_file(file: Path) -> Known:
    """What a file says. Raises CliError."""
    known = Known()
    for name, value in _OF_PROTOCOL.items():
        known.see_class(state.PriorityClass(name=name, version=0, value=value))
    for item in read(file, None):
        manifest, meta = item.manifest, item.manifest["metadata"]
        match item.kind:
            case "ClusterColocationProfile":
                known.see_profile(item.name, meta.get("annotations") or {}, manifest.get("spec") or {})
            case "PriorityClass":
                known.see_class(_class_of(item))
            case "Namespace":
                known.see_namespace(item.name, meta.get("labels") or {})
            case _:
                raise CliError(f"{item.shown}: is no ClusterColocationProfile, PriorityClass or Namespace")
    return known


async def of_bus(bus: Bus) -> Known:
    """What the cluster has, as everybody sees it."""
    known = Known()
    for key, (_, value) in (await read_bucket(bus, buckets.STATE, KEYS)).items():
        try:
            match key.partition(".")[0]:
                case "clustercolocationprofile":
                    seen = decode(value, state.ClusterColocationProfile)
                    known.see_profile(seen.name, seen.annotations, seen.spec)
                case "priorityclass":
                    known.see_class(decode(value, state.PriorityClass))
                case "namespace":
                    place = decode(value, state.Namespace)
                    known.see_namespace(place.name, place.labels)
        except InvalidMessage:
            continue  # of another version
    return known


def report(item: Item, known: Known, draw: int) -> PodReport:
    """What would become of a pod."""
    views = known.views
    changed = _asked("/mutate-pod", item, item.manifest, views, draw)
    result = json_patch(item.manifest, list(changed.patch)) if changed.patch else item.manifest
    judged = _asked("/validate-pod", item, result, views, draw)
    labels = item.manifest["metadata"].get("labels") or {}
    namespace = views.namespaces.get(item.namespace, {})
    told = {each.name: _standing(each, labels, namespace, draw) for each in views.profiles}
    return PodReport(
        pod=f"{item.namespace}/{item.name}",
        qos=qos_with_default(result),
        priority_class=class_with_default(result),
        priority=priority_with_default(result),
        profiles={**told, **{name: f"cannot be used: {why}" for name, why in known.unusable.items()}},
        patch=tuple(_without_mark(changed.patch)),
        refusals=[each.text for each in (*changed.refusals, *judged.refusals)],
        warnings=[*changed.warnings, *judged.warnings],
    )


def shown(told: PodReport, columns_max: int) -> list[str]:
    """The lines about a pod."""
    rows = [("profile", name, standing) for name, standing in told.profiles.items()]
    rows += [("change", path, value) for path, value in _leaves(told.patch)]
    rows += [("refused", text, "") for text in told.refusals]
    rows += [("warning", text, "") for text in told.warnings]
    return [
        f"pod {told.pod}: {told.qos}, {told.priority_class}, priority {told.priority}",
        *(fitted(row, columns_max) for row in columns(rows or [("", "no profile is known", "")])),
    ]


def _asked(path: str, item: Item, manifest: Json, views: Views, draw: int) -> Answer:
    request = Request(uid="", operation=CREATE, namespace=item.namespace, name=item.name, object=manifest)
    return review(path, request, views, draw=draw)


def _standing(each: Profile, labels: Mapping[str, str], namespace: Mapping[str, str], draw: int) -> str:
    if not each.matches(labels):
        return "does not match the pod"
    if not each.matches_namespace(namespace):
        return "does not match the namespace"
    share = "" if each.probability == ALWAYS else f" to {each.probability} of 100 pods"
    return f"applies{share}" if draw <= each.probability else f"matches, and applies{share}, but not with draw {draw}"


def _without_mark(patch: Iterable[Json]) -> Iterator[Json]:
    """The mark is of no use to people: it is sealed when a pod is created."""
    mark = names.ANNOTATION_PROFILES
    for each in patch:
        value = each.get("value")
        if isinstance(value, dict) and mark in value:
            rest = {name: text for name, text in value.items() if name != mark}
            if rest:
                yield {**each, "value": rest}
        elif not each["path"].endswith(mark.replace("/", "~1")):
            yield each


def _leaves(patch: Iterable[Json]) -> Iterator[tuple[str, str]]:
    for each in patch:
        path = each["path"].replace("~1", "/").replace("~0", "~").removeprefix("/")
        if each["op"] == "remove":
            yield f"- {path}", ""
        elif isinstance(each["value"], dict):
            yield from ((f"+ {path}/{name}", _text(value)) for name, value in each["value"].items())
        else:
            yield f"{'+' if each['op'] == 'add' else '~'} {path}", _text(each["value"])


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _class_of(item: Item) -> state.PriorityClass:
    value, policy = item.manifest.get("value", 0), item.manifest.get("preemptionPolicy", "")
    if type(value) is not int or not isinstance(policy, str):
        raise CliError(f"{item.shown}: value: is no integer, or preemptionPolicy no text")
    return state.PriorityClass(name=item.name, version=0, value=value, preemption_policy=policy)
