"""What users see of placement, through the API server alone: where pods go, what is written onto them, and why not.

A package, so that the files in it share one control plane for each API server: it is what pytest's package scope needs.
"""
