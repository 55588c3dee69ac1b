"""What would happen: pods that are not there, nodes that are taken away, quotas that are changed. Asked and answered,
never part of a decision; what would be decided is written nowhere."""

from __future__ import annotations

from berth.contracts.base import Integer, Message, Part, Problem, Reason
from berth.contracts.ledger import Grant
from berth.contracts.quota import QuotaGroup
from berth.contracts.state import Pod, PodGroup


class SupposedPods(Part, frozen=True, kw_only=True):
    """So many pods as this one; of more than one each has `-0`, `-1` and so on behind its name.

    What the pod says of `uid`, `version`, `node` and `phase` does not count: it would be made now.
    """

    pod: Pod
    count: Integer = 1


class SupposedQuota(Part, frozen=True, kw_only=True):
    """A quota group with another `min` or `max` of the resources that are named; the rest of it stays."""

    name: str
    min: dict[str, Integer] = {}
    max: dict[str, Integer] = {}


class WhatIfQuestion(Message, frozen=True, kw_only=True, tag="whatif.question.v1"):
    """What if these pods came, these nodes were gone and these quotas were changed, all at once, now?

    `gangs` are PodGroups that come before the pods. The pods of a node that is gone wait anew. `groups` are the quota
    groups as they would be then: whoever asks has them from quota-manager (`quotasif.question.v1`). `profile` is the
    scheduler name that all `pods` have instead of their own. At most `time_limit_s` seconds are spent (30 at most).
    """

    pods: list[SupposedPods] = []
    gangs: list[PodGroup] = []
    without_nodes: list[str] = []
    groups: list[QuotaGroup] = []
    profile: str = ""
    time_limit_s: float = 5.0


class WhatIfVictim(Part, frozen=True, kw_only=True):
    """A pod that would leave: from which node, for whom, by which rule."""

    name: str
    node: str
    beneficiaries: list[str] = []
    reason: str = ""


class WhatIfPod(Part, frozen=True, kw_only=True):
    """What would become of a pod, by `namespace/name`.

    `origin` is `asked` (of the question), `moved` (its node is gone) or `waiting` (it waits already, and gets a place
    meanwhile). `outcome` is `placed`, `refused`, `waiting` (its gang gathers, or it has gates) or `foreign` (another
    scheduler's). `victims` leave before it is placed.
    """

    name: str
    origin: str
    outcome: str
    node: str = ""
    grants: list[Grant] = []
    quota: str = ""
    reservation: str = ""
    gang: str = ""
    victims: list[str] = []
    message: str = ""
    reasons: list[Reason] = []
    problems: list[Problem] = []


class WhatIfAnswer(Message, frozen=True, kw_only=True, tag="whatif.answer.v1"):
    """What would happen by the rules of the solver, if nothing else came in between.

    `outcome` is `answered`, `refused` (the question cannot be answered; `problems` name its fields), `unready` (the
    views of the solver are not complete) or `failed` (`message` says why). `at` says what it stands on: `epoch` and
    `ledger` (sequence) of LEDGER, `pods` and `reservations` (versions of STATE), `now_ms`. `is_cut_off`: time ran out,
    and what is listed is what had happened by then. Pods are listed in the order asked, moved, waiting; `left_out`
    counts those that there was no place for.
    """

    outcome: str
    message: str = ""
    at: dict[str, Integer] = {}
    pods: list[WhatIfPod] = []
    victims: list[WhatIfVictim] = []
    problems: list[Problem] = []
    left_out: Integer = 0
    is_cut_off: bool = False
    rounds: Integer = 0
    took_ms: Integer = 0
    solver: str = ""


class QuotasIfQuestion(Message, frozen=True, kw_only=True, tag="quotasif.question.v1"):
    """What would the quota groups come to, if these pods came, these nodes were gone and these quotas were changed?"""

    pods: list[SupposedPods] = []
    without_nodes: list[str] = []
    quotas: list[SupposedQuota] = []


class QuotasIfAnswer(Message, frozen=True, kw_only=True, tag="quotasif.answer.v1"):
    """The groups whose limits would change, as QUOTA would show them. `outcome`, `problems` and `message` as in
    `WhatIfAnswer`."""

    outcome: str
    message: str = ""
    groups: list[QuotaGroup] = []
    problems: list[Problem] = []
