"""The rules of placement, one in each file; `core.registry` lists them."""
