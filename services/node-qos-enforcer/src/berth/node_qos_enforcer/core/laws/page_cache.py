"""How much page cache a pod may have, on kernels that limit it."""

from __future__ import annotations

from typing import NamedTuple


class PageCache(NamedTuple):
    """Values of the files `memory.pagecache_limit.*`; None is not written."""

    size: int | None = None
    enable: int | None = None
    sync: int | None = None


def page_cache_limit(
    *,
    size: int | None,
    percent: int | None,
    enable: bool | None,
    reclaim_sync: bool | None,
    memory_limit: int,
) -> PageCache:
    """The limit of a pod's page cache, by a size or else by a percentage of its memory limit.

    Args:
        size: bytes; at most the memory limit. 0 lifts the limit.
        percent: of the memory limit; says nothing of a pod without one.
        enable: whether the limit holds, where it is to be said apart.
        reclaim_sync: whether who exceeds it has to wait until pages are dropped.
        memory_limit: of the pod, in bytes; -1, 0: it has none.
    """
    limit: int | None = None
    if size is not None:
        limit = min(size, memory_limit) if memory_limit > 0 else size
    elif percent is not None and memory_limit > 0:
        limit = memory_limit * percent // 100
    if limit is None:
        return PageCache(enable=None if enable is None else int(enable))
    holds = limit > 0 if enable is None else enable
    return PageCache(max(limit, 0), int(holds), int(bool(reclaim_sync)) if limit > 0 else None)
