"""Consistent lists in pages: all pages are of one moment, that of the first.

A page token that has expired (410) means that this moment is no longer at hand: start over, a few times. A page larger
than the transport allows is asked for in smaller pages.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Generic, NamedTuple, TypeVar

from berth.kube import metrics
from berth.kube.answer import TOO_LARGE, Answer
from berth.kube.api import KubeApi, Selection
from berth.kube.decoding import Decoded, HasMeta, Malformed, ObjectDecoder, Page, VersionError, parse_version, read_page

T = TypeVar("T", bound=HasMeta)

RESTARTS_MAX = 3
"""How often a list starts over by itself; then its caller waits and decides."""
NOT_A_LIST = "NotAList"
"""Reason of an Answer that was none to a list: a proxy's page, perhaps."""


class Listing(NamedTuple, Generic[T]):
    """A complete list. `version` is the moment it shows; `malformed` are the objects that could not be read."""

    items: list[T]
    version: int
    malformed: list[Malformed]


class PageSize:
    """Objects per page, halved when pages turn out too large."""

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"limit: {limit} is less than 1")
        self.limit = limit

    def shrink(self) -> bool:
        """Use smaller pages from now on; False if they can't be smaller."""
        if self.limit == 1:
            return False
        self.limit = max(1, self.limit // 4)
        return True


async def pages(api: KubeApi, selection: Selection, size: PageSize) -> AsyncGenerator[Page | Answer, None]:
    """The pages of one list. An Answer as last item says that the list is not complete."""
    token = ""
    while True:
        answer = await api.page(selection, limit=size.limit, token=token)
        while answer.reason == TOO_LARGE and size.shrink():
            answer = await api.page(selection, limit=size.limit, token=token)
        if not answer.ok:
            yield answer
            return
        page = read_page(answer.body)
        if page is None:
            yield Answer(0, answer.body[:200], NOT_A_LIST)
            return
        yield page
        token = page.metadata.token
        if not token:
            return


async def list_all(api: KubeApi, selection: Selection, item_type: type[T], *, limit: int = 500) -> Listing[T] | Answer:
    """The complete list, or the Answer that prevented it. Holds all objects in memory at once."""
    size = PageSize(limit)
    decoder = ObjectDecoder(item_type)
    outcome = await _list_once(api, selection, decoder, size)
    for _ in range(RESTARTS_MAX):
        if isinstance(outcome, Listing) or not outcome.expired:
            break
        outcome = await _list_once(api, selection, decoder, size)
    return outcome


async def _list_once(
    api: KubeApi, selection: Selection, decoder: ObjectDecoder[T], size: PageSize
) -> Listing[T] | Answer:
    items: list[T] = []
    malformed: list[Malformed] = []
    version: int | None = None
    async with aclosing(pages(api, selection, size)) as read:
        async for page in read:
            if isinstance(page, Answer):
                return page
            try:
                version = earliest(version, page)
            except VersionError as error:
                return Answer(0, b"", str(error))
            for raw in page.items or ():
                match decoder.read(raw):
                    case Malformed() as problem:
                        metrics.MALFORMED.labels(selection.resource.label).inc()
                        malformed.append(problem)
                    case Decoded(item=item):
                        items.append(item)
    return Listing(items, version or 0, malformed)


def earliest(version: int | None, page: Page) -> int:
    """The list's moment after one more page. All should name the same; the least is safe to watch from."""
    own = parse_version(page.metadata.version)
    return own if version is None else min(version, own)
