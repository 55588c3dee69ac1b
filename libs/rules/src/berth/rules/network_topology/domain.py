"""Whether a node still lies in the domain that was decided for its gang."""

from __future__ import annotations

from collections.abc import Mapping

from berth.contracts.ledger import GangDomain


def lies_in(domain: GangDomain, node: str, labels: Mapping[str, str]) -> bool:
    """Whether a node of this name and with these labels lies in the domain."""
    path = [next((labels[key] for key in keys if labels.get(key)), "") for keys in domain.label_keys]
    if domain.is_lowest and path and not path[-1]:
        path[-1] = node
    if len(domain.path) > len(path):
        path.append(node)
    return path == domain.path


def shown(domain: GangDomain) -> str:
    """The domain in words."""
    return f"{domain.layer} {'/'.join(domain.path)}"
