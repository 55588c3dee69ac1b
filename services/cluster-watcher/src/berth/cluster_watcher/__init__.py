"""What does the cluster look like now?"""
