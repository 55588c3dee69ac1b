"""Faults as data: which requests are delayed, refused, or lose their connection, before or after the effect.

Rules are matched by verb, resource and name; a seeded generator decides for the given share of the requests. What a
rule does is done by the HTTP layer; here it is only chosen and counted.
"""

import random
from typing import Literal, NamedTuple

import msgspec

RULES_LIMIT = 100
DELAY_LIMIT_S = 600.0

Kind = Literal["delay", "error", "drop-before", "drop-after"]


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule. Empty lists match everything.

    `drop-before` closes the connection without looking at the request; `drop-after` closes it when the effect has
    happened, so that the client cannot know. `error` with 400, 403 or 422 and a `message` is what an admission policy
    says, to a dry run as well. `limit`: how often the rule may fire, 0 for ever. `agent_prefix`: of the
    clients' User-Agent; empty means every client.
    """

    kind: Kind
    share: float = 1.0
    verbs: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    name_prefix: str = ""
    agent_prefix: str = ""
    status: int = 500
    message: str = "a planned fault fails this request"
    delay_s: float = 0.0
    retry_after_s: int | None = None
    limit: int = 0

    def problem(self) -> str:
        """What is wrong with the rule; empty if nothing."""
        if not 0.0 <= self.share <= 1.0:
            return "share: must be between 0 and 1"
        if not 0.0 <= self.delay_s <= DELAY_LIMIT_S:
            return f"delay_s: must be between 0 and {DELAY_LIMIT_S:.0f}"
        if not 400 <= self.status <= 599:
            return "status: must be between 400 and 599"
        if self.limit < 0:
            return "limit: must not be negative"
        return ""


class Chosen(NamedTuple):
    """What befalls one request: a delay in seconds, and at most one fault of another kind."""

    delay_s: float
    fault: Fault | None


_NOTHING = Chosen(0.0, None)


class Faults:
    """The rules in force and how often each has fired."""

    def __init__(self, rules: tuple[Fault, ...] = (), *, seed: int = 0) -> None:
        """Raises ValueError for a rule that makes no sense."""
        self._random = random.Random(seed)
        self.rules: tuple[Fault, ...] = ()
        self.fired: list[int] = []
        self.set(rules)

    def set(self, rules: tuple[Fault, ...], *, seed: int | None = None) -> None:
        """Replace all rules.

        A seed begins the sequence of decisions anew. Raises ValueError naming the rule and the field.
        """
        if len(rules) > RULES_LIMIT:
            raise ValueError(f"at most {RULES_LIMIT} fault rules, got {len(rules)}")
        for index, rule in enumerate(rules):
            problem = rule.problem()
            if problem:
                raise ValueError(f"fault {index}: {problem}")
        self.rules = rules
        self.fired = [0] * len(rules)
        if seed is not None:
            self._random.seed(seed)

    def choose(self, verb: str, resource: str, name: str, agent: str = "") -> Chosen:
        """Decide for one request of the client that calls itself `agent`."""
        if not self.rules:
            return _NOTHING
        delay_s, fault = 0.0, None
        for index, rule in enumerate(self.rules):
            if not self._fires(index, rule, verb, resource, name, agent):
                continue
            if rule.kind == "delay":
                delay_s += rule.delay_s
            elif fault is None:
                fault = rule
                delay_s += rule.delay_s
            else:
                continue
            self.fired[index] += 1
        return Chosen(delay_s, fault)

    def _fires(self, index: int, rule: Fault, verb: str, resource: str, name: str, agent: str) -> bool:
        if rule.verbs and verb not in rule.verbs:
            return False
        if rule.resources and resource not in rule.resources:
            return False
        if rule.name_prefix and not name.startswith(rule.name_prefix):
            return False
        if rule.agent_prefix and not agent.startswith(rule.agent_prefix):
            return False
        if rule.limit and self.fired[index] >= rule.limit:
            return False
        return rule.share >= 1.0 or self._random.random() < rule.share
