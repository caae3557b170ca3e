"""Off-policy algorithms, each in a file or folder of its name, and what they share."""
