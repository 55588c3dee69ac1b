"""How much may each quota group use now?"""
