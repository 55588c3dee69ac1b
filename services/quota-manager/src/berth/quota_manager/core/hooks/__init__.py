"""Plug-ins that have a say in what pods cost their groups: what they answer, and what of it is published
(docs/quota-hooks.md)."""
