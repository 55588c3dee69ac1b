"""Who writes: `writing` puts texts into files and gives them back, `applying` brings files to what strategies want."""

from berth.node_qos_enforcer.executor.writing import GONE, Executor

__all__ = ["GONE", "Executor"]
