"""Is this decision carried out?"""
