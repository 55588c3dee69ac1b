"""What pods are going to need at their peaks, from histograms of what they have used; and what that leaves to lend."""
