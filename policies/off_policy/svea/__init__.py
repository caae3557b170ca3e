"""SVEA and SGQN: SAC from images."""
