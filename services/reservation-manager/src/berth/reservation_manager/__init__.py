"""Which reserved capacity exists, and for whom?"""
