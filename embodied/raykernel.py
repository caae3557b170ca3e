"""The kernel of MuJoCo Warp's ray caster, compiled for one scene: the same images, in two thirds of the time on a CPU.

MuJoCo Warp builds one kernel for each kind of scene. Two things make it slow on a CPU:

- A ray towards each light is compiled in whether or not lights cast shadows, so the function that lights a pixel is too
  large to be inlined, and its arguments, two dozen descriptors of arrays, are copied for each light of each pixel.
- The least and the greatest of two numbers are taken with NaN in mind, in every step down the tree of bounds.
"""

from __future__ import annotations

from typing import Any

# Warp's own default, which compiles for the processor at hand, and: nothing is NaN. The renderer lets none in; where 0
# times infinity makes one, a ray runs within a side of a box of bounds and may miss it, as before. -w: no warnings of
# Warp's headers.
CPU_FLAGS = "-march=native -menable-no-nans -w"


def specialised(model: Any, context: Any) -> Any:
    """A kernel for MuJoCo Warp's render `context` without what its scene, the Warp `model`, does not need.

    MuJoCo Warp would build its own at the first image. It has no option for this, so names of its module are used that
    are private; `tests/embodied/test_render.py` holds that both kernels draw the same.
    """
    import warp
    from mujoco.mjx.third_party.mujoco_warp._src import render

    make_cast_ray: Any = render._make_cast_ray

    def make_needed(kinds: tuple[int, ...], first_hit: bool = False) -> Any:
        """A function that casts a ray at these kinds of geoms; where nothing casts shadows, their rays meet none."""
        return make_cast_ray(() if first_hit and not context.use_shadows else kinds, first_hit)

    render._make_cast_ray = make_needed
    try:
        kernel: Any = render._build_megakernel(model, context)
    finally:
        render._make_cast_ray = make_cast_ray
    if kernel.module.options["cpu_compiler_flags"] != CPU_FLAGS:
        warp.set_module_options({"cpu_compiler_flags": CPU_FLAGS}, kernel.module)
    return kernel
