"""Says of a gang, before the first of its members is evicted, that all of it is: it has to begin anew as a gang."""

from __future__ import annotations

from berth.cluster_writer.cluster_view import ClusterView
from berth.contracts import names
from berth.kube import resources
from berth.kube.answer import Answer
from berth.kube.api import KubeApi
from berth.kube.bodies import Patch
from berth.telemetry import get_logger

log = get_logger(__name__)


class DisplacedGangs:
    """Notes on PodGroups. Without a PodGroup there is nothing to write, and members alone show it."""

    def __init__(self, cluster: ClusterView, api: KubeApi) -> None:
        self._cluster = cluster
        self._api = api
        self._noted: dict[str, str] = {}
        """By uid of the PodGroup: the plan that STATE does not show yet."""

    async def note(self, gang_id: str, plan: str) -> bool:
        """Whether the PodGroup says it, or need not; else its turn comes again. Guarded by uid and version."""
        namespace, _, name = gang_id.partition("/")
        group = self._cluster.pod_groups.get((namespace, name))
        if group is None:
            return True
        if plan in (group.annotations.get(names.ANNOTATION_DISPLACED), self._noted.get(group.uid)):
            return True
        meta = {
            "uid": group.uid,
            "resourceVersion": str(group.version),
            "annotations": {names.ANNOTATION_DISPLACED: plan},
        }
        answer = await self._api.patch(
            resources.POD_GROUPS, namespace, name, {"metadata": meta}, content_type=Patch.MERGE
        )
        if answer.ok:
            self._noted = {uid: noted for uid, noted in self._noted.items() if self._is_there(uid)}
            self._noted[group.uid] = plan
            return True
        return self._is_final(answer, gang_id)

    def _is_there(self, uid: str) -> bool:
        return any(group.uid == uid for group in self._cluster.pod_groups.values())

    @staticmethod
    def _is_final(answer: Answer, gang_id: str) -> bool:
        """A PodGroup that is gone, or that nobody may write to, does not keep its members from leaving."""
        if answer.status in (400, 403, 404, 422):
            log.warning("a displaced gang cannot be noted on its PodGroup", gang=gang_id, status=answer.status)
            return True
        return False
