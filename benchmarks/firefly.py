"""Write a hexarotor's model file: AscTec's Firefly, by the numbers that RotorS has for it.

    python -m benchmarks.firefly firefly
    python -m embodied.train swarm/hover --config.robot firefly/firefly.urdf

Source of the numbers: ethz-asl/rotors_simulator, `rotors_description/urdf/firefly.xacro`. The file is our own.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

MASS, BLADE = 1.5, 0.005  # kg, of the body and of each rotor
INERTIA = (0.0347563, 0.0458929, 0.0805)  # kg m^2; RotorS has .0977 about z, more than any body of these about x and y
ARM, ABOVE = 0.215, 0.037  # m, from the middle out to a rotor, and up
THRUST = 8.54858e-6 * 838**2  # N, motor constant times the square of the largest speed, rad/s
TORQUE_PER_THRUST, LAG = 0.016, 0.025  # m; s
RADIUS = 0.1  # m, of a rotor

LINK = """  <link name="{name}">
    <inertial><mass value="{mass}"/><inertia ixx="{x}" iyy="{y}" izz="{z}" ixy="0" ixz="0" iyz="0"/></inertial>
    <visual><geometry>{shape}</geometry></visual>
  </link>
"""
JOINT = """  <joint name="{name}_joint" type="continuous">
    <parent link="base_link"/><child link="{name}"/><origin xyz="{at}"/><axis xyz="0 0 1"/>
  </joint>
"""


def urdf() -> str:
    """The model: a body and six rotors, the first ahead on the left, then counter-clockwise."""
    x, y, z = INERTIA
    parts = [LINK.format(name="base_link", mass=MASS, x=x, y=y, z=z, shape='<box size="0.1 0.1 0.16"/>')]
    across, along = BLADE * RADIUS**2 / 4, BLADE * RADIUS**2 / 2
    for number in range(6):
        angle = math.pi / 6 + number * math.pi / 3
        name = f"rotor_{number}"
        shape = f'<cylinder radius="{RADIUS}" length="0.003"/>'
        parts.append(LINK.format(name=name, mass=BLADE, x=across, y=across, z=along, shape=shape))
        parts.append(JOINT.format(name=name, at=f"{ARM * math.cos(angle):.6f} {ARM * math.sin(angle):.6f} {ABOVE}"))
    return f'<robot name="firefly">\n{"".join(parts)}</robot>\n'


def description() -> str:
    """Properties of its rotors that a URDF does not hold."""
    return (
        f"spin = [1, -1, 1, -1, 1, -1]\nthrust = {THRUST:.4g}\ntorque_per_thrust = {TORQUE_PER_THRUST}\n"
        f"rotor_lag = {LAG}\n"
    )


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "firefly.urdf").write_text(urdf())
    (folder / "robot.toml").write_text(description())


if __name__ == "__main__":
    main()
