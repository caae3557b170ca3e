"""`RenderState`: all of an environment that a camera can see, on any engine.

It is a pure function of what the task knows, so a simulator computes it beside the observation.
`embodied.rendering.renderer` makes images of it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from embodied.core.episode import Episode
from embodied.core.facets import Pictures
from embodied.core.randomization import Term, draw
from embodied.core.task import KEPT, Task
from embodied.core.world import World
from embodied.errors import EmbodiedError

M = TypeVar("M")

GEOM_APPEARANCE = {
    "geom_size": slice(0, 3),
    "geom_pos": slice(3, 6),
    "geom_quat": slice(6, 10),
    "geom_rgba": slice(10, 14),
}
"""Model field -> its place in a row of `Pictures.geom_appearance`."""
VISUAL_STREAM = (
    0  # folded into an episode's key for what cameras see; control step k takes 3 k + 2 and the two after it
)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class RenderState:
    """Poses and appearance of everything; batched, every array has a leading axis (N,)."""

    qpos: Array | np.ndarray
    """(nq,) as in `World`."""
    mocap_pos: Array | np.ndarray | None = None
    """(nmocap, 3) m, world frame; None: where the model has them."""
    fields: Mapping[str, Array | np.ndarray] = dataclasses.field(default_factory=dict)
    """Field of `Task.visual_model` -> this episode's value, in the field's own shape."""


def render_state_fn(task: Task[M], terms: Sequence[Term] = ()) -> Callable[[World, Episode[M]], RenderState]:
    """The pure function from one environment's world and episode to its render state.

    Args:
        task: Its `pictures` place mocap bodies and change shapes.
        terms: Randomisation of the visual model alone (see `embodied.rendering.visual_randomization`). The terms are
            drawn with a key of the episode's own, so the same episode always looks the same, also after a resume.

    Raises:
        EmbodiedError: the task has mocap bodies and does not say where they are (when called).
    """
    model, pictures = task.visual_model, task.pictures or Pictures()

    def render_state(world: World, episode: Episode[M]) -> RenderState:
        fields: dict[str, Array] = {}
        for name, row in pictures.geom_appearance(episode.task_state).items():
            for field, part in GEOM_APPEARANCE.items():
                value = fields.get(field, jnp.asarray(getattr(model, field), jnp.float32))
                fields[field] = value.at[model.geom(name).id].set(row[part])
        if terms:
            fields = draw(model, terms, jax.random.fold_in(episode.key, VISUAL_STREAM), fields)
        mocap_pos = pictures.mocap_positions(episode.task_state)
        if mocap_pos is None and model.nmocap:
            raise EmbodiedError(
                f"{task.unwrapped} has {model.nmocap} mocap bodies, and its pictures' mocap_positions() does not say "
                "where they are; expected an array (nmocap, 3), so that cameras see them there on every engine"
            )
        # Copies: a compiled function may hand its input on as its output, and simulators give their buffers away.
        return jax.tree.map(lambda leaf: jnp.array(leaf, copy=True), RenderState(world.qpos, mocap_pos, fields))

    return render_state


@functools.lru_cache(maxsize=KEPT)
def render_states(task: Task[M]) -> Callable[[World, Episode[M]], RenderState]:
    """`render_state_fn` of a batch, compiled once for all environments of a task."""
    return jax.jit(jax.vmap(render_state_fn(task)))
