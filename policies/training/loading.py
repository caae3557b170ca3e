"""Policies by name: a trained run, a shipped one, the task's expert, a user's file, random or zero actions.

A checkpoint that holds a policy has it in two places, from which nothing of the training code is needed:

- its meta (JSON) has the key `policy`: the first value of `policies.policy.Policy.to_tensors()`, and the key `task`:
  the registered name of the task it was trained on;
  Where the task was a suite whose policy is given its task, `identities` lists the names in their order, and
  `task_encoding` notes where it is given in words. `needs` are the options of `embodied.make` under which it acts;
- its tensors have, under the prefix `policy/`, the second value: `policy/<name>`.

Whatever else it holds is not read. A shipped policy is a checkpoint folder that need hold nothing more:
`assets/policies/<family>/<name>/`, named after its task.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

import jax
import torch
from torch import Tensor
from torch.nn import functional

from embodied.core.hooks import place_of, shown
from embodied.core.task import has_expert
from embodied.core.task_file import import_file
from embodied.env.env import Env
from embodied.env.factory import make
from embodied.env.options import EnvOptions, typed, with_options
from embodied.env.registry import Suite, TaskEncoding, join_content
from embodied.env.step import array_from_tensor, tensor_from_array
from embodied.env.suites import JoinedEnv
from embodied.env.vec_env import PolicyFunction, vector_sizes
from embodied.env.wrappers.task_encoding import of_rows, one_hot, spoken
from embodied.env.wrappers.trials import TrialEnv, by_trials
from embodied.errors import EmbodiedError, UnknownNameError, listing
from embodied.storage import checkpoints
from embodied.storage.checkpoints import Checkpoint, unflatten
from embodied.storage.configs import fitting, places
from embodied.storage.paths import shipped
from embodied.storage.runs import RUNS, Run
from embodied.storage.task_names import OwnFile, own_file
from policies.pixel_policy import PixelPolicy
from policies.policy import random_policy, rebuild, zero_policy

O = TypeVar("O", bound=EnvOptions[Any])  # noqa: E741


@runtime_checkable
class InstructedPolicy(Protocol):
    """A stored policy that follows instructions, which it gets when it is bound to environments."""

    def bind(
        self, env: Env, what: str, *, instruction: str | None = None, wrong_instruction: bool = False
    ) -> PolicyFunction:
        """The policy of one set of environments; errors call it `what`."""
        ...


PREFIX = "policy/"
ALGORITHM = "trainer/algorithm/"  # of a run's checkpoints, see `TaskSession.contents`
CRITICS = ("optimizer/", "critics/", "normalizers/")  # what `take_critic` reads there: not a replay buffer of gigabytes
SCRIPTS = ("expert", "random", "zero")
NAMES = (*SCRIPTS, "shipped")


def load_policy(
    name: str | Path,
    env: Env | JoinedEnv,
    seed: int = 0,
    *,
    instruction: str | None = None,
    wrong_instruction: bool = False,
    held_out_instruction: bool = False,
) -> PolicyFunction:
    """The policy `name` for `env`.

    Args:
        name: `zero`; `random`; `expert`, the task's own script; `shipped`, the trained one that comes with the
            package; a path: a run, one of its checkpoints, or a checkpoint folder by itself; or `FILE.py:NAME`, a
            function from observation groups to actions, or a class that is built with `env` and called like one.
        env: The environment it will act in.
        seed: Of the random policy.
        instruction: For a policy that follows instructions; by default the task's own first instruction.
        wrong_instruction: Give it, in each environment, another task's instruction: it should fail.
        held_out_instruction: Give it, in each environment, one that its suite holds out from training.

    Returns:
        A function from observation groups (N, size) to actions (N, A).

    Raises:
        EmbodiedError: no such policy, or one that does not fit; names what exists, or both sizes.
    """
    text = str(name)
    told: dict[str, Any] = {"instruction": instruction, "wrong_instruction": wrong_instruction}
    told |= {"held_out_instruction": held_out_instruction}
    own = policy_file(text)
    if (text in SCRIPTS or own) and any(told.values()):
        raise _takes_no_instruction(f"the policy '{text}'")
    if own:
        return _own(own, env)
    if text == "zero":
        return zero_policy(env.action_size)
    if text == "random":
        return random_policy(env.action_size, seed)
    if text == "expert":
        return _suite_expert(env) if isinstance(env, JoinedEnv) else _expert(env)
    one = cast("Env", env)  # a policy fits several tasks at once as it fits one
    if text == "shipped":
        return policy_for_env(checkpoints.load(shipped_path(env.name)), one, "the shipped policy", **told)
    require_policy(text, env.name)
    return policy_for_env(open_checkpoint(Path(name)), one, f"policy '{name}'", **told)


def policy_file(name: str) -> OwnFile | None:
    """The user's file that a policy's name means; a folder whose name ends in .py is a run."""
    file = own_file(name)
    return None if file is None or (file.member is None and os.path.isdir(name)) else file


def require_policy(name: str, task: str) -> None:
    """Check that a policy is a known name or lies at a path.

    Raises:
        UnknownNameError: neither; lists the names, and the newest runs of the task.
    """
    if policy_file(name):
        return  # its file is read, and its faults reported, when it is loaded
    if name not in NAMES and not os.path.exists(name):  # False, too, of what no path can be
        known = [*NAMES, *(str(run.path) for run in Run.all(RUNS, task)[:8])]
        raise UnknownNameError("policy", name, known)


def default_policy(task: str) -> str:
    """The default policy: shipped, else the newest run of the task, else expert or random."""
    if task in shipped():
        return "shipped"
    runs = [run for run in Run.all(RUNS, task) if checkpoints.steps(run.checkpoints)]
    if runs:
        return str(runs[0].path)
    return "expert" if has_expert(join_content()[task].load()) else "random"


def open_checkpoint(path: Path) -> Checkpoint:
    """The checkpoint at a path: a checkpoint folder, or the newest of a run.

    Raises:
        EmbodiedError: there is neither, or it is damaged.
    """
    path = path.parent if path.is_file() and path.name in (checkpoints.STATE, checkpoints.TENSORS) else path
    checkpoint = checkpoints.load(path) if (path / checkpoints.STATE).exists() else Run.open(path).load()
    _check_meta(checkpoint)
    return checkpoint


def _check_meta(checkpoint: Checkpoint) -> None:
    """Check the types of what a checkpoint notes.

    Raises:
        EmbodiedError: one is another; names the checkpoint and the key.
    """
    meta, what = checkpoint.meta, f"checkpoint '{checkpoint.path}': its"
    for name in ("task", "task_encoding"):
        if name in meta:
            fitting(str, meta[name], f"{what} {name}")
    needs, identities, described = meta.get("needs", {}), meta.get("identities", []), meta.get("policy")
    if not (isinstance(identities, list) and all(isinstance(name, str) for name in identities)):
        raise EmbodiedError(f"{what} identities={identities!r:.60}; expected a list of tasks")
    if not isinstance(needs, Mapping):
        raise EmbodiedError(f"{what} needs={needs!r:.60}; expected options with their values")
    if isinstance(described, Mapping) and described.get("cameras"):
        fitting(tuple[str, ...], described["cameras"], f"{what} cameras")
        fitting(int | tuple[int, int], described.get("resolution", "none"), f"{what} resolution")


def with_needs(options: O, name: str | Path) -> O:
    """Options of environments with what a policy needs there: cameras, trials, and the config of the task it learned.

    Raises:
        EmbodiedError: its checkpoint is damaged, or notes what does not exist in this version.
    """
    checkpoint = _checkpoint(name, options.task)
    if checkpoint is None:
        return options
    needs, described = dict(checkpoint.meta.get("needs", {})), checkpoint.meta.get("policy")
    if isinstance(described, Mapping) and described.get("cameras"):
        needs |= {"cameras": described["cameras"], "resolution": described["resolution"]}
    if checkpoint.meta.get("task") != options.task:  # another task's config has other fields
        needs = {name: value for name, value in needs.items() if name in places(options)}
    options, run = with_options(options, typed(options, needs)), checkpoint.path.parents[1]
    return dataclasses.replace(options, wrappers=options.wrappers.mapped(lambda wrapper: wrapper.kept(run)))


def learned_in_trials(name: str | Path, task: str) -> bool:
    """Whether a policy is a checkpoint's that learned in trials.

    Raises:
        EmbodiedError: its checkpoint is damaged.
    """
    return "episodes_per_trial" in _meta(name, task).get("needs", {})


def remembers(name: str | Path, task: str) -> bool:
    """Whether a policy is a checkpoint's, with memory that lives from one control step to the next.

    Raises:
        EmbodiedError: its checkpoint is damaged.
    """
    described = _meta(name, task).get("policy")
    return isinstance(described, Mapping) and bool(described.get("memory"))


def critic_state(name: str) -> Mapping[str, Any] | None:
    """State of the critic of a policy's training, see `Algorithm.take_critic`; None for scripts and shipped ones.

    Raises:
        EmbodiedError: its checkpoint is damaged.
    """
    if name in NAMES or policy_file(name):
        return None
    tensors = open_checkpoint(Path(name)).tensors
    kept = {key.removeprefix(ALGORITHM): value for key, value in tensors.items() if key.startswith(ALGORITHM)}
    kept = {key: value for key, value in kept.items() if key.startswith(CRITICS)}
    return unflatten(kept) if kept else None


def _meta(name: str | Path, task: str) -> Mapping[str, Any]:
    """Metadata of a policy's checkpoint; empty for scripts, and where there is none."""
    checkpoint = _checkpoint(name, task)
    return {} if checkpoint is None else checkpoint.meta


def _checkpoint(name: str | Path, task: str) -> Checkpoint | None:
    """A policy's checkpoint; None for scripts, and where there is none."""
    path = shipped().get(task) if str(name) == "shipped" else Path(name)
    scripted = str(name) in SCRIPTS or policy_file(str(name))
    return None if scripted or path is None or not os.path.exists(path) else open_checkpoint(path)


def policy_for_env(
    checkpoint: Checkpoint,
    env: Env,
    what: str,
    *,
    instruction: str | None = None,
    wrong_instruction: bool = False,
    held_out_instruction: bool = False,
) -> PolicyFunction:
    """The policy that a checkpoint holds, on the environment's device; one that follows instructions, as `load_policy`.

    Raises:
        EmbodiedError: it holds none, or one whose observation or action has another size.
    """
    policy = policy_from_checkpoint(checkpoint, what, env.device)
    if isinstance(policy, InstructedPolicy):
        if held_out_instruction:
            raise EmbodiedError(f"nothing is held out from {what}; expected one of a suite, with instructions")
        return policy.bind(env, what, instruction=instruction, wrong_instruction=wrong_instruction)
    by_words = checkpoint.meta.get("task_encoding") == TaskEncoding.WORDS
    if (instruction is not None or wrong_instruction or held_out_instruction) and not by_words:
        raise _takes_no_instruction(what)
    if isinstance(policy, PixelPolicy):
        policy.require_fit(env, what)
        return policy
    identities, code = checkpoint.meta.get("identities", []), None
    if by_words:
        suite = join_content().suites.get(checkpoint.meta.get("task", ""))
        if suite is None:
            raise EmbodiedError(f"{what} is told its task in words, but was trained on no suite of this version")
        code = spoken(_said(suite, env, instruction, wrong=wrong_instruction, held_out=held_out_instruction))
    elif env.name in identities:
        code = one_hot(identities.index(env.name), len(identities))
    _check_fit(policy, env, what, checkpoint.meta, 0 if code is None else code.shape[1])
    acting = policy.acting_in(by_trials(env))
    return acting if code is None else told_its_task(acting, code)


def _said(suite: Suite, env: Env, instruction: str | None, *, wrong: bool, held_out: bool) -> tuple[str, ...]:
    """Instructions of a policy that a suite gives its task in words, in turn over the environments.

    Raises:
        EmbodiedError: the suite holds no instruction of this task out from training.
    """
    if instruction is not None:
        return (instruction,)
    if wrong:
        return tuple(suite.instructions(other)[0] for other in suite.tasks if other != env.name)
    if not held_out:
        return env.task.language.instructions[:1] if env.task.language else ()
    if env.name not in suite.held_out_paraphrases:
        having = listing(suite.held_out_paraphrases) or "no task"
        raise EmbodiedError(f"{suite.name} holds no instruction of {env.name} out from training; of {having}")
    return suite.held_out_paraphrases[env.name]


def policy_from_checkpoint(checkpoint: Checkpoint, what: str, device: torch.device | str = "cpu") -> Any:
    """The policy that a checkpoint holds, whatever environment it may fit: a `policies.policy.Policy`, or one of
    another kind, such as a `InstructedPolicy`, which is bound to an environment before it acts.

    Raises:
        EmbodiedError: it holds none, or one that cannot be rebuilt; begins with `what`.
    """
    meta = checkpoint.meta.get("policy")
    if not isinstance(meta, Mapping):
        held = listing(checkpoint.meta) or "nothing"
        raise EmbodiedError(
            f"{what} has no policy: its checkpoint '{checkpoint.path}' lacks the key 'policy' (meta: {held})"
        )
    tensors = {
        name.removeprefix(PREFIX): tensor.to(device)
        for name, tensor in checkpoint.tensors.items()
        if name.startswith(PREFIX)
    }
    try:
        if not isinstance(meta.get("group", ""), str):
            raise TypeError(f"its observation group is {str(meta['group'])[:60]}; expected a name")
        if wrong := [n for n, one in tensors.items() if one.is_floating_point() and not one.float().isfinite().all()]:
            raise ValueError(f"{wrong[0]} holds numbers that are not finite")
        return rebuild(meta, tensors)
    except (KeyError, TypeError, ValueError, OverflowError, RuntimeError) as error:
        detail = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise EmbodiedError(f"{what} cannot be rebuilt from checkpoint '{checkpoint.path}': {detail}") from error


def told_its_task(policy: Any, codes: Tensor) -> PolicyFunction:
    """A policy of several tasks in one of them: its observations end in one of the codes (k, size), in turn."""

    def act(obs: Mapping[str, Tensor]) -> Tensor:
        values = obs[policy.group]
        return policy({policy.group: torch.cat([values, of_rows(codes.to(values), len(values))], -1)})

    return act


def _check_fit(policy: Any, env: Env, what: str, meta: Mapping[str, Any], identity: int) -> None:
    """Compare the sizes of a policy with those of an environment, to which `identity` numbers are added."""
    task, trained_on = env.name, meta.get("task")
    sizes = {group: size + identity for group, size in vector_sizes(env.observation_spec).items()}
    origin = f"; it was trained on '{trained_on}'" if trained_on else ""
    if policy.group not in sizes:
        raise EmbodiedError(
            f"{what} reads the observation group '{policy.group}', but '{task}' has {listing(sizes)}{origin}"
        )
    if not policy.fits(sizes[policy.group], env.action_size):
        raise EmbodiedError(
            f"{what} does not fit '{task}': it reads {policy.observation_size} numbers and gives "
            f"{policy.action_size} actions, the task observes {sizes[policy.group]} and takes {env.action_size}"
            f"{_other_terms(policy, env, meta)}{origin}"
        )
    team, agents = getattr(policy, "team_size", 1), env.agents or 1
    if team not in (1, agents):
        raise EmbodiedError(f"{what} does not fit '{task}': it acts for {team} agents, the task has {agents}{origin}")


def _other_terms(policy: Any, env: Env | JoinedEnv, meta: Mapping[str, Any]) -> str:
    """Observed terms that are not those of the task that a policy was trained on, where that can be made here."""
    if not isinstance(env, Env) or meta.get("task", "") not in join_content():  # of a file, or a suite
        return ""
    try:
        trained = make(meta["task"], **meta.get("needs", {}), device="cpu").observation_terms.get(policy.group, {})
    except EmbodiedError:
        return ""
    theirs, ours = (
        {name: math.prod(shape) for name, shape in terms.items()}
        for terms in (trained, env.observation_terms[policy.group])
    )
    if sum(theirs.values()) != policy.observation_size:  # of another version
        return ""
    differ = [name for name in {**theirs, **ours} if theirs.get(name) != ours.get(name)]
    listed = [f"{name} {theirs.get(name, 'none')}, here {ours.get(name, 'none')}" for name in differ]
    return f" ({'; '.join(listed)})" if listed else ""


def shipped_path(task: str) -> Path:
    """Folder of the policy shipped for a task.

    Raises:
        EmbodiedError: there is none; lists the tasks that have one.
    """
    found = shipped()
    if task not in found:
        exist = f"there are some for {listing(found)}" if found else "there are none in this version"
        raise EmbodiedError(f"no policy is shipped for '{task}'; {exist}. Train one: python -m embodied.train {task}")
    return found[task]


def _tasks_with_expert() -> Iterator[str]:
    registry = join_content()
    return (name for name in registry if has_expert(registry[name].load()))


def _expert(env: Env) -> PolicyFunction:
    """The task's expert, which also sees the task's state."""
    if not has_expert(env.task):
        exist = listing(_tasks_with_expert())
        exist = f"these have one: {exist}" if exist else "no task has one"
        raise EmbodiedError(f"'{env.name}' has no scripted expert; {exist}")
    script = jax.jit(jax.vmap(env.task.expert))

    def act(obs: Mapping[str, Tensor]) -> Tensor:
        # Scripts see no pixels, and reading them would draw them.
        observation = {name: array_from_tensor(obs[name]) for name in vector_sizes(env.observation_spec)}
        action = script(observation, env.task_state)
        return tensor_from_array(action, env.device).clamp(-1.0, 1.0)

    return act


def _own(file: OwnFile, env: Env | JoinedEnv) -> PolicyFunction:
    """The function, or the instance of the class, of a user's file.

    Raises:
        EmbodiedError: there is no such file, no function is named, or the file has none of that name.
    """
    module = import_file(file.path, "policy")
    known: dict[str, Any] = {
        name: value
        for name, value in vars(module).items()
        if callable(value) and not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    }
    if file.member is None:
        has = listing(known) or "no function"
        raise EmbodiedError(
            f"policy file '{file.path}': expected FILE.py:NAME, a function or class of it; it has {has}"
        )
    if file.member not in known:
        raise UnknownNameError(f"policy in {file.path.name}", file.member, known)
    found: Callable[..., Any] = known[file.member]
    what = f"{place_of(found)}{file.member}"
    policy = _called(what, found, env) if inspect.isclass(found) else found

    def act(obs: Mapping[str, Tensor]) -> Tensor:
        given = _called(what, policy, obs)
        try:
            action = torch.as_tensor(given, device=env.device)
        except (TypeError, ValueError, RuntimeError):
            action = None
        if action is None or action.dim() < 2 or action.shape[-1] != env.action_size:
            raise EmbodiedError(f"{what} returned {shown(given)}; expected actions (N, {env.action_size})")
        return action

    return act


def _called(what: str, function: Callable[..., Any], argument: Any) -> Any:
    """What a user's function makes of one argument.

    Raises:
        EmbodiedError: it does not take one.
    """
    try:
        return function(argument)
    except TypeError as error:
        if error.__traceback__ is None or error.__traceback__.tb_next is not None:
            raise
        raise EmbodiedError(f"{what} cannot be called with one argument: {error}") from None


def _suite_expert(env: JoinedEnv) -> PolicyFunction:
    """Each task's own expert, in the environments of that task."""
    experts = [_expert(one.env if isinstance(one, TrialEnv) else cast("Env", one)) for one in env.envs]

    def act(obs: Mapping[str, Tensor]) -> Tensor:
        actions = [expert(seen) for expert, seen in zip(experts, env.separated(obs), strict=True)]
        return torch.cat([functional.pad(action, (0, env.action_size - action.shape[-1])) for action in actions])

    return act


def _takes_no_instruction(what: str) -> EmbodiedError:
    return EmbodiedError(
        f"{what} is not told what to do in words; expected a vision-language-action policy or one of a suite by words"
    )


def suite_policies(
    suite: Suite, policy: str, *, wrong_instruction: bool = False, held_out_instruction: bool = False
) -> Callable[[Env], PolicyFunction]:
    """From an environment of one of a suite's tasks to the policy that acts in it.

    Args:
        suite: Which tasks.
        policy: As for `load_policy`; `shipped` is the suite's own, where one is shipped, else each task's.
        wrong_instruction: As for `load_policy`.
        held_out_instruction: As for `load_policy`.

    Raises:
        EmbodiedError: `shipped`, and neither the suite nor each of its tasks has one.
    """
    own = suite_policy(suite, policy)
    lacking = [task for task in (*suite.tasks, *suite.held_out) if task not in shipped()]
    if own == "shipped" and lacking:
        raise EmbodiedError(
            f"no policy is shipped for {suite.name}, nor for {len(lacking)} of its tasks, such as {lacking[0]}; "
            f"expected --policy RUN, {listing(SCRIPTS)}"
        )
    return lambda env: load_policy(
        own, env, wrong_instruction=wrong_instruction, held_out_instruction=held_out_instruction
    )


def suite_policy(suite: Suite, policy: str) -> str | Path:
    """The policy of a suite's tasks: where one is shipped for the suite, `shipped` is that."""
    return shipped().get(suite.name, policy) if policy == "shipped" else policy
