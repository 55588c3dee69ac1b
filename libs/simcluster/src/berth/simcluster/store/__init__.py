"""A Kubernetes API as plain function calls: objects, versions, the watch log, and the rules of the verbs."""

from berth.simcluster.store.bodies import Path
from berth.simcluster.store.collection import Event
from berth.simcluster.store.listing import ListOptions
from berth.simcluster.store.status import Reply
from berth.simcluster.store.store import Store
from berth.simcluster.store.updating import APPLY, JSON, MERGE, STRATEGIC

__all__ = ["APPLY", "JSON", "MERGE", "STRATEGIC", "Event", "ListOptions", "Path", "Reply", "Store"]
