"""Settings of streams: what the server fills in, what it refuses, what an update may change."""

from __future__ import annotations

from typing import Any

from berth.testing.simulation.nats.message import NANO
from berth.testing.simulation.nats.problems import BAD_REQUEST, Refusal, update_forbidden

VERSION = "2.15.1"

_DEFAULTS: dict[str, Any] = {
    "name": "",
    "subjects": [],
    "retention": "limits",
    "max_consumers": -1,
    "max_msgs": -1,
    "max_bytes": -1,
    "max_age": 0,
    "max_msgs_per_subject": -1,
    "max_msg_size": -1,
    "discard": "old",
    "storage": "file",
    "num_replicas": 1,
    "duplicate_window": 120 * NANO,
    "compression": "none",
    "allow_direct": False,
    "mirror_direct": False,
    "sealed": False,
    "deny_delete": False,
    "deny_purge": False,
    "allow_rollup_hdrs": False,
    "consumer_limits": {},
    "allow_msg_ttl": False,
}
_OPTIONAL = frozenset({"description", "allow_atomic", "persist_mode", "discard_new_per_subject", "metadata"})
_UNLIMITED_IF_ZERO = ("max_consumers", "max_msgs", "max_bytes", "max_msgs_per_subject", "max_msg_size")
_RETENTIONS = frozenset({"limits", "workqueue", "interest"})


def complete(wanted: dict[str, Any]) -> dict[str, Any]:
    """A whole configuration from what was asked for. Raises Refusal for what cannot be, KeyError for nothing known."""
    unknown = wanted.keys() - _DEFAULTS.keys() - _OPTIONAL
    if unknown:
        raise NotImplementedError(f"the simulated server has no stream setting {sorted(unknown)}")
    config = _DEFAULTS | {name: value for name, value in wanted.items() if value not in (None, "")}
    if not config["name"] or any(char in config["name"] for char in " .*>"):
        raise Refusal(BAD_REQUEST)
    if config["retention"] not in _RETENTIONS:
        raise Refusal(BAD_REQUEST)
    for name in _UNLIMITED_IF_ZERO:
        if config[name] == 0:
            config[name] = -1
    config["num_replicas"] = config["num_replicas"] or 1
    config["duplicate_window"] = config["duplicate_window"] or 120 * NANO
    for name in _OPTIONAL:
        if name in config and config[name] in (False, 0, {}):
            del config[name]
    levels = {"_nats.level": "5", "_nats.req.level": "0", "_nats.ver": VERSION}
    config["metadata"] = {**config.get("metadata", {}), **levels}
    return config


def updated(old: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """The configuration after an update. Raises Refusal for a change that is not allowed."""
    new = complete(wanted)
    if new["storage"] != old["storage"]:
        raise Refusal(update_forbidden("change storage type"))
    if new["retention"] != old["retention"]:
        raise Refusal(update_forbidden("change retention policy to/from workqueue"))
    if new.get("persist_mode", "default") != old.get("persist_mode", "default"):
        raise Refusal(update_forbidden("change persist mode"))
    if old["deny_delete"] and not new["deny_delete"]:
        raise Refusal(update_forbidden("cancel deny message deletes"))
    return new
