"""Evictions (docs/evictions.md): nominations, marks on victims, deletions that the mark guards."""
