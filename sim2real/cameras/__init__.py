"""Cameras: boards, intrinsics, hand-eye calibration, the same camera in MuJoCo, and images varied for training."""
