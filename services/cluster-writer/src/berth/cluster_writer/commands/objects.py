"""Objects of custom resources and our webhook configurations: patched, made to say a specification, deleted."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from berth.cluster_writer.commands.outcomes import FIELD_MANAGER, RetryLaterError, outcome_of
from berth.cluster_writer.core.applied import is_ours, revision_of
from berth.cluster_writer.core.webhooks import patch_of
from berth.cluster_writer.core.writable import APPLICABLE, RESERVATIONS_API, WEBHOOKS, WRITABLE
from berth.contracts import kube, names
from berth.contracts.command import MANAGER, ApplyObject, ConfigureWebhooks, DeleteObject, PatchObject
from berth.contracts.errors import InvalidMessage
from berth.kube import resources
from berth.kube.answer import Answer
from berth.kube.api import KubeApi
from berth.kube.bodies import Patch
from berth.kube.resources import Resource
from berth.runtime.clock import Clock

NO_VERSION: Final = "1"
"""That no object has: server-side apply makes a missing object in spite of it, and leaves one alone that is there."""
_OBJECT: Final = msgspec.json.Decoder(kube.AnyObject)


class ObjectCommands:
    """Carries out commands about objects. What came of each, as a word."""

    def __init__(self, api: KubeApi, clock: Clock, *, webhook_url: str = "") -> None:
        """`webhook_url`: where the API server reaches admission-webhook; empty: by its Service."""
        self._api = api
        self._clock = clock
        self._webhook_url = webhook_url

    async def patch(self, command: PatchObject) -> str:
        """Merge annotations, labels and status into one of the writable kinds."""
        resource = WRITABLE.get(command.api)
        if resource is None:
            raise InvalidMessage("api", f"{command.api!r} is none of {', '.join(sorted(WRITABLE))}")
        meta: dict[str, Any] = {"uid": command.uid}
        if command.version:
            meta["resourceVersion"] = command.version
        notes: dict[str, Any] = {}
        if command.annotations:
            notes["annotations"] = command.annotations
        if command.labels:
            notes["labels"] = command.labels
        status_apart = command.status is not None and command.status_subresource
        body: dict[str, Any] = {"metadata": {**meta, **notes}}
        if command.status is not None and not status_apart:
            body["status"] = command.status
        # The API server compares no uid when the status of a custom resource is written through its own door. Without a
        # version to guard it, an empty first half says whether the object is the one meant, and at which version.
        if notes or not status_apart or not command.version:
            answer = await self._patch(resource, command, body)
            outcome = outcome_of(answer)
            if outcome != "done" or not status_apart:
                return outcome
            # Our own first half has moved the version on; anybody else's change still stops the second.
            meta["resourceVersion"] = _OBJECT.decode(answer.body).metadata.resource_version
        answer = await self._patch(
            resource, command, {"metadata": meta, "status": command.status}, subresource="status"
        )
        if answer.conflict and not command.version:
            raise RetryLaterError("the object has changed meanwhile")
        return outcome_of(answer)

    async def apply(self, command: ApplyObject) -> str:
        """Make an object say this spec: created when it is missing, taken over when others wrote what we decide.

        The object is read, and the request guarded by its version, so that an older one never lands on a newer one,
        whichever replica carried that out. Its owner, a node, is read behind it: a request for a former node of the
        name is overtaken, and what a request for the new one has written since then moves the version on.
        """
        if command.api not in APPLICABLE:
            raise InvalidMessage("api", f"{command.api!r} is none of {', '.join(sorted(APPLICABLE))}")
        owner = command.owner
        resource, kind, is_shared, _ = APPLICABLE[command.api]
        namespace = command.namespace if resource.namespaced else ""
        found = await self._api.get(resource, namespace, command.name)
        if not found.ok and not found.missing:
            return outcome_of(found)
        missing = kube.Meta(name=command.name, resource_version=NO_VERSION)
        shown = _OBJECT.decode(found.body).metadata if found.ok else missing
        if is_shared and found.ok and not is_ours(shown):
            return "another's"
        if command.revision < revision_of(shown, owner, self._clock.now()):
            return "overtaken"
        if owner is not None and owner.kind == "Node":
            node = await self._api.get(resources.NODES, "", owner.name)
            if not node.ok:
                return outcome_of(node)
            if _OBJECT.decode(node.body).metadata.uid != owner.uid:
                return "overtaken"
        meta: dict[str, Any] = {
            "name": command.name,
            "annotations": {**command.annotations, names.ANNOTATION_REVISION: str(command.revision)},
            "ownerReferences": [] if owner is None else [msgspec.to_builtins(owner)],
            # Two requests for one object, or two tries of one, may be on their way at once: the last to begin holds.
            "resourceVersion": shown.resource_version,
        }
        if namespace:
            meta["namespace"] = namespace
        labels = {**command.labels, **({names.LABEL_MANAGED_BY: MANAGER} if is_shared else {})}
        if labels:
            meta["labels"] = labels
        content = command.fields or {"spec": command.spec}
        body = {**content, "apiVersion": resource.api_version, "kind": kind, "metadata": meta}
        answer = await self._api.patch(
            resource, namespace, command.name, body, content_type=Patch.APPLY, field_manager=FIELD_MANAGER, force=True
        )
        if answer.conflict:
            raise RetryLaterError("the object has changed meanwhile")
        outcome = outcome_of(answer)
        if outcome != "done" or command.status is None:
            return outcome
        # By the version that the first half has made: what somebody else has written since then is looked at anew.
        version = _OBJECT.decode(answer.body).metadata.resource_version
        half = {"apiVersion": resource.api_version, "kind": kind, "status": command.status}
        half["metadata"] = {"name": command.name, "resourceVersion": version}
        answer = await self._api.patch(
            resource,
            namespace,
            command.name,
            half,
            subresource="status",
            content_type=Patch.APPLY,
            field_manager=FIELD_MANAGER,
            force=True,
        )
        if answer.conflict:
            raise RetryLaterError("the object has changed meanwhile")
        return outcome_of(answer)

    async def delete(self, command: DeleteObject) -> str:
        """Delete an object that we made, unless it is another one by now, or another writer's; or a Reservation as it
        was judged."""
        if command.api == RESERVATIONS_API:
            if not command.version:
                raise InvalidMessage("version", "is missing: a Reservation is deleted as it was judged")
            return outcome_of(
                await self._api.delete(
                    resources.RESERVATIONS, "", command.name, uid=command.uid, version=command.version
                )
            )
        applicable = APPLICABLE.get(command.api)
        if applicable is None or not applicable.is_deletable:
            shared = sorted(api for api, each in APPLICABLE.items() if each.is_deletable)
            raise InvalidMessage("api", f"{command.api!r} is none of {', '.join(shared)}")
        found = await self._api.get(applicable.resource, "", command.name)
        if not found.ok:
            return outcome_of(found)
        shown = _OBJECT.decode(found.body).metadata
        if shown.uid != command.uid:
            return "overtaken"
        if not is_ours(shown):
            return "another's"
        # Between the two another writer may take it over: then its version has moved on.
        return outcome_of(
            await self._api.delete(
                applicable.resource, "", command.name, uid=command.uid, version=shown.resource_version
            )
        )

    async def configure_webhooks(self, command: ConfigureWebhooks) -> str:
        """Have Berth's own webhook configuration of a kind hold these entries, and no other configuration."""
        body = patch_of(command, self._webhook_url)
        resource = WEBHOOKS[command.kind]
        return outcome_of(await self._api.patch(resource, "", names.WEBHOOKS, body, field_manager=FIELD_MANAGER))

    async def _patch(self, resource: Resource, command: PatchObject, body: Any, subresource: str = "") -> Answer:
        namespace = command.namespace if resource.namespaced else ""
        return await self._api.patch(
            resource, namespace, command.name, body, subresource=subresource, field_manager=FIELD_MANAGER
        )
