"""The contract of Berth: every message, key, subject, label and annotation that two services share.

Messages are frozen msgspec structs, JSON on the wire. The structs are the source: JSON Schemas and the subject table
under `proto/schemas` are generated from them and checked for drift. Readers ignore unknown fields; a new field has a
default; a changed meaning gets a new version tag.
"""
