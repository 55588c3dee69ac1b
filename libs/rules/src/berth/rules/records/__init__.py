"""Records: the annotations of a bound object that say what it was allocated. One file reads and writes each kind.

A user that may create or update pods can write annotations, and bind the pod by `spec.nodeName`. So a record is no
proof: it says where the pod holds what it asks for, and never that it holds more (`evidence`). `registry` lists the
kinds; who binds, counts, compares or checks goes through them all.
"""
