"""The schemas of Kubernetes' own kinds, and what follows from them: types, nulls, unknown fields, OpenAPI documents.

`kubernetes.json` is what a real kube-apiserver publishes (Kubernetes, Apache-2.0), written by `tools/kube/openapi.py`.
"""
