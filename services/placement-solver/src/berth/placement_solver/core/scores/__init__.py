"""One score a file, named as kube-scheduler's plugin: the arithmetic on columns, and the adaptor for the registry.

The arithmetic is kube-scheduler's to the digit: amounts are int64, divisions truncate, scores are 0 to 100.
"""
