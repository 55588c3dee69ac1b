"""Single fields of a pod that the API server fills in and checks: ports, tolerations, restart policy."""

from collections.abc import Iterable
from typing import Any

from berth.simcluster.store.objects import Json
from berth.simcluster.store.status import Cause, bad_value, required, unsupported

PORT_MAX = 65535
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_OPERATORS = ("Equal", "Exists")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_POLICIES = ("Always", "OnFailure", "Never")


def with_ports(container: Json, *, host_network: bool) -> Json:
    """The container with the defaults of its ports. On the host's network every port is one of the host."""
    ports = container.get("ports")
    if not ports:
        return container
    filled = []
    for port in ports:
        each = {**port, "protocol": port.get("protocol") or "TCP"}
        if host_network and not each.get("hostPort") and each.get("containerPort"):
            each["hostPort"] = each["containerPort"]
        filled.append(each)
    return {**container, "ports": filled}


def port_causes(container: Json, where: str, *, host_network: bool) -> list[Cause]:
    """What is wrong with the ports of a container, whose types are known to fit."""
    causes: list[Cause] = []
    for index, port in enumerate(container.get("ports") or ()):
        path = f"{where}.ports[{index}]"
        inside, outside = port.get("containerPort") or 0, port.get("hostPort") or 0
        if not inside:
            causes.append(required(f"{path}.containerPort"))
        elif not 0 < inside <= PORT_MAX:
            causes.append(_range(f"{path}.containerPort", inside))
        if outside and not 0 < outside <= PORT_MAX:
            causes.append(_range(f"{path}.hostPort", outside))
        elif outside and host_network and outside != inside:
            causes.append(
                bad_value(f"{path}.hostPort", outside, "must match `containerPort` when `hostNetwork` is true")
            )
        if port["protocol"] not in _PROTOCOLS:
            causes.append(unsupported(f"{path}.protocol", port["protocol"], _PROTOCOLS))
    return causes


def double_host_ports(containers: Iterable[Json], where: str) -> list[Cause]:
    """Host ports that the containers of a pod, which run side by side, name twice."""
    causes: list[Cause] = []
    seen: set[tuple[str, str, int]] = set()
    for number, container in enumerate(containers):
        for index, port in enumerate(container.get("ports") or ()):
            taken = (port["protocol"], port.get("hostIP") or "", port.get("hostPort") or 0)
            if taken[2] and taken in seen:
                text = f'Duplicate value: "{"/".join(map(str, taken))}"'
                causes.append(Cause("FieldValueDuplicate", text, f"{where}[{number}].ports[{index}].hostPort"))
            seen.add(taken)
    return causes


def toleration_causes(tolerations: Any) -> list[Cause]:
    """What is wrong with a pod's tolerations."""
    causes: list[Cause] = []
    for index, each in enumerate(tolerations or ()):
        path = f"spec.tolerations[{index}]"
        operator, effect = each.get("operator") or "", each.get("effect") or ""
        if not each.get("key") and operator != "Exists":
            why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            causes.append(bad_value(f"{path}.operator", operator, why))
        elif operator and operator not in _OPERATORS:
            causes.append(unsupported(f"{path}.operator", operator, _OPERATORS))
        elif operator == "Exists" and each.get("value"):
            causes.append(
                bad_value(f"{path}.operator", each["value"], "value must be empty when `operator` is 'Exists'")
            )
        if effect and effect not in _EFFECTS:
            causes.append(unsupported(f"{path}.effect", effect, _EFFECTS))
        elif each.get("tolerationSeconds") is not None and effect != "NoExecute":
            why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            causes.append(bad_value(f"{path}.effect", effect, why))
    return causes


def policy_causes(spec: Json) -> list[Cause]:
    """What is wrong with the restart policy."""
    policy = spec.get("restartPolicy")
    return [unsupported("spec.restartPolicy", policy, _POLICIES)] if policy and policy not in _POLICIES else []


def _range(path: str, value: int) -> Cause:
    return bad_value(path, value, f"must be between 1 and {PORT_MAX}, inclusive")
