"""What a scripted server streams, and a handler that writes down what a reflector makes of it."""

import json
from typing import Any

from berth.contracts.kube import AnyObject, Pod
from berth.kube import Answer, ChangeKind, Handler

PATH = "/api/v1/pods"


def event(kind: str, obj: Any) -> dict[str, Any]:
    return {"type": kind, "object": obj}


def bookmark(version: int) -> dict[str, Any]:
    return event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version), "creationTimestamp": None}})


def expired() -> dict[str, Any]:
    return event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})


class Diary(Handler[Pod]):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.lines: list[tuple[Any, ...]] = []
        self.waits = 0

    def began(self) -> None:
        self.lines.append(("began",))

    def seen(self, raw: bytes, item: Pod, version: int) -> None:
        assert json.loads(raw)["metadata"]["name"] == item.metadata.name
        self.lines.append(("seen", item.metadata.name, version))

    def finished(self, version: int, keys: frozenset[str]) -> None:
        self.lines.append(("finished", version, *sorted(keys)))

    def changed(self, kind: ChangeKind, item: Pod) -> None:
        self.lines.append((kind, item.metadata.name))

    def deleted(self, item: Pod | AnyObject, version: int) -> None:
        self.lines.append(("deleted", item.metadata.name, version))

    def bookmark(self, version: int) -> None:
        self.lines.append(("bookmark", version))

    def malformed(self, key: str, uid: str, version: int, field: str, message: str) -> None:
        assert message
        self.lines.append(("malformed", key, uid, version, field))

    def refused(self, answer: Answer, wait_s: float) -> None:
        self.lines.append(("refused", answer.status, answer.reason))

    async def wait_while_full(self) -> None:
        self.waits += 1

    def without_refusals(self) -> list[tuple[Any, ...]]:
        return [line for line in self.lines if line[0] != "refused"]
