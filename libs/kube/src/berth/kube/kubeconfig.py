"""kubeconfig files, exec plugins and auth providers, through kubernetes_asyncio's loader and nothing else of it.

Importing that package normally also imports its generated client: 1.4 s and 67 MB, for models that Berth never uses.
The loader needs of it only two names for annotations. So its modules are imported below placeholders for the package
and its client, which are taken away again afterwards; anybody else who imports the package gets the real one.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

from berth.kube.clock import Clock
from berth.kube.credentials import (
    Credentials,
    Endpoint,
    KubeConfigError,
    RefreshedCredentials,
    StaticCredentials,
    of_file,
    tls_context,
)

PLUGIN_TIMEOUT_S = 60.0
_PACKAGE = "kubernetes_asyncio"
_IMPORTING = threading.Lock()
_loader_module: ModuleType | None = None


def default_path() -> str:
    """`$KUBECONFIG`, else `~/.kube/config`."""
    return os.environ.get("KUBECONFIG") or str(Path("~/.kube/config").expanduser())


async def from_kubeconfig(paths: str, context: str, clock: Clock) -> Endpoint:
    """The endpoint that a kubeconfig describes; exec plugins and token refreshes run now and when they expire.

    `paths` may name several files, separated by colons. Raises KubeConfigError for anything that is not usable.
    """
    try:
        loader = _load(paths, context)
        await loader._load_authentication()
        loader._load_cluster_info()
    except KubeConfigError:
        raise
    except Exception as error:  # the loader raises KeyError, AssertionError, yaml errors, ... for malformed files
        raise KubeConfigError(f"kubeconfig {paths}: {type(error).__name__}: {error}") from error
    server = getattr(loader, "host", "")
    if not server:
        raise KubeConfigError(f"kubeconfig {paths}: the cluster has no server")
    tls = tls_context(
        server,
        getattr(loader, "ssl_ca_cert", None),
        getattr(loader, "cert_file", None),
        getattr(loader, "key_file", None),
        verify=getattr(loader, "verify_ssl", True),
    )
    return Endpoint(
        server,
        _credentials(loader, clock),
        tls,
        getattr(loader, "tls_server_name", None),
        getattr(loader, "proxy", None),
    )


def _load(paths: str, context: str) -> Any:
    module = _import_loader()
    merged = module.KubeConfigMerger(paths)
    if merged.config is None:
        raise KubeConfigError(f"kubeconfig {paths}: no such file")
    return module.KubeConfigLoader(
        config_dict=merged.config,
        active_context=context or None,
        config_base_path=None,
        config_persister=lambda *_: merged.save_changes(),
    )


def _credentials(loader: Any, clock: Clock) -> Credentials:
    header: str | None = getattr(loader, "token", None)
    user = loader._user
    token_file = user.safe_get("tokenFile") if user is not None else None
    if token_file and not user.safe_get("token") and header:
        path = Path(token_file)
        if not path.is_absolute() and user.path:
            path = Path(user.path).parent / path
        return of_file(path, clock)
    refreshable = user is not None and (loader.provider in ("gcp", "oidc") or "exec" in user)
    if not refreshable or header is None:
        return StaticCredentials(header)

    async def read(renew: bool) -> str:
        if renew and hasattr(loader, "exec_plugin_expiry"):
            del loader.exec_plugin_expiry
        elif not renew and "exec" in user and not hasattr(loader, "exec_plugin_expiry"):
            return str(loader.token)  # a plugin that names no expiry is asked again only when its token is refused
        try:
            async with asyncio.timeout(PLUGIN_TIMEOUT_S):
                await loader._load_authentication()
        except Exception as error:  # a plugin may fail in any way; the last token is kept meanwhile
            raise KubeConfigError(f"{type(error).__name__}: {error}") from error
        return str(loader.token)

    return RefreshedCredentials(read, clock, header)


def _import_loader() -> ModuleType:
    global _loader_module
    with _IMPORTING:
        if _loader_module is None:
            _loader_module = _import_below_placeholders()
        return _loader_module


def _import_below_placeholders() -> ModuleType:
    if f"{_PACKAGE}.client" in sys.modules:
        return importlib.import_module(f"{_PACKAGE}.config.kube_config")
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.submodule_search_locations is None:
        raise KubeConfigError(f"{_PACKAGE} is not installed")
    package, client = ModuleType(_PACKAGE), ModuleType(f"{_PACKAGE}.client")
    package.__path__ = list(spec.submodule_search_locations)
    for name in ("ApiClient", "Configuration"):
        setattr(client, name, type(name, (), {}))
    sys.modules[_PACKAGE], sys.modules[f"{_PACKAGE}.client"] = package, client
    try:
        return importlib.import_module(f"{_PACKAGE}.config.kube_config")
    finally:
        for name in [n for n in sys.modules if n == _PACKAGE or n.startswith(f"{_PACKAGE}.")]:
            del sys.modules[name]
