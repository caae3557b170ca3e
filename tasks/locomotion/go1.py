"""The Unitree Go1; constants and their origin in its MJCF."""

from tasks.locomotion.quadrupeds import tasks_of
from tasks.locomotion.robots import quadruped

GO1 = quadruped("go1", foot_radius=0.023, height=0.278)
Joystick, RoughJoystick, Getup, Handstand, Footstand = tasks_of(GO1)
