"""Which devices does each node have?"""
