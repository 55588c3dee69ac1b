"""etcd and kube-apiserver together, in a temporary folder, on free ports of one address."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from berth.testing.kube_server.binaries import find_binary
from berth.testing.kube_server.daemon import Daemon, Janitor, free_port
from berth.testing.kube_server.fetch import fetch
from berth.testing.kube_server.identity import write_kubeconfig, write_signing_key

TRIES = 3
"""A port that was free may be taken a moment later: then others are tried."""
TOKEN_S = 86_400
RIGHTS = frozenset(
    {
        "Namespace",
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
        "PriorityClass",
    }
)
"""What Berth's manifests bring besides workloads, networks and settings."""


class KubectlError(RuntimeError):
    """kubectl failed; the text is what it said."""


class KubeServer:
    """One API server with its etcd.

    Args:
        fsync: let etcd write through to the disk, as in production; tests don't need it.
        address: where to listen. Nodes with a kubelet need the machine's own address, and `arguments` of their own.
        arguments: more arguments for kube-apiserver; of two with the same name the later counts.
        etcd_arguments: more arguments for etcd.
        controlled: there will be a controller-manager, so pods get tokens, and nodes their taints, as usual.
    """

    def __init__(
        self,
        *,
        fsync: bool = False,
        address: str = "127.0.0.1",
        arguments: Sequence[str] = (),
        etcd_arguments: Sequence[str] = (),
        controlled: bool = False,
    ) -> None:
        self._binaries = {name: str(find_binary(name)) for name in ("etcd", "kube-apiserver", "kubectl")}
        self._fsync = fsync
        self._address = address
        self._arguments = list(arguments)
        self._etcd_arguments = list(etcd_arguments)
        self._controlled = controlled
        self._tokens: dict[str, str] = {}
        self.admin_token = secrets.token_hex(16)
        self.home = Path()
        self.etcd: Daemon
        self.api: Daemon
        self._janitor: Janitor
        self._etcd_url = ""
        self.url = ""

    # --- life --------------------------------------------------------------------------------------------------------

    def start(self) -> KubeServer:
        """Start both and return once the API server is ready. Raises RuntimeError with a log when it never is."""
        for attempt in range(TRIES):
            self._prepare()
            try:
                self.etcd.start()
                self.api.start()
                break
            except RuntimeError as error:
                self.close()
                if attempt == TRIES - 1 or "address already in use" not in str(error):
                    raise
            except BaseException:
                self.close()
                raise
        self.kubeconfig("admin")
        return self

    def close(self) -> None:
        """End both and remove everything they wrote."""
        self.api.kill()
        self.etcd.kill()
        self._janitor.close()

    def __enter__(self) -> KubeServer:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _prepare(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="berth-kube-"))
        self._janitor = Janitor(self.home)
        self._tokens = {"admin": self.admin_token}
        self._write_files()
        etcd, peer, api = (free_port(self._address) for _ in range(3))
        self._etcd_url = f"http://{self._address}:{etcd}"
        self.url = f"https://{self._address}:{api}"
        command = self._etcd_command(f"http://{self._address}:{peer}")
        self.etcd = Daemon("etcd", command, self.home / "etcd.log", self._etcd_serves, self._janitor)
        command = self._api_command(api)
        self.api = Daemon("kube-apiserver", command, self.home / "kube-apiserver.log", self._api_serves, self._janitor)

    def _write_files(self) -> None:
        write_signing_key(self.home / "accounts.key")
        tokens = self.home / "tokens.csv"
        tokens.write_text(f'{self.admin_token},admin,admin,"system:masters"\n')
        tokens.chmod(0o600)

    def _etcd_command(self, peer_url: str) -> list[str]:
        return [
            self._binaries["etcd"],
            "--name=test",
            f"--data-dir={self.home / 'etcd'}",
            f"--listen-client-urls={self._etcd_url}",
            f"--advertise-client-urls={self._etcd_url}",
            f"--listen-peer-urls={peer_url}",
            f"--initial-advertise-peer-urls={peer_url}",
            f"--initial-cluster=test={peer_url}",
            "--log-level=warn",
            *([] if self._fsync else ["--unsafe-no-fsync"]),
            *self._etcd_arguments,
        ]

    def _api_command(self, port: int) -> list[str]:
        key = self.home / "accounts.key"
        return [
            self._binaries["kube-apiserver"],
            f"--etcd-servers={self._etcd_url}",
            f"--bind-address={self._address}",
            f"--secure-port={port}",
            f"--cert-dir={self.home / 'certificates'}",
            f"--token-auth-file={self.home / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--allow-privileged=true",  # as clusters have it: Pod Security says who may
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.96.0.0/16",
            # Without a controller-manager a pod would wait for its token, and a node keep its not-ready taint.
            *([] if self._controlled else ["--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"]),
            # A loopback address is no endpoint that pods could reach.
            f"--endpoint-reconciler-type={'none' if self._address.startswith('127.') else 'lease'}",
            *self._arguments,
        ]

    # --- questions ---------------------------------------------------------------------------------------------------

    @property
    def ca_file(self) -> Path:
        """What clients trust."""
        return self.home / "certificates" / "apiserver.crt"

    @property
    def tls(self) -> ssl.SSLContext:
        """TLS settings for a client."""
        return ssl.create_default_context(cafile=str(self.ca_file))

    def _etcd_serves(self) -> bool:
        try:
            return bool(json.loads(fetch(f"{self._etcd_url}/health"))["health"] == "true")
        except (OSError, ValueError):
            return False

    def _api_serves(self) -> bool:
        try:
            return fetch(f"{self.url}/readyz", token=self.admin_token, tls=self.tls) == b"ok"
        except (OSError, ValueError):
            return False

    # --- identities --------------------------------------------------------------------------------------------------

    @property
    def admin_kubeconfig(self) -> Path:
        """Everything is allowed to who holds this."""
        return self.kubeconfig("admin")

    def token(self, account: str) -> str:
        """The token of a service account, `namespace/name`, which must exist; or of "admin". Good for a day."""
        if account not in self._tokens:
            namespace, _, name = account.partition("/")
            said = self.kubectl("create", "token", name, f"--namespace={namespace}", f"--duration={TOKEN_S}s")
            self._tokens[account] = said.strip()
        return self._tokens[account]

    def kubeconfig(self, account: str) -> Path:
        """A kubeconfig with the identity of a service account, `namespace/name`, or of "admin"."""
        path = self.home / "kubeconfigs" / f"{account.replace('/', '.')}.json"
        if not path.is_file():
            token, namespace = self.token(account), account.partition("/")[0] if "/" in account else "default"
            write_kubeconfig(
                path, server=self.url, ca_file=self.ca_file, user=account, token=token, namespace=namespace
            )
        return path

    # --- contents ----------------------------------------------------------------------------------------------------

    def kubectl(self, *arguments: str, stdin: str = "", account: str = "admin") -> str:
        """What kubectl prints. Raises KubectlError with what it said when it fails."""
        config = self.admin_kubeconfig if account == "admin" else self.kubeconfig(account)
        done = subprocess.run(  # noqa: S603
            [self._binaries["kubectl"], f"--kubeconfig={config}", f"--cache-dir={self.home / 'kubectl'}", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            env={"HOME": str(self.home), "PATH": os.environ.get("PATH", "")},
        )
        if done.returncode:
            raise KubectlError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def install(self, kustomization: Path, kinds: Collection[str] | None = None) -> str:
        """Apply a kustomization, or what of it is of these kinds; what kubectl says of each object."""
        built = self.kubectl("kustomize", str(kustomization))
        wanted = [each for each in re.split(r"(?m)^---$", built) if kinds is None or _kind_of(each) in kinds]
        return self.kubectl("apply", "--server-side", "-f", "-", stdin="\n---\n".join(wanted))

    def install_berth(self, k8s: Path, overlay: str = "overlays/single-node") -> None:
        """Custom resources, and namespaces, service accounts, rights (those of preemption, too) and policies; no
        workloads.

        Returns once the server serves the custom resources and judges by the policies.
        """
        self.install(k8s / "crds")
        self.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        self.install(k8s / overlay, RIGHTS)
        self.kubectl("apply", "--server-side", "-f", str(k8s / "components/preemption/rights.yaml"))

    # --- etcd --------------------------------------------------------------------------------------------------------

    def compact(self) -> int:
        """Make etcd forget every revision but the newest; which one that is."""
        revision = int(self._etcd_call("kv/range", {"key": "AA=="})["header"]["revision"])
        self._etcd_call("kv/compaction", {"revision": revision, "physical": True})
        return revision

    def back_up(self, to: Path) -> None:
        """Copy etcd's data into a folder that must not exist; both servers stand still meanwhile."""
        self.api.kill()
        self.etcd.stop()
        shutil.copytree(self.home / "etcd", to)
        self.etcd.start()
        self.api.start()

    def restore(self, backup: Path) -> None:
        """Go back to what `back_up` copied: objects and versions are those of that time."""
        self.api.kill()
        self.etcd.kill()
        shutil.rmtree(self.home / "etcd")
        shutil.copytree(backup, self.home / "etcd")
        self.etcd.start()
        self.api.start()

    def _etcd_call(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(fetch(f"{self._etcd_url}/v3/{path}", json.dumps(body).encode()))
        return answer


def _kind_of(manifest: str) -> str:
    found = re.search(r"(?m)^kind: (\S+)$", manifest)
    return found.group(1) if found else ""
