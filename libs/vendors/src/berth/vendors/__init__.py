"""What each vendor's devices are called, how they are found, summed, handed over and put into containers."""
