"""Digital twins of the robots that can be calibrated."""
