"""Which quota group pays for which holder, and how much, as quota-manager is set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from berth.contracts import names, subjects
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.quota import QuotaGroup, QuotaRules
from berth.invariants.facts import Facts, Holder
from berth.rules.quota_of_pod import DEFAULT_GROUP, QuotaClaim, QuotaMap, parse_namespaces
from berth.rules.quota_payer import charged, payer_of, pays_for, uncharged

RULES_KEY = subjects.quota_key("", DEFAULT_GROUP)
"""The key of QUOTA whose group says how quota-manager is set."""


class Charge(NamedTuple):
    """What a group pays for one holder."""

    holder: Holder
    group: str
    amounts: Mapping[str, int]


def charges(facts: Facts) -> Iterator[Charge]:
    """Of every holder for which a group pays."""
    rules = facts.world.quota_rules
    groups = QuotaMap(
        (
            QuotaClaim(
                each.metadata.name, each.metadata.namespace, parse_namespaces(each.metadata.annotations or {})[0]
            )
            for each in facts.world.quotas
        ),
        uses_default=rules.uses_default,
    )
    for holder in facts.holders:
        if not pays_for(rules, is_deleting=holder.is_deleting):
            continue
        group = payer_of(groups, holder.quota, holder.labels.get(names.LABEL_QUOTA_NAME), holder.key[0])
        if group is not None:
            yield Charge(holder, group, charged(holder.amounts, uncharged(rules, holder.overhead), holder.surcharge))


def rules_in(value: bytes | None) -> QuotaRules:
    """The rules in the message of `RULES_KEY`; the defaults where there is none, or none that can be read."""
    if value is None:
        return QuotaRules()
    try:
        return decode(value, QuotaGroup).rules
    except InvalidMessage:
        return QuotaRules()
