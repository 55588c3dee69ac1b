"""What the buckets show. Sinks only record and mark."""

from berth.device_inventory.views.agents import AGENT_KEYS, RUNTIME_KEYS, AgentView, RuntimeView
from berth.device_inventory.views.inventory import DOMAINS, LAYERS, TOPOLOGY, InventoryView
from berth.device_inventory.views.network import NETWORK, NETWORK_KEYS, NetworkView
from berth.device_inventory.views.offers import OFFER_KEYS, OfferView
from berth.device_inventory.views.pods import POD_KEYS, PodView
from berth.device_inventory.views.state import KEYS, NODE, StateView

__all__ = [
    "AGENT_KEYS",
    "DOMAINS",
    "KEYS",
    "LAYERS",
    "NETWORK",
    "NETWORK_KEYS",
    "NODE",
    "OFFER_KEYS",
    "POD_KEYS",
    "RUNTIME_KEYS",
    "TOPOLOGY",
    "AgentView",
    "InventoryView",
    "NetworkView",
    "OfferView",
    "PodView",
    "RuntimeView",
    "StateView",
]
