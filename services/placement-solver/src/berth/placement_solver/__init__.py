"""What goes where?"""
