"""The two faces of Events: core/v1 is stored, events.k8s.io/v1 is translated at the door."""

from berth.simcluster.store.objects import Json

# (events.k8s.io/v1 field, core/v1 field)
_RENAMED = (
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
)
_TO_CORE = dict(_RENAMED)
_TO_NEW = {core: new for new, core in _RENAMED}


def to_core(event: Json) -> Json:
    """An events.k8s.io/v1 Event as it is stored. Works on patches too."""
    result = {_TO_CORE.get(key, key): value for key, value in event.items()}
    if "apiVersion" in event:
        result["apiVersion"] = "v1"
    return result


def to_new(event: Json) -> Json:
    """A stored Event as events.k8s.io/v1 shows it."""
    return {**{_TO_NEW.get(key, key): value for key, value in event.items()}, "apiVersion": "events.k8s.io/v1"}
