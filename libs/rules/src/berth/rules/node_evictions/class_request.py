"""What a pod requests of the resource of its class: batch and mid pods live on what is lent, others on native ones."""

from __future__ import annotations

from typing import Final

from berth.contracts.names import BATCH_CPU, BATCH_MEMORY, CPU, MEMORY, MID_CPU, MID_MEMORY
from berth.resources.amounts import Amounts
from berth.rules.cpus.qos import BATCH, MID

_OF_CLASS: Final = {
    BATCH: {CPU: BATCH_CPU, MEMORY: BATCH_MEMORY},
    MID: {CPU: MID_CPU, MEMORY: MID_MEMORY},
}


def class_resource(priority_class: str, resource: str) -> str:
    """What cpu or memory is called for pods of a priority class."""
    return _OF_CLASS.get(priority_class, {}).get(resource, resource)


def class_request(priority_class: str, resource: str, requests: Amounts) -> tuple[str, int]:
    """What a pod counts with, by what name; a negative amount of what is lent is none."""
    name = class_resource(priority_class, resource)
    amount = requests.get(name, 0)
    return name, amount if name == resource else max(amount, 0)
