"""Bugs of what happens to pods as they are created."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import Any
from unittest.mock import patch

from berth.admission_webhook import reconciler
from berth.auditor.core.steps import Steps
from berth.auditor.core.unprofiled import Unprofiled
from berth.cluster_writer.core import webhooks as writer
from berth.contracts.command import WebhookEntry
from berth.invariants import Finding
from berth.rules import webhooks
from berth.rules.admission import conversion, profile_rule

Planted = AbstractContextManager[object]


def every_call_counts() -> Planted:
    """The mark that the first call leaves tells later ones nothing."""
    return patch.object(profile_rule, "read_mark", lambda *_: None)


def nobody_without_it() -> Planted:
    """What cannot be asked about is not created."""

    def rendered(entry: WebhookEntry, url: str = "") -> dict[str, Any]:
        return {**webhooks.rendered(entry, url), "failurePolicy": "Fail"}

    stack = ExitStack()
    for module in (reconciler, writer):
        stack.enter_context(patch.object(module, "rendered", rendered))
    return stack


def first_container_alone() -> Planted:
    """Of the containers of a pod the first one is converted."""
    real = conversion.list_in

    def list_in(value: Mapping[str, Any], *path: str) -> Any:
        return real(value, *path)[:1]

    return patch.object(conversion, "list_in", list_in)


def _nobody(self: Unprofiled, lists: object) -> Steps[list[Finding]]:
    yield from ()
    return []


def missed_untold() -> Planted:
    """Nobody looks for pods that were created without their profile."""
    return patch.object(Unprofiled, "looking", _nobody)
