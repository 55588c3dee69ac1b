"""Every knob of control groups version 2 on a real kernel, which is booted for it (`make e2e-kernel`)."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kernel.inside import ELSEWHERE, OF_ANOLIS

from berth.testing.guest import run_in_guest

ROOT = Path(__file__).parents[2]
INSIDE = Path(__file__).with_name("inside.py")
TIMEOUT_S = 300.0
BEST_EFFORT, POD, CONTAINER = "kubepods/besteffort", "kubepods/burstable/podp", "kubepods/burstable/podp/c"

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def answer():
    """What the guest found. One boot for all."""
    assets = subprocess.run([ROOT / "tools/kernel/assets.sh", "--print"], capture_output=True, text=True, check=False)
    if assets.returncode:
        pytest.skip("no kernel and no qemu here: tools/kernel/assets.sh")
    kernel = assets.stdout.splitlines()[-1]
    ran = run_in_guest(Path(kernel), [sys.executable, "-B", str(INSIDE), kernel], timeout_s=TIMEOUT_S)
    assert ran.code == 0, ran.output
    found = json.loads(ran.output.splitlines()[-1])
    print(json.dumps(found, indent=1))
    return found


def test_the_kernel_has_what_was_wanted(answer):
    has, disk = answer["has"], answer["disk"]
    features = has.pop("kernel/debug/sched:kernel.sched.features").split()
    assert "NO_GENTLE_FAIR_SLEEPERS" in features
    rows = {key: text for key, text in has.items() if ":io." in key}
    assert f"{disk} rbps=1048576 wbps=max riops=max wiops=100" in rows[f"{BEST_EFFORT}:io.max"].splitlines()
    assert f"{disk} 40" in rows[f"{BEST_EFFORT}:io.weight"].splitlines()
    qos = next(line for line in rows[":io.cost.qos"].splitlines() if line.startswith(f"{disk} "))
    assert "enable=1 ctrl=user rpct=95.00 rlat=3000 wpct=95.00 wlat=3000" in qos
    assert {key: text for key, text in has.items() if key not in rows} == {
        f"{BEST_EFFORT}:cpu.quota": "50000 100000",
        f"{BEST_EFFORT}:cpu.idle": "1",
        f"{BEST_EFFORT}:cpuset.cpus": "0",
        f"{POD}:cpu.quota": "150000 100000",
        f"{CONTAINER}:cpu.quota": "120000 100000",
        f"{CONTAINER}:cpu.burst": "60000",
        f"{CONTAINER}:cpu.shares": "79",
        "kubepods/burstable:memory.min": "8388608",
        f"{POD}:memory.min": "8388608",
        f"{CONTAINER}:memory.min": "4194304",
        f"{CONTAINER}:memory.low": "6291456",
        f"{CONTAINER}:memory.high": "67108864",
        f"{CONTAINER}:memory.max": "134217728",
        f"{CONTAINER}:memory.oom.group": "1",
        "sys/vm:vm.min_free_kbytes": "20480",
        "sys/vm:vm.watermark_scale_factor": "20",
        next(key for key in has if key.endswith("proc.oom_score_adj")): "700",
        "tmp/terway:terway.global_bps_config": "hw_tx_bps_max 1",
        "tmp/terway:terway.pods": "{}",
    }


def test_what_is_settled_is_not_written_again(answer):
    assert answer["problems"] == []
    assert answer["written"][1:] == [0, 0]


def test_what_the_kernel_lacks_is_said(answer):
    assert answer["lacking"] == sorted([*OF_ANOLIS, *ELSEWHERE])


def test_everything_is_given_back_by_the_process_that_follows(answer):
    assert answer["refused_to_go_back"] == []
    # From the first word on, the kernel shows what it would charge for a disk, and has no way to forget it.
    left = {path.rpartition("/")[2]: after for path, (_, after) in answer["not_given_back"].items()}
    assert sorted(left) == ["io.cost.model", "io.cost.qos"]
    assert "enable=0 ctrl=auto" in left["io.cost.qos"]
    assert "ctrl=auto" in left["io.cost.model"]


def test_the_network_is_shared_and_let_go_of(answer):
    network = answer["network"]
    assert network["problems"] == []
    assert "htb 1: root" in network["shown"]["qdisc"]
    assert "class htb 1:3" in network["shown"]["classes"]
    assert "class htb 1:a" not in network["shown"]["classes"]
    assert "10.0.0.2 : 1:4" in network["shown"]["table"]
    assert 'socket cgroupv2 level 3 "kubepods/burstable/podp"' in network["shown"]["table"]
    assert "htb" not in network["after"]["qdisc"]
    assert network["after"]["table"].startswith("Error: No such file")
