"""What answers the runtime: a class of the caller's, with the methods that it needs."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from berth.nri import api_pb2 as api
from berth.nri.core.adjusting import Creation, Update
from berth.nri.core.fault import Fault
from berth.nri.core.methods import Event


class Runtime(msgspec.Struct, frozen=True):
    """Who is at the other end, and how long it waits for an answer."""

    name: str
    version: str
    request_timeout_s: float


class Refusal(Exception):  # noqa: N818 - the name is the finding
    """Raised by a handler: what was asked is refused, whatever the failure policy says.

    The text is the reason. The runtime fails the container's creation with it and kubelet shows it to people, so
    nothing that may be secret is in it.
    """


class Handler:
    """Answers of a plugin that changes nothing; override what is wanted.

    The runtime holds the container back until the answer, and all other containers as well: answer from memory, within
    milliseconds. Never await `Plugin.update_containers` in here: the runtime does nothing else until this answer.
    What is raised is counted and logged by its type, and answered as the plugin's `FailurePolicy` says; a `Refusal` is
    answered with its reason.
    """

    async def configured(self, runtime: Runtime, config: str) -> None:
        """A runtime has taken the plugin; `config` is what a file of the node says about it, often nothing."""

    async def synchronize(self, part: api.SynchronizeRequest) -> Sequence[Update]:
        """What runs, in parts: `part.more` says that another comes. Only the last one's updates are sent."""
        return ()

    async def create_container(self, pod: api.PodSandbox, container: api.Container) -> Creation:
        """A container is to be created, an init or ephemeral one as well."""
        return Creation()

    async def update_container(
        self, pod: api.PodSandbox, container: api.Container, resources: api.LinuxResources
    ) -> Sequence[Update]:
        """Limits of a container are to change; an update without a container's id is about this one."""
        return ()

    async def stop_container(self, pod: api.PodSandbox, container: api.Container) -> Sequence[Update]:
        """A container has stopped; others may have its CPUs."""
        return ()

    async def update_pod(self, request: api.UpdatePodSandboxRequest) -> None:
        """Limits of a pod are to change."""

    async def happened(self, event: Event, pod: api.PodSandbox, container: api.Container) -> None:
        """Any other event. The container is empty when the event is about the pod."""

    async def validate(self, request: api.ValidateContainerAdjustmentRequest) -> str:
        """Why what all plugins together want of a container is refused; "" when it is not."""
        return ""

    async def disconnected(self, fault: Fault) -> None:
        """The connection is gone. Containers may begin and end unseen until the next `synchronize`."""
