"""Counters of what we ask of the API server. Labels are verbs, kinds and codes: never a name of an object."""

from __future__ import annotations

from functools import lru_cache

from prometheus_client import Counter, Histogram

REQUESTS = Counter(
    "berth_kube_requests_total",
    "Requests to the API server by outcome; code 0 is no answer.",
    ["verb", "resource", "code"],
)
REQUEST_SECONDS = Histogram(
    "berth_kube_request_seconds",
    "Time of an ordinary request to the API server, waiting for a connection included.",
    ["verb", "resource"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
WATCH_EVENTS = Counter("berth_kube_watch_events_total", "Events received from watches.", ["resource", "type"])
MALFORMED = Counter("berth_kube_malformed_objects_total", "Objects that could not be decoded.", ["resource"])
LISTS = Counter("berth_kube_lists_total", "Lists begun in order to watch.", ["resource"])


@lru_cache(maxsize=1024)
def requests(verb: str, resource: str, code: int) -> Counter:
    """The counter of this outcome; looking it up anew costs as much as a header."""
    return REQUESTS.labels(verb, resource, str(code))


@lru_cache(maxsize=1024)
def seconds(verb: str, resource: str) -> Histogram:
    """The times of this kind of request."""
    return REQUEST_SECONDS.labels(verb, resource)
