"""Amounts by resource."""

from __future__ import annotations

from berth.contracts.base import Integer

Amounts = dict[str, Integer]
