"""ImageLocality: how much of the pod's images is on the node already."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from berth.placement_solver.core.images import Images
from berth.placement_solver.core.nodes import Ints
from berth.placement_solver.core.scores.normalise import SCORE_MAX
from berth.placement_solver.core.seams import Depends, Floats, RowArray, Spec

MIB: Final = 1 << 20
LEAST: Final = 23 * MIB
MOST_EACH: Final = 1000 * MIB


class ImageQuery(NamedTuple):
    """The names of the images, one for each container and init container."""

    images: tuple[str, ...]


def locality(sizes: Iterable[tuple[Ints, float]], containers: int, count: int) -> Ints:
    """The score of `count` nodes.

    Args:
        sizes: of each container the size of its image on each node (0: not there), and the part of all nodes that have
            it: an image that few nodes have counts less, so that they do not draw every pod.
        containers: how many containers and init containers the pod has; the more, the more is needed for 100.
        count: how many nodes.
    """
    total = np.zeros(count, np.int64)
    for size, spread in sizes:
        total += (size * spread).astype(np.int64)
    most = MOST_EACH * containers
    return SCORE_MAX * (np.clip(total, LEAST, most) - LEAST) // (most - LEAST)


def image_name(image: str) -> str:
    """With the tag that an image without one has: `:latest`."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


class ImageLocalityScore:
    """Rated by the size of the images that are there, scaled by how many nodes have them."""

    name = "ImageLocality"
    depends = Depends.IMAGES

    def __init__(self, images: Images) -> None:
        self._images = images

    def prescore(self, spec: Spec) -> ImageQuery | None:
        """The names of the images; None while no node has any of them."""
        names = tuple(map(image_name, spec.template.images))
        return ImageQuery(names) if names and any(map(self._images.count, names)) else None

    def raw(self, query: ImageQuery, rows: RowArray) -> Floats:
        """The score of the images that are there."""
        nodes = max(self._images.nodes, 1)
        sizes = (
            (self._images.sizes(name)[rows], self._images.count(name) / nodes)
            for name in query.images
            if self._images.count(name)
        )
        return locality(sizes, len(query.images), rows.shape[0]).astype(np.float64)

    def normalise(self, query: ImageQuery, raw: Floats, rows: RowArray) -> Floats:
        """As they are."""
        return raw
