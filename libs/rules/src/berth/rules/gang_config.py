"""What a pod or a PodGroup says about its gang.

Two ways lead to the same settings: a PodGroup object that members name by label, or annotations on every member.
Follows Koordinator's protocol, with its fallbacks for unreadable values; each fallback is also reported as a problem,
so that a person can see that a setting had no effect. A minimum that cannot be used has no fallback: the gang then
waits for a better source.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from berth.contracts.base import Problem
from berth.contracts.names import (
    ANNOTATION_GANG_MIN,
    ANNOTATION_GANG_NAME,
    LABEL_POD_GROUP,
    LABEL_POD_GROUP_OLD_MIN,
    LABEL_POD_GROUP_OLD_NAME,
)
from berth.rules.bounded_json import annotation_field, label_field
from berth.rules.gang_annotations import (
    Mode,
    Texts,
    read_group,
    read_match_policy,
    read_mode,
    read_total,
    read_wait_s,
)
from berth.rules.gang_permit import MatchPolicy
from berth.rules.network_topology.spec import GatherSpec, read_spec
from berth.rules.numbers import parse_integer

Source = Literal["pod-group", "annotations"]

NAME_LENGTH_MAX: Final = 253


class GangDefaults(NamedTuple):
    """What holds where nothing is said (Koordinator's CoschedulingArgs)."""

    wait_s: float = 600.0
    match_policy: MatchPolicy = "once-satisfied"


_DEFAULTS: Final = GangDefaults()
MIN_MEMBER: Final = "spec.minMember"


@dataclass(frozen=True, kw_only=True, slots=True)
class GangConfig:
    """The effective settings of one gang.

    `source` is where the settings must come from: for a pod that names a PodGroup its own annotations count only as
    long as nothing else is known. `min_member` None: unusable, see `problems`. `group` holds the ids of all gangs
    that start together, sorted. `network` is where in the network they have to lie; None: nothing is said.
    """

    namespace: str
    name: str
    source: Source
    min_member: int | None
    total: int = 0
    wait_s: float = 600.0
    mode: Mode = "Strict"
    match_policy: MatchPolicy = "once-satisfied"
    group: tuple[str, ...] = ()
    network: GatherSpec | None = None
    problems: tuple[Problem, ...] = ()

    @property
    def id(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def group_id(self) -> str:
        """The same for every gang of the group."""
        return ",".join(self.group)


def gang_name_of_pod(labels: Texts, annotations: Texts) -> str:
    """The gang that a pod is a member of, in its own namespace; empty when it is in none."""
    return (
        labels.get(LABEL_POD_GROUP)
        or labels.get(LABEL_POD_GROUP_OLD_NAME)
        or annotations.get(ANNOTATION_GANG_NAME)
        or ""
    )


def gang_of_pod(
    namespace: str, labels: Texts, annotations: Texts, defaults: GangDefaults = _DEFAULTS
) -> GangConfig | None:
    """A member's view of its gang; None for a pod that is in none."""
    name = gang_name_of_pod(labels, annotations)
    if not name:
        return None
    problems: list[Problem] = []
    minimum = _minimum_of_pod(labels, annotations, problems)
    if not _usable_name(name):
        problems.append(
            Problem(field=_name_field(labels), message="is no usable gang name: too long, or with a comma or a slash")
        )
        minimum = None
    return _config(
        namespace,
        name,
        annotations,
        defaults,
        problems,
        source="pod-group" if labels.get(LABEL_POD_GROUP) else "annotations",
        minimum=minimum,
        wait_s=read_wait_s(annotations, problems) or defaults.wait_s,
    )


def gang_of_pod_group(
    namespace: str,
    name: str,
    *,
    min_member: int,
    schedule_timeout_s: float | None,
    annotations: Texts,
    found: Iterable[Problem] = (),
    defaults: GangDefaults = _DEFAULTS,
) -> GangConfig:
    """The settings that a PodGroup gives its gang; they replace whatever members said.

    `found` are problems with the object that were found before: of a minimum that could not be read it has another one.
    """
    problems = [each for each in found if each.field.startswith("spec.")]
    is_usable = min_member >= 0 and not any(each.field == MIN_MEMBER for each in problems)
    if min_member < 0:
        problems.append(Problem(field=MIN_MEMBER, message="must not be negative"))
    timeout_s = schedule_timeout_s or 0
    if timeout_s < 0:
        problems.append(Problem(field="spec.scheduleTimeoutSeconds", message="must be positive; the default is used"))
    return _config(
        namespace,
        name,
        annotations,
        defaults,
        problems,
        source="pod-group",
        minimum=min_member if is_usable else None,
        wait_s=timeout_s if timeout_s > 0 else defaults.wait_s,
    )


def _config(
    namespace: str,
    name: str,
    annotations: Texts,
    defaults: GangDefaults,
    problems: list[Problem],
    *,
    source: Source,
    minimum: int | None,
    wait_s: float,
) -> GangConfig:
    return GangConfig(
        namespace=namespace,
        name=name,
        source=source,
        min_member=minimum,
        total=read_total(annotations, minimum or 0, problems),
        wait_s=wait_s,
        mode=read_mode(annotations, problems),
        match_policy=read_match_policy(annotations, problems) or defaults.match_policy,
        group=read_group(annotations, f"{namespace}/{name}", problems),
        network=read_spec(annotations),
        problems=tuple(problems),
    )


def _minimum_of_pod(labels: Texts, annotations: Texts, problems: list[Problem]) -> int | None:
    """The old label decides when it is there, even when it cannot be read."""
    if LABEL_POD_GROUP_OLD_MIN in labels:
        field, text = label_field(LABEL_POD_GROUP_OLD_MIN), labels[LABEL_POD_GROUP_OLD_MIN]
    else:
        field, text = annotation_field(ANNOTATION_GANG_MIN), annotations.get(ANNOTATION_GANG_MIN, "")
    minimum = parse_integer(text, bits=32)
    if minimum is None or minimum < 0:
        if text or not labels.get(LABEL_POD_GROUP):  # members of a PodGroup need not repeat its minimum
            problems.append(Problem(field=field, message="must be an integer from 0 to 2147483647"))
        return None
    return minimum


def _usable_name(name: str) -> bool:
    return len(name) <= NAME_LENGTH_MAX and "," not in name and "/" not in name


def _name_field(labels: Texts) -> str:
    for label in (LABEL_POD_GROUP, LABEL_POD_GROUP_OLD_NAME):
        if labels.get(label):
            return label_field(label)
    return annotation_field(ANNOTATION_GANG_NAME)
