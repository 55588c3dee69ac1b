"""Where kubelet has the control group of a pod."""

from __future__ import annotations

import pytest

from berth.node_qos_enforcer.core.inside.groups import pod_group


@pytest.mark.parametrize(
    ("parent", "group"),
    [
        ("/kubepods/poduid-1", "kubepods/poduid-1"),
        ("/kubepods/burstable/poduid-1", "kubepods/burstable/poduid-1"),
        ("/kubepods.slice/kubepods-poduid_1.slice", "kubepods.slice/kubepods-poduid_1.slice"),
        (
            "kubepods-burstable-poduid_1.slice",
            "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poduid_1.slice",
        ),
        ("/kubepods/podother", None),
        ("/kubepods", None),
        ("/kubepods/../poduid-1", None),
        ("/system.slice/poduid-1", None),
        ("/kubepods/burstable/poduid-1/x", None),
        ("", None),
    ],
)
def test_the_group_of_a_pod_is_kubelets(parent: str, group: str | None) -> None:
    assert pod_group(parent, "uid-1") == group
