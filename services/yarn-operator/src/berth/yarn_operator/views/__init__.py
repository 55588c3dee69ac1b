"""What the buckets show. Sinks only record."""

from berth.yarn_operator.views.offers import OFFER_KEYS, OfferView
from berth.yarn_operator.views.state import STATE_KEYS, StateView

__all__ = ["OFFER_KEYS", "STATE_KEYS", "OfferView", "StateView"]
