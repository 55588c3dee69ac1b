"""A histogram whose samples count the less the older they are.

Instead of making old samples lighter, new ones are heavier: by two to the power of the half-lives since a reference,
which moves on before the numbers become too large.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from berth.node_qos_enforcer.core.peaks.buckets import Buckets

EXPONENT_MAX: Final = 100
SAVED_MAX: Final = 10_000
"""What the heaviest bucket weighs in what is saved; others in proportion, in whole numbers."""


class Saved(NamedTuple):
    """A histogram as it is kept."""

    total_weight: float
    weights: Mapping[int, int]
    reference_s: float = 0.0


class Histogram:
    """Weights by bucket. `half_life_s` None: samples never fade; a bucket lighter than `epsilon` is empty."""

    def __init__(self, buckets: Buckets, epsilon: float, half_life_s: float | None, reference_s: float = 0.0) -> None:
        """Begin empty."""
        self.buckets = buckets
        self.epsilon = epsilon
        self.half_life_s = half_life_s
        self.reference_s = reference_s
        self.total = 0.0
        self._weights: dict[int, float] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no bucket weighs anything to speak of."""
        return all(weight < self.epsilon for weight in self._weights.values())

    def add(self, value: float, weight: float, at_s: float = 0.0) -> None:
        """Take a sample of this time, unix seconds."""
        scaled = weight * self._factor(at_s)
        bucket = self.buckets.of(value)
        self._weights[bucket] = self._weights.get(bucket, 0.0) + scaled
        self.total += scaled

    def subtract(self, value: float, weight: float, at_s: float = 0.0) -> None:
        """Take a sample back."""
        scaled = weight * self._factor(at_s)
        bucket = self.buckets.of(value)
        self._weights[bucket] = self._less(self._weights.get(bucket, 0.0), scaled)
        self.total = self._less(self.total, scaled)

    def percentile(self, share: float) -> float:
        """The upper end of the first bucket up to which the samples make this share; 0 without samples."""
        heavy = [bucket for bucket, weight in self._weights.items() if weight >= self.epsilon]
        if not heavy:
            return 0.0
        lowest, last = min(heavy), max(heavy)
        wanted, sum_ = share * self.total, 0.0
        found = last
        for bucket in sorted(each for each in self._weights if lowest <= each < last):
            sum_ += self._weights[bucket]
            if sum_ >= wanted:
                found = bucket
                break
        return self.buckets.start(min(found + 1, self.buckets.number - 1))

    def saved(self) -> Saved:
        """What is kept of it."""
        most = max(self._weights.values(), default=0.0)
        if most <= 0:
            return Saved(self.total, {}, self.reference_s)
        rounded = {bucket: int(weight * SAVED_MAX / most + 0.5) for bucket, weight in sorted(self._weights.items())}
        return Saved(self.total, {bucket: weight for bucket, weight in rounded.items() if weight}, self.reference_s)

    def restore(self, saved: Saved) -> None:
        """Add what was kept. Raises ValueError for what no histogram of these buckets has kept."""
        if not 0 <= saved.total_weight < float("inf"):
            raise ValueError(f"total weight {saved.total_weight} is none")
        for bucket, weight in saved.weights.items():
            if not 0 <= bucket < self.buckets.number:
                raise ValueError(f"there is no bucket {bucket}")
            if weight < 0:
                raise ValueError(f"bucket {bucket} weighs {weight}")
        self.reference_s = saved.reference_s
        sum_ = sum(saved.weights.values())
        if sum_:
            for bucket, weight in saved.weights.items():
                self._weights[bucket] = self._weights.get(bucket, 0.0) + weight * saved.total_weight / sum_
        self.total += saved.total_weight

    def copy(self) -> Histogram:
        """Another one that begins with the same samples."""
        other = Histogram(self.buckets, self.epsilon, self.half_life_s, self.reference_s)
        other.total, other._weights = self.total, dict(self._weights)
        return other

    def _factor(self, at_s: float) -> float:
        half_life_s = self.half_life_s
        if half_life_s is None:
            return 1.0
        if at_s - self.reference_s > EXPONENT_MAX * half_life_s:
            self._move_reference(at_s, half_life_s)
        return float(2.0 ** ((at_s - self.reference_s) / half_life_s))

    def _move_reference(self, at_s: float, half_life_s: float) -> None:
        """To a whole half-life, halves up, so that weights are scaled by a power of two, which costs no precision."""
        moved = int(at_s / half_life_s + 0.5) * half_life_s
        factor = 2.0 ** round((self.reference_s - moved) / half_life_s)
        self._weights = {bucket: weight * factor for bucket, weight in self._weights.items()}
        self.total *= factor
        self.reference_s = moved

    def _less(self, weight: float, by: float) -> float:
        left = weight - by
        return left if left >= self.epsilon else 0.0
