"""A manifest of a pod as an API server would have it: requests and priority filled in, changed by Berth's webhook."""

from __future__ import annotations

from typing import Any

from berth.cli.errors import CliError
from berth.rules.admission.review import review
from berth.rules.admission.seam import CREATE, Request
from berth.rules.admission.views import Views
from berth.simcluster.store.patch import json_patch

Json = dict[str, Any]

SURE = 100
"""The draw for profiles that apply to a part of the pods."""


def as_admitted(pod: Json, views: Views, where: str, *, asks_webhook: bool) -> Json:
    """The pod as it would be created. `views` are what there is of PriorityClasses, profiles and namespaces,
    `asks_webhook`: Berth's webhook has a say. Profiles that apply to a part of all pods do not apply.

    Raises CliError, naming the field, for one that would not be created.
    """
    spec = pod["spec"]
    filled = {**pod, "spec": {**spec, **_with_requests(spec), **_priority(spec, views, f"{where}spec")}}
    if not asks_webhook:
        return filled
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    for path in ("/mutate-pod", "/validate-pod"):
        request = Request(uid="", operation=CREATE, namespace=namespace, name=name, object=filled)
        answer = review(path, request, views, draw=SURE)
        if answer.refusals:
            raise CliError(f"{where}{answer.refusals[0].text}")
        if answer.patch:
            filled = json_patch(filled, list(answer.patch))
    return filled


def _with_requests(spec: Json) -> Json:
    """A limit without a request is the request."""
    found: Json = {}
    for field in ("containers", "initContainers"):
        if isinstance(containers := spec.get(field), list):
            found[field] = [_with_limits(each) for each in containers]
    return found


def _with_limits(container: Any) -> Any:
    resources = container.get("resources") if isinstance(container, dict) else None
    if not isinstance(resources, dict) or not isinstance(limits := resources.get("limits"), dict):
        return container
    requests = resources.get("requests") or {}
    if not isinstance(requests, dict):
        return container
    return {**container, "resources": {**resources, "requests": {**limits, **requests}}}


def _priority(spec: Json, views: Views, path: str) -> Json:
    name = spec.get("priorityClassName") or ""
    if not isinstance(name, str):
        raise CliError(f"{path}.priorityClassName: is no text")
    classes = views.priority_classes
    if name and name not in classes:
        raise CliError(f"{path}.priorityClassName: there is no PriorityClass {name[:60]!r}")
    standard = max((each for each in classes.values() if each.global_default), key=lambda c: c.value, default=None)
    found = classes[name] if name else standard
    if found is None:
        return {}
    filled: Json = {"priorityClassName": found.name, "priority": spec.get("priority", found.value)}
    if found.preemption_policy:
        filled["preemptionPolicy"] = spec.get("preemptionPolicy", found.preemption_policy)
    return filled
