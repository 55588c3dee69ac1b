"""Laws of CPU suppress beyond the reference cases."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.node_qos_enforcer.core.suppress import (
    MIN_QUOTA_US,
    Pod,
    quota_step,
    skip_reason,
    suppress_target,
)

cores = st.floats(0, 512, allow_nan=False)
capacity = st.integers(0, 1_024_000)
percent = st.integers(0, 100)


@st.composite
def nodes(draw):
    uids = draw(st.lists(st.sampled_from("abcdefgh"), unique=True))
    return {
        "capacity_milli": draw(capacity),
        "annotation_reserved_milli": draw(st.integers(0, 64_000)),
        "node_used_cores": draw(cores),
        "pod_used_cores": {uid: draw(cores) for uid in uids},
        "pods": [Pod(uid, draw(st.sampled_from(["LS", "BE", ""])), "Burstable") for uid in uids],
        "threshold_percent": draw(percent),
    }


@given(nodes())
def test_target_never_exceeds_the_threshold_of_the_node(node):
    target = suppress_target(**node)
    assert target.target_milli <= node["capacity_milli"] * node["threshold_percent"] // 100
    assert target.target_milli == target.limit_milli - target.pods_milli - target.system_milli


@given(nodes(), percent)
def test_floor_holds_and_changes_nothing_above_it(node, floor):
    free = suppress_target(**node).target_milli
    held = suppress_target(**node, min_percent=floor)
    assert held.target_milli == max(free, node["capacity_milli"] * floor // 100)
    assert held.floored == (held.target_milli != free)


@given(nodes(), st.floats(0, 64))
def test_more_use_by_others_never_raises_the_target(node, more):
    # The node's own figure rises with the pod's, as it does when both are measured.
    used = {**node["pod_used_cores"], "other": 1.0}
    raised = {**used, "other": 1.0 + more}
    before = suppress_target(**{**node, "pod_used_cores": used})
    after = suppress_target(**{**node, "pod_used_cores": raised, "node_used_cores": node["node_used_cores"] + more})
    assert after.target_milli <= before.target_milli + 1  # both terms are cut to milli-cores


@given(nodes(), st.floats(0, 64))
def test_more_unaccounted_use_never_raises_the_target(node, more):
    before = suppress_target(**node)
    after = suppress_target(**{**node, "node_used_cores": node["node_used_cores"] + more})
    assert after.target_milli <= before.target_milli


@given(nodes(), cores)
def test_use_of_best_effort_pods_alone_never_lowers_the_target(node, used):
    other = [Pod("be", "BE")]
    idle = suppress_target(**{**node, "pods": [*node["pods"], *other]})
    busy = suppress_target(
        **{**node, "pods": [*node["pods"], *other], "pod_used_cores": {**node["pod_used_cores"], "be": used}}
    )
    assert busy.target_milli >= idle.target_milli


def test_kubernetes_best_effort_pod_is_best_effort_without_a_label():
    node = {"capacity_milli": 10_000, "node_used_cores": 4.0, "pod_used_cores": {"a": 4.0}, "threshold_percent": 50}
    assert suppress_target(**node, pods=[Pod("a", "", "BestEffort")]).target_milli == 5_000
    assert suppress_target(**node, pods=[Pod("a", "", "Burstable")]).target_milli == 1_000
    assert suppress_target(**node, pods=[]).target_milli == 1_000


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, 1e12])
def test_absurd_usage_is_refused_with_its_name(bad):
    node = {"capacity_milli": 1_000, "threshold_percent": 65}
    with pytest.raises(ValueError, match="node_used_cores"):
        suppress_target(**node, node_used_cores=bad, pod_used_cores={})
    with pytest.raises(ValueError, match=r"pod_used_cores\[p\]"):
        suppress_target(**node, node_used_cores=0.0, pod_used_cores={"p": bad})


@given(st.integers(-1_000_000, 1_000_000), st.integers(-1, 100_000_000), st.integers(1, 512))
def test_quota_is_bounded_and_grows_slowly(target, current, node_cores):
    step = quota_step(target_milli=target, current_quota_us=current, node_cores=node_cores)
    if step is None:
        assert abs(target * 100 - current) < node_cores * 1_000
        return
    assert MIN_QUOTA_US <= step <= max(target * 100, MIN_QUOTA_US)
    if current >= 0 and step > MIN_QUOTA_US:
        assert step - current <= node_cores * 10_000


@given(st.integers(0, 100_000), st.integers(1, 128))
def test_quota_reaches_its_target_in_a_bounded_number_of_rounds(target, node_cores):
    quota, rounds = MIN_QUOTA_US, 0
    while (step := quota_step(target_milli=target, current_quota_us=quota, node_cores=node_cores)) not in (None, quota):
        assert step > quota
        quota, rounds = step, rounds + 1
    wanted = max(target * 100, MIN_QUOTA_US)
    assert abs(quota - wanted) < node_cores * 1_000
    assert rounds <= math.ceil(wanted / (node_cores * 10_000)) + 1


def test_a_small_target_limits_an_unlimited_group_too():
    assert quota_step(target_milli=500, current_quota_us=-1, node_cores=80) == 50_000
    assert quota_step(target_milli=70_000, current_quota_us=-1, node_cores=80) == 7_000_000


@pytest.mark.parametrize(
    ("node", "pods", "usages", "words"),
    [(None, 3, 3, "node CPU"), (1.0, 0, 0, "no pods"), (1.0, 3, 0, "no pod has"), (0.0, 1, 1, "")],
)
def test_a_round_without_input_is_skipped_with_a_reason(node, pods, usages, words):
    reason = skip_reason(node_used_cores=node, pods=pods, pod_usages=usages)
    assert words in reason
    assert bool(reason) == bool(words)
