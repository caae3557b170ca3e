"""The Unitree Go2; constants and their origin in its MJCF."""

from tasks.locomotion.quadrupeds import tasks_of
from tasks.locomotion.robots import quadruped

GO2 = quadruped("go2", foot_radius=0.022, height=0.2868)
Joystick, RoughJoystick, Getup, Handstand, Footstand = tasks_of(GO2)
