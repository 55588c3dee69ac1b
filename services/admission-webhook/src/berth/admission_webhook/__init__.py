"""What is filled in, and what is refused, when an object is written?"""
