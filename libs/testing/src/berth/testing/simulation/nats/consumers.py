"""Making and changing consumers: what the server fills in, and what it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from berth.testing.simulation.nats import problems
from berth.testing.simulation.nats.consumer import check_policy
from berth.testing.simulation.nats.message import NANO
from berth.testing.simulation.nats.problems import Refusal
from berth.testing.simulation.nats.pull import WAITING_MAX, PullConsumer
from berth.testing.simulation.nats.push import PushConsumer
from berth.testing.simulation.nats.subjects import overlap

if TYPE_CHECKING:
    from berth.testing.simulation.nats.server import SimNats
    from berth.testing.simulation.nats.stream import Stream

ACK_PENDING_MAX = 1000
_KNOWN = frozenset(
    {
        "durable_name",
        "name",
        "description",
        "deliver_policy",
        "opt_start_seq",
        "ack_policy",
        "ack_wait",
        "max_deliver",
        "backoff",
        "filter_subject",
        "filter_subjects",
        "replay_policy",
        "max_waiting",
        "max_ack_pending",
        "flow_control",
        "deliver_subject",
        "idle_heartbeat",
        "inactive_threshold",
        "num_replicas",
        "mem_storage",
        "metadata",
    }
)
_FIXED = (("deliver_policy", "deliver policy"), ("opt_start_seq", "start sequence"), ("ack_policy", "ack policy"))


def make_consumer(server: SimNats, stream: Stream, name: str, wanted: dict[str, Any], action: str) -> dict[str, Any]:
    """The consumer of that name, made, found, or brought up to date, as it was before it delivers. Raises Refusal."""
    config = _complete(wanted, name)
    there = stream.consumers.get(name)
    if there is not None:
        if there.config == config:
            return there.info()
        if action == "create":
            raise Refusal(problems.CONSUMER_EXISTS)
        for key, what in _FIXED:
            if there.config.get(key) != config.get(key):
                raise Refusal(problems.consumer_update_forbidden(what))
        there.config = config
        return there.info()
    if action == "update":
        raise Refusal(problems.CONSUMER_MISSING)
    _check_workqueue(stream, config)
    kind = PushConsumer if config.get("deliver_subject") else PullConsumer
    consumer = kind(stream, name, config)
    info = consumer.info()
    if config.get("deliver_subject"):
        info["push_bound"] = bool(server.listeners(config["deliver_subject"]))
    server.add_consumer(consumer)
    return info


def _complete(wanted: dict[str, Any], name: str) -> dict[str, Any]:
    unknown = wanted.keys() - _KNOWN
    if unknown:
        raise NotImplementedError(f"the simulated server has no consumer setting {sorted(unknown)}")
    config = {key: value for key, value in wanted.items() if value not in (None, "", 0, False, [])}
    config["name"] = name
    config.setdefault("deliver_policy", "all")
    config.setdefault("ack_policy", "none")
    config.setdefault("replay_policy", "instant")
    config.setdefault("max_deliver", -1)
    config.setdefault("num_replicas", 0)
    if config["ack_policy"] == "explicit":
        config.setdefault("ack_wait", 30 * NANO)
        config.setdefault("max_ack_pending", ACK_PENDING_MAX)
    if not config.get("deliver_subject"):
        config.setdefault("max_waiting", WAITING_MAX)
    check_policy(config)
    return config


def _check_workqueue(stream: Stream, config: dict[str, Any]) -> None:
    """Of a work queue every message has one consumer, who acknowledges it."""
    if stream.config["retention"] != "workqueue":
        return
    if config["ack_policy"] != "explicit":
        raise Refusal(problems.CONSUMER_NEEDS_ACKS)
    mine = config.get("filter_subjects") or [config.get("filter_subject", ">")]
    for other in stream.consumers.values():
        if any(overlap(one, two) for one in mine for two in other.filters):
            raise Refusal(problems.CONSUMER_NOT_UNIQUE)
