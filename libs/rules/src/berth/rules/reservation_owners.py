"""Who may use a Reservation: pods named by object, by controller, or by labels.

The parts of one owner all have to hold, owners are alternatives, and what is left empty matches anything: so an owner
`{}` accepts every pod, and no owners at all accept none. One selector that cannot be read makes the whole Reservation
unusable, because the capacity was meant for somebody else.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from berth.contracts.base import Problem
from berth.contracts.kube import ControllerReference, ObjectReference, OwnerReference, ReservationOwner
from berth.rules.selectors import compile_selector

OWNERS_MAX: Final = 1024


class PodIdentity(NamedTuple):
    """What of a pod owners look at."""

    namespace: str
    name: str
    uid: str = ""
    labels: Mapping[str, str] = {}
    owners: Sequence[OwnerReference] = ()
    api_version: str = "v1"


PodTest = Callable[[PodIdentity], bool]

OwnerKey: TypeAlias = tuple[str, str, str]
"""Something that an owner names and a pod has: what it is, and up to two words."""


class CompiledOwners(NamedTuple):
    """`accept(pod)`; with problems nobody is accepted."""

    accept: PodTest
    problems: tuple[Problem, ...] = ()


def compile_owners(owners: Sequence[ReservationOwner], field: str = "spec.owners") -> CompiledOwners:
    """The owners as one test on pods. `field` is their path, for problems."""
    if len(owners) > OWNERS_MAX:
        return CompiledOwners(_nobody, (Problem(field=field, message=f"has more than {OWNERS_MAX} owners"),))
    tests: list[PodTest] = []
    problems: list[Problem] = []
    for position, owner in enumerate(owners):
        test = _compile_owner(owner, f"{field}[{position}]", problems)
        tests.append(test)
    if problems or not tests:
        return CompiledOwners(_nobody, tuple(problems))
    alternatives = tuple(tests)
    return CompiledOwners(lambda pod: any(test(pod) for test in alternatives))


def owner_keys(owner: ReservationOwner) -> Iterator[tuple[OwnerKey, ...]]:
    """Sets of keys, of each of which a pod that this owner accepts has at least one.

    None where the owner names nothing: it has to be compared with every pod.
    """
    if owner.object is not None:
        yield from _named_keys("object", owner.object)
        if owner.object.namespace:
            yield (("namespace", owner.object.namespace, ""),)
    if owner.controller is not None:
        yield from _named_keys("controller", owner.controller)
        if owner.controller.namespace:
            yield (("namespace", owner.controller.namespace, ""),)
    if owner.label_selector is not None:
        for key, value in (owner.label_selector.match_labels or {}).items():
            yield (("label", key, value),)
        for each in owner.label_selector.match_expressions or ():
            if each.operator == "In":
                yield tuple(("label", each.key, value) for value in each.values or ())


def _named_keys(what: str, wanted: ObjectReference | ControllerReference) -> Iterator[tuple[OwnerKey, ...]]:
    if wanted.uid:
        yield ((f"{what}.uid", wanted.uid, ""),)
    if wanted.name:
        yield ((f"{what}.name", wanted.name, ""),)


def _compile_owner(owner: ReservationOwner, field: str, problems: list[Problem]) -> PodTest:
    parts: list[PodTest] = []
    if owner.object is not None:
        wanted = owner.object
        parts.append(lambda pod: _is_object(pod, wanted))
    if owner.controller is not None:
        controller = owner.controller
        parts.append(lambda pod: _is_controlled(pod, controller))
    if owner.label_selector is not None:
        selector = compile_selector(owner.label_selector, f"{field}.labelSelector")
        problems.extend(selector.problems)
        matches = selector.matches
        parts.append(lambda pod: matches(pod.labels))
    every = tuple(parts)
    return lambda pod: all(part(pod) for part in every)


def _is_object(pod: PodIdentity, wanted: ObjectReference) -> bool:
    """The kind is not compared: only pods come here."""
    return (
        _agrees(wanted.uid, pod.uid)
        and _agrees(wanted.name, pod.name)
        and _agrees(wanted.namespace, pod.namespace)
        and _agrees(wanted.api_version, pod.api_version)
    )


def _is_controlled(pod: PodIdentity, wanted: ControllerReference) -> bool:
    return _agrees(wanted.namespace, pod.namespace) and any(_is_reference(each, wanted) for each in pod.owners)


def _is_reference(reference: OwnerReference, wanted: ControllerReference) -> bool:
    return (
        _agrees(wanted.uid, reference.uid)
        and _agrees(wanted.name, reference.name)
        and _agrees(wanted.kind, reference.kind)
        and _agrees(wanted.api_version, reference.api_version)
        and (wanted.controller is None or wanted.controller == reference.controller)
    )


def _agrees(wanted: str, actual: str) -> bool:
    return not wanted or wanted == actual


def _nobody(_pod: PodIdentity) -> bool:
    return False
