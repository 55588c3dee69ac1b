"""A small cluster for admission, and what it does with an object."""

from __future__ import annotations

from typing import Any

import msgspec

from berth.contracts import state
from berth.rules.admission.gates import DEFAULT, Gates
from berth.rules.admission.profiles import Profile, Profiles, read_profile
from berth.rules.admission.review import review
from berth.rules.admission.seal import Seal
from berth.rules.admission.seam import Answer, Request
from berth.rules.admission.views import Views
from berth.simcluster.store.patch import json_patch

Json = dict[str, Any]

CLASSES = {
    name: state.PriorityClass(name=name, version=1, value=value, preemption_policy="PreemptLowerPriority")
    for name, value in (("koord-prod", 9000), ("koord-mid", 7000), ("koord-batch", 5000), ("koord-free", 3000))
}


def profile(name: str, spec: Json, annotations: dict[str, str] | None = None) -> Profile:
    found = read_profile(name, annotations or {}, spec)
    assert isinstance(found, Profile)
    return found


def views(*profiles: Profile, **more: Any) -> Views:
    return Views(
        **(
            {
                "profiles": Profiles(profiles),
                "priority_classes": CLASSES,
                "namespaces": {"d": {"team": "a"}},
                "seal": Seal([b"key"]),
            }
            | more
        )
    )


def pod(*containers: Json, labels: dict[str, str] | None = None, **spec: Any) -> Json:
    return {"metadata": {"labels": labels or {"app": "x"}}, "spec": {"containers": list(containers), **spec}}


def container(name: str = "main", requests: Json | None = None, limits: Json | None = None) -> Json:
    parts = {"requests": requests, "limits": limits}
    return {"name": name, "resources": {part: amounts for part, amounts in parts.items() if amounts is not None}}


def ask(
    path: str,
    item: Json | None,
    known: Views,
    *,
    old: Json | None = None,
    gates: Gates = DEFAULT,
    draw: int = 100,
    **request: Any,
) -> Answer:
    asked = Request(
        **(
            {
                "uid": "u",
                "operation": "CREATE" if old is None else "UPDATE",
                "namespace": "d",
                "object": item,
                "old_object": old,
            }
            | request
        )
    )
    return review(path, asked, known, gates=gates, draw=draw)


def mutated(item: Json, known: Views, path: str = "/mutate-pod", **more: Any) -> Json:
    """What the API server stores."""
    before = msgspec.json.encode(item)
    answer = ask(path, item, known, **more)
    assert msgspec.json.encode(item) == before
    assert answer.is_allowed, answer.message
    return json_patch(item, list(answer.patch))


def rules_of(answer: Answer) -> list[str]:
    return [refusal.rule for refusal in answer.refusals]
