"""`berth shadow`: a recorded stretch played through once more by another policy, and compared with what was decided.

`stretch` says which records that is, `lives` what became of each pod in them, `world` plays them through for a solver
of its own, `packing` measures how full a cluster is, `outcome` is what is compared, `report` shows it, `comparing` does
all of it.
"""
