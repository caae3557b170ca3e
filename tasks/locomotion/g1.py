# ruff: noqa: D101 -- each class is its base on this robot, and inherits its docstring
"""Unitree's G1 and its tasks. Masses, inertias, motor constants and their origin are in the MJCF file."""

from tasks.locomotion.humanoid_joystick import HumanoidJoystick, RoughHumanoidJoystick
from tasks.locomotion.robots import LeggedRobot

LEG = ("hip_pitch", "hip_roll", "hip_yaw", "knee", "ankle_pitch", "ankle_roll")
WAIST = ("waist_yaw", "waist_roll", "waist_pitch")
ARM = ("shoulder_pitch", "shoulder_roll", "shoulder_yaw", "elbow", "wrist_roll", "wrist_pitch", "wrist_yaw")

G1 = LeggedRobot(
    name="g1",
    asset="robots/g1/g1.xml",
    trunk="pelvis",
    joint_names=(
        *(f"{side}_{joint}" for side in ("left", "right") for joint in LEG),
        *WAIST,
        *(f"{side}_{joint}" for side in ("left", "right") for joint in ARM),
    ),
    feet=("left_foot", "right_foot"),
    foot_radius=0.0,  # its foot sites lie in the soles
    height=0.7842,
    # Legs swing freely, but neither spread nor turn; the waist and the arms keep still.
    pose_weights=(0.01, 1.0, 1.0, 0.01, 0.1, 0.5) * 2 + (1.0, 1.0, 1.0) + (0.2, 0.5, 0.5, 0.2, 0.5, 0.5, 0.5) * 2,
    # The torso and the arms are more than half of the mass: exploring with them shakes the pelvis off its feet.
    reach=(1.0, 0.6, 0.6, 1.0, 1.0, 0.6) * 2 + (0.2, 0.1, 0.1) + (0.4, 0.2, 0.2, 0.4, 0.2, 0.2, 0.2) * 2,
)


class G1Joystick(HumanoidJoystick):
    robot = G1


class G1RoughJoystick(RoughHumanoidJoystick):
    robot = G1
