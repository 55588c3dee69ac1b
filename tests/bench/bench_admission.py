"""Reviews of pods: bytes in, bytes out, by the product's own functions, on one core.

The pod has two containers, an init container, volumes and the labels of a Deployment's; of a hundred profiles three
match. Compared within one run: the same bytes decoded, and an answer of the same size encoded, and nothing else (the
baseline). Prints medians and 99th percentiles of CPU time, the ratio, and what a core does at 200 reviews a second;
asserts nothing.

    python tests/bench/bench_admission.py [--rounds 5000] [--profiles 100]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from told import tell

from berth.contracts import state
from berth.contracts.base import Problem
from berth.rules.admission.gates import BOOKS_PODS, CHECKS_DEVICES, DEFAULT
from berth.rules.admission.profiles import Profile, Profiles, read_profile
from berth.rules.admission.review import review
from berth.rules.admission.seal import Seal
from berth.rules.admission.seam import Answer
from berth.rules.admission.views import Views
from berth.rules.admission.wire import read_review, write_answer

RATE = 200
GATES = DEFAULT | {CHECKS_DEVICES, BOOKS_PODS}
CALLS = ("/mutate-pod", "/validate-pod")
BATCH = {"selector": {"matchLabels": {"app": "etl"}}, "qosClass": "BE", "priorityClassName": "koord-batch"}
MIXED = {"labels": {"mutated": "true"}, "labelSuffixes": {"quota": "-batch"}, "probability": "50%"}


def profile(name: str, spec: dict[str, Any]) -> Profile:
    """A profile that can be used."""
    found = read_profile(name, {}, spec)
    assert isinstance(found, Profile)
    return found


def cluster(count: int) -> Views:
    """So many profiles, of which three match."""
    strangers = [
        profile(f"p{number}", {"selector": {"matchLabels": {"app": f"other-{number}", "tier": "x"}}})
        for number in range(count - 3)
    ]
    matching = [
        profile("a", BATCH),
        profile("b", MIXED),
        profile("c", {"selector": BATCH["selector"], "patch": {"spec": {"terminationGracePeriodSeconds": 30}}}),
    ]
    classes = {"koord-batch": state.PriorityClass(name="koord-batch", version=1, value=5000)}
    return Views(profiles=Profiles([*strangers, *matching]), priority_classes=classes, seal=Seal([b"key"]))


def pod() -> dict[str, Any]:
    """About 4 KiB."""
    resources = {"requests": {"cpu": "1500m", "memory": "2Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}}
    env = [{"name": f"NAME_{number}", "value": "x" * 24} for number in range(24)]
    mounts = [{"name": f"v{number}", "mountPath": f"/var/data/{number}"} for number in range(8)]
    container = {"image": "registry/app:1", "resources": resources, "env": env, "volumeMounts": mounts}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "etl-5d9c7b9f8d-",
            "labels": {"app": "etl", "quota": "team", "pod-template-hash": "5d9c7b9f8d"},
        },
        "spec": {
            "initContainers": [{"name": "init", **container}],
            "containers": [{"name": "main", **container}, {"name": "sidecar", **container}],
            "volumes": [{"name": f"v{number}", "emptyDir": {}} for number in range(8)],
        },
    }


def body(item: Any) -> bytes:
    """What the API server sends."""
    asked = {"uid": "u" * 36, "operation": "CREATE", "namespace": "default", "object": item}
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked})


def timed(what: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Median and 99th percentile of CPU time, in microseconds: others on the machine do not count."""
    spent = []
    for _ in range(rounds):
        began = time.thread_time()
        what()
        spent.append((time.thread_time() - began) * 1e6)
    return statistics.median(spent), statistics.quantiles(spent, n=100)[98]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5000)
    parser.add_argument("--profiles", type=int, default=100)
    options = parser.parse_args()
    views, data = cluster(options.profiles), body(pod())

    def asked(path: str) -> Answer:
        request = read_review(data)
        assert not isinstance(request, Problem)
        return review(path, request, views, gates=GATES, draw=37)

    def reviewed(path: str) -> bytes:
        return write_answer("u" * 36, asked(path))

    def carried(answer: object) -> bytes:
        msgspec.json.decode(data)
        return msgspec.json.encode(answer)

    print(f"{len(data)} bytes, {options.profiles} profiles, {options.rounds} rounds")
    for path in CALLS:
        answer = asked(path)
        plain = msgspec.json.decode(reviewed(path))
        median, p99 = timed(partial(reviewed, path), options.rounds)
        base, base_p99 = timed(partial(carried, plain), options.rounds)
        print(
            f"{path:14s} {len(answer.patch):3d} operations  median {median:7.1f} us  p99 {p99:7.1f} us   "
            f"decode + encode alone {base:6.1f} / {base_p99:6.1f} us   ratio {median / base:4.1f}   "
            f"{RATE}/s take {median * RATE / 1e4:4.1f} % of a core"
        )
        tell("reviews", path=path, median_us=median, p99_us=p99, base_us=base, ratio=median / base)


if __name__ == "__main__":
    main()
