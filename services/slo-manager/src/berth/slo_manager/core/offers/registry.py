"""The kinds of offers, in the order in which they are worked out: one file each, and its line here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from berth.rules.node_strategies.colocation import Colocation
from berth.slo_manager.core.offers.batch import batch_offer
from berth.slo_manager.core.offers.facts import Facts
from berth.slo_manager.core.offers.mid import mid_offer
from berth.slo_manager.core.offers.rules import Rules
from berth.slo_manager.core.offers.sums import Sum

KINDS: Final[tuple[Callable[[Facts, Colocation, Rules], dict[str, Sum]], ...]] = (mid_offer, batch_offer)
