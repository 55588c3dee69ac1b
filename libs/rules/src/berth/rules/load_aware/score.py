"""How much of a node would be left, by what is really used there: 0 to 100, divisions truncate."""

from __future__ import annotations

from typing import Final

from berth.resources.amounts import add
from berth.rules.load_aware.existing import node_load, prod_load
from berth.rules.load_aware.filter import Incoming, Measured
from berth.rules.load_aware.metric import is_expired
from berth.rules.scheduler_config.load_aware import LoadAwareArgs, duration_s

SCORE_MAX: Final = 100


def score_of(args: LoadAwareArgs, node: Measured, pod: Incoming, now_s: float) -> int:
    """The weighed mean over the resources, the worst of all that are tracked with a weight of its own.

    0 for a node of which nobody knows what is used now. A resource that the node does not have scores 0.
    """
    metric, weights, dominant = node.metric, args.resource_weights, args.dominant_resource_weight
    total = sum(weights.values()) + dominant
    if total <= 0 or metric is None or metric.node_usage is None:
        return 0
    if is_expired(metric, now_s, args.node_metric_expiration_seconds):
        return 0
    if pod.is_prod and args.score_according_prod_usage:
        load = prod_load(metric, node.existing, with_system=args.prod_usage_include_sys)
    else:
        length_s = duration_s(args.aggregated.score_aggregated_duration) or 0.0
        load = node_load(metric, node.existing, args.aggregated.score_aggregation_type, length_s)
    load = add(load, pod.estimate)
    scores = {name: least(load.get(name, 0), node.capacity.get(name, 0)) for name in {*args.tracked, *weights}}
    worst = min(scores.values(), default=0)
    return (sum(weight * scores[name] for name, weight in weights.items()) + dominant * worst) // total


def least(load: int, capacity: int) -> int:
    """What is left of one resource, in percent, truncated."""
    return 0 if capacity <= 0 or load > capacity else (capacity - load) * SCORE_MAX // capacity
