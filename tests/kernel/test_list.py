"""What runs in the guest tries every knob that version 2 has, but for those that are named here."""

from tests.kernel.inside import values

from berth.node_qos_enforcer.core.strategies.knobs import KNOBS

READ = {"cpu.stat", "cpuacct.usage", "cgroup.threads", "cgroup.procs", "net.route", "resctrl.cbm_mask"}
"""Nobody writes them."""
NO_HARDWARE = {"resctrl.group", "resctrl.schemata", "resctrl.tasks"}
OLDER = {"kernel.sched_features"}
"""The place of `kernel.sched.features` before."""


def test_every_knob_of_version_2_is_tried():
    of_version_2 = {name for name, knob in KNOBS.items() if (knob.v2 or knob.kind == "folder") and knob.root != "act"}
    assert {ref.knob for ref in values("8:0", 1)} == of_version_2 - READ - NO_HARDWARE - OLDER
