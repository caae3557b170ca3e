"""Demonstrations: whole episodes of an expert or a policy, recorded, saved and loaded.

A file holds the steps of episodes one after another, as safetensors: `obs/<group>` and `next_obs/<group>` (T, ...),
`action` (T, A), `reward`, `terminated`, `truncated` (T,); and optionally `source` (T,), who acted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import safetensors
import safetensors.torch
import torch
from torch import Generator, Tensor

from embodied.core.episode import LARGEST_STATE
from embodied.env.vec_env import ObservationSpec, PolicyFunction, Step, VecEnv
from embodied.errors import EmbodiedError, listing, reason
from embodied.storage.files import require_regular
from policies.data.interventions import Source
from policies.data.replay_buffer import Transitions, combined

PLAIN = ("action", "reward", "terminated", "truncated")
SOURCE = "source"
ATTEMPTS = 5  # episodes tried for each that is wanted


class RecordedActor(Protocol):
    """Chooses actions in N environments and names who chose each."""

    def __call__(self, obs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Actions (N, A) in [-1, 1], and (N,) int64 of `Source`."""
        ...

    def reset(self, ended: Tensor) -> None:
        """New episodes begin where `ended`, (N,) bool."""
        ...


class Recording(NamedTuple):
    """Whole episodes, one after another."""

    steps: Transitions
    """(T, 1, ...)."""
    source: Tensor
    """(T,) int64 of `Source`, who acted."""


class Demonstrator:
    """A policy that demonstrates whole episodes. A `RecordedActor`."""

    def __init__(self, rule: PolicyFunction) -> None:
        self.rule = rule

    def __call__(self, obs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        action = self.rule(obs).clamp(-1.0, 1.0)
        return action, torch.full((len(action),), int(Source.DEMONSTRATION), device=action.device)

    def reset(self, ended: Tensor) -> None:
        """A policy has no state."""


class NoisyDemonstrator(Demonstrator):
    """A policy whose executed actions are disturbed, as a person's hand is: what is recorded is what was done.

    The noise of each component is a first-order autoregression of standard deviation σ, which is drawn for every
    episode uniformly from 0 to `noise`. White noise would be filtered out by the robot's inertia, and by any learner
    that averages.
    """

    def __init__(self, rule: PolicyFunction, noise: float, duration: int, seed: int = 0) -> None:
        """Disturb a policy; a disturbance has fallen to 1/e of itself after `duration` control steps."""
        super().__init__(rule)
        self.noise, self._kept = noise, math.exp(-1 / duration)
        self._generator = Generator().manual_seed(seed)
        self._disturbance: Tensor | None = None  # (N, A) of deviation 1, on the CPU
        self._deviation = torch.zeros(0)  # (N, 1)

    def __call__(self, obs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        action, source = super().__call__(obs)
        if self._disturbance is None:
            self._disturbance = torch.zeros(action.shape)
            self._deviation = torch.zeros(len(action), 1)
            self.reset(torch.ones(len(action), dtype=torch.bool))
        fresh = torch.randn(action.shape, generator=self._generator)
        self._disturbance = self._kept * self._disturbance + math.sqrt(1 - self._kept**2) * fresh
        return (action + (self._deviation * self._disturbance).to(action)).clamp(-1.0, 1.0), source

    def reset(self, ended: Tensor) -> None:
        """Draw the strength of the noise of the episodes that begin, and begin without any."""
        assert self._disturbance is not None
        ended = ended.cpu()[:, None]
        drawn = self.noise * torch.rand(len(ended), 1, generator=self._generator)
        self._deviation = torch.where(ended, drawn, self._deviation)
        self._disturbance = self._disturbance.masked_fill(ended, 0.0)


def record(env: VecEnv, rule: PolicyFunction, episodes: int, *, failures: bool = False) -> Transitions:
    """Whole episodes of a policy, one after another: (T, 1, ...).

    Actions are clipped to [-1, 1]; with `failures`, episodes that never succeed are kept too.

    Raises:
        EmbodiedError: Of five times as many episodes, too few succeeded.
    """
    return record_actor(env, Demonstrator(rule), episodes, failures=failures).steps


@torch.no_grad()
def record_actor(
    env: VecEnv,
    actor: RecordedActor,
    episodes: int,
    *,
    failures: bool = False,
    hold: int | None = None,
    on_step: Callable[[int], object] = lambda kept: None,
) -> Recording:
    """As `record`, of an actor that names who acted.

    A recording is truncated `hold` steps after its first success, if that is given; `on_step` is called after each
    control step with the number of episodes.
    """
    obs, tried = dict(env.reset()), 0
    kept: list[Recording] = []
    running: list[list[Recording]] = [[] for _ in range(env.num_envs)]
    solved: dict[int, int] = {}  # environment -> step of its episode's first success
    while len(kept) < episodes:
        if tried >= ATTEMPTS * episodes:
            raise EmbodiedError(
                f"{len(kept)} of {tried} episodes succeeded, fewer than the {episodes} that were asked for; ask for "
                "fewer, or keep failures too"
            )
        action, source = actor(obs)
        step = env.step(action)
        for place in step.success.nonzero()[:, 0].tolist():
            solved.setdefault(place, len(running[place]))
        now = _row(obs, action, step)
        for place, part in enumerate(running):
            part.append(Recording(_column(now, place), source[place : place + 1]))
        ended = step.terminated | step.truncated
        for place in ended.nonzero()[:, 0].tolist():
            tried += 1
            first = solved.pop(place, None)
            if failures or first is not None:
                last = len(running[place]) if first is None or hold is None else first + 1 + hold
                kept.append(_truncated(concatenated(running[place]), last))
            running[place] = []
        actor.reset(ended)
        on_step(len(kept))
        obs = dict(step.obs)
    return concatenated(kept[:episodes])


def concatenated(parts: Sequence[Recording]) -> Recording:
    """Recordings one after another."""
    return Recording(combined([part.steps for part in parts], torch.cat), torch.cat([part.source for part in parts]))


def save(path: Path, steps: Transitions, source: Tensor | None = None) -> None:
    """Write steps of one environment, (T, 1, ...), as a file; `source` (T,) is who acted.

    Raises:
        EmbodiedError: The disk refuses.
    """
    tensors = {f"obs/{group}": values for group, values in steps.obs.items()}
    tensors |= {f"next_obs/{group}": values for group, values in steps.next_obs.items()}
    tensors |= {name: getattr(steps, name) for name in PLAIN}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        written = {name: tensor[:, 0].cpu().contiguous() for name, tensor in tensors.items()}
        safetensors.torch.save_file(written if source is None else written | {SOURCE: source.cpu()}, path)
    except (OSError, safetensors.SafetensorError) as error:
        raise EmbodiedError(f"cannot write demonstrations to '{path}': {_reason(error)}") from error


def load(
    path: Path, observation_spec: Mapping[str, ObservationSpec], action_size: int, device: torch.device | str = "cpu"
) -> Transitions:
    """Read what `save` wrote; the last step ends an episode whatever the file has there.

    Returns:
        (T, 1, ...) steps.

    Raises:
        EmbodiedError: There is no such file, or it does not fit; names what was expected.
    """
    tensors = _read(path)
    shapes: dict[str, tuple[int, ...]] = {name: () for name in PLAIN} | {"action": (action_size,)}
    observed = {f"{kind}/{group}": spec for kind in ("obs", "next_obs") for group, spec in observation_spec.items()}
    shapes |= {name: spec.shape for name, spec in observed.items()}
    if missing := sorted(set(shapes) - set(tensors)):
        raise EmbodiedError(f"demonstrations '{path}' lack {listing(missing)}; they have {listing(sorted(tensors))}")
    count = tensors["reward"].numel()
    wrong = [f"{name} is {tuple(tensors[name].shape)}, expected {(count, *shape)}"
             for name, shape in shapes.items() if tuple(tensors[name].shape) != (count, *shape)]  # fmt: skip
    wrong += [complaint for name in shapes if (complaint := _complaint(name, tensors[name]))]
    if wrong or not count:
        raise EmbodiedError(f"demonstrations '{path}' do not fit: {'; '.join(wrong) or 'they hold no step'}")
    kinds = {"terminated": torch.bool, "truncated": torch.bool} | {name: spec.dtype for name, spec in observed.items()}
    parts = {name: tensors[name].to(device, kinds.get(name, torch.float32))[:, None] for name in shapes}
    parts["truncated"][-1] |= ~parts["terminated"][-1]
    obs, next_obs = ({group: parts[f"{kind}/{group}"] for group in observation_spec} for kind in ("obs", "next_obs"))
    return Transitions(obs, parts["action"], parts["reward"], parts["terminated"], parts["truncated"], next_obs)


def _complaint(name: str, values: Tensor) -> str | None:
    """Fault of a tensor's numbers; None if there is none."""
    if values.is_complex():
        return f"{name} holds complex numbers"
    if not values.isfinite().all():
        return f"{name} holds numbers that are not finite"
    largest = values.double().abs().max().item() if values.numel() else 0.0
    if name == "action" and largest > 1.0 + 1e-6:
        return f"action is up to {largest:g}, expected [-1, 1]"
    return f"{name} is up to {largest:g}, expected at most {LARGEST_STATE:g}" if largest > LARGEST_STATE else None


def load_source(path: Path, device: torch.device | str = "cpu") -> Tensor:
    """Actor of each step of a file: (T,) int64 of `interventions.Source`.

    Raises:
        EmbodiedError: It has no `source`, or other values than those of `Source`.
    """
    tensors = _read(path)
    known = ", ".join(f"{source.value} {source.name.lower()}" for source in Source)
    if SOURCE not in tensors:
        raise EmbodiedError(f"demonstrations '{path}' lack '{SOURCE}', who acted: expected (T,) of {known}")
    source = tensors[SOURCE]
    count = len(tensors["reward"])
    if (
        source.shape != (count,)
        or source.is_floating_point()
        or not bool(((source >= 0) & (source < len(Source))).all())
    ):
        raise EmbodiedError(
            f"'{SOURCE}' of '{path}' is {source.dtype} {tuple(source.shape)}, from {source.min().item()} to "
            f"{source.max().item()}; expected ({count},) of {known}"
        )
    return source.to(device, torch.int64)


def _read(path: Path) -> dict[str, Tensor]:
    try:
        require_regular(path)
        return safetensors.torch.load_file(path)
    except (OSError, safetensors.SafetensorError) as error:
        raise EmbodiedError(f"cannot read demonstrations from '{path}': {_reason(error)}") from error


def _truncated(recording: Recording, last: int) -> Recording:
    """Its first `last` steps; the last one is truncated."""
    if last >= len(recording.source):
        return recording
    steps = combined([recording.steps], lambda tensors: tensors[0][:last].clone())
    steps.truncated[-1] = True
    return Recording(steps, recording.source[:last])


def _row(obs: Mapping[str, Tensor], action: Tensor, step: Step) -> Transitions:
    """One step of N environments as (1, N, ...), copied."""
    steps = Transitions(obs, action, step.reward, step.terminated, step.truncated, step.final_obs)
    return combined([steps], lambda tensors: tensors[0][None].clone())


def _column(steps: Transitions, place: int) -> Transitions:
    """One environment's part, (T, 1, ...)."""
    return combined([steps], lambda tensors: tensors[0][:, place : place + 1])


def _reason(error: Exception) -> str:
    return reason(error) if isinstance(error, OSError) else " ".join(str(error).split())
