"""Which reserved room exists, and for whom?"""
