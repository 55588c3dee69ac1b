"""A manifest that grants a login what Berth's services do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from berth.cli.cluster.rights import HOME, Need

Json = dict[str, Any]
NAME = "berth-up"
_API = "rbac.authorization.k8s.io"
_ACCOUNT = "system:serviceaccount:"


def manifest(user: str, needs: Iterable[Need]) -> Json:
    """Roles and bindings for a user, or a service account by the name that the API server gives it."""
    wide: dict[tuple[str, str, str], set[str]] = {}
    narrow: dict[tuple[str, str, str], set[str]] = {}
    for need in needs:
        into = narrow if need.namespace else wide
        into.setdefault((need.group, need.resource, need.name), set()).add(need.verb)
    items = [
        _role("ClusterRole", {}, wide),
        _binding("ClusterRoleBinding", "ClusterRole", {}, user),
        _role("Role", {"namespace": HOME}, narrow),
        _binding("RoleBinding", "Role", {"namespace": HOME}, user),
    ]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _role(kind: str, where: Json, rules: dict[tuple[str, str, str], set[str]]) -> Json:
    return {
        "apiVersion": f"{_API}/v1",
        "kind": kind,
        "metadata": {"name": NAME, **where},
        "rules": [
            {
                "apiGroups": [group],
                "resources": [resource],
                "verbs": sorted(verbs),
                **({"resourceNames": [name]} if name else {}),
            }
            for (group, resource, name), verbs in sorted(rules.items())
        ],
    }


def _binding(kind: str, role: str, where: Json, user: str) -> Json:
    if user.startswith(_ACCOUNT) and user.count(":") == 3:
        namespace, name = user.removeprefix(_ACCOUNT).split(":")
        subject = {"kind": "ServiceAccount", "namespace": namespace, "name": name}
    else:
        subject = {"apiGroup": _API, "kind": "User", "name": user}
    return {
        "apiVersion": f"{_API}/v1",
        "kind": kind,
        "metadata": {"name": NAME, **where},
        "roleRef": {"apiGroup": _API, "kind": role, "name": NAME},
        "subjects": [subject],
    }
