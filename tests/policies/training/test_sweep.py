"""Sweeps by the real Optuna: flags are drawn as asked for, the best are printed, and what was cut off goes on."""

from __future__ import annotations

import inspect
import json
import math

import pytest

from embodied.env.registry import join_content
from embodied.errors import EmbodiedError, RunError
from embodied.storage.runs import Run
from embodied.sweep.__main__ import main
from policies.training import sweep as sweeps
from policies.training.launch import Trained
from policies.training.sweep import Goal, Sweep, Varied
from tests.kit.training import NUM_ENVS, PPO, SMALL, STEP, TASK

optuna = pytest.importorskip("optuna")

RATE = "ppo.learning-rate=1e-4..1e-2,log"
WORDS = [*SMALL, *PPO, "--steps", str(2 * STEP), "--evaluate-episodes", str(NUM_ENVS)]


@pytest.mark.parametrize(
    ("text", "varied"),
    [
        (RATE, Varied("ppo.learning-rate", 1e-4, 1e-2, log=True)),
        ("--ppo.gamma=0.9..0.99", Varied("ppo.gamma", 0.9, 0.99)),
        ("num-envs=64..256", Varied("num-envs", 64, 256)),
        ("ppo.schedule=linear,adaptive", Varied("ppo.schedule", values=("linear", "adaptive"))),
        ("ppo.unroll=8", Varied("ppo.unroll", values=("8",))),
    ],
)
def test_what_varies_is_read(text, varied):
    assert Varied.parse(text) == varied


@pytest.mark.parametrize(
    "text", ["ppo.gamma", "=1..2", "ppo.gamma=", "a=1..2..3", "a=x..2", "a=2..1", "a=0..1,log", "a=1..2,x"]
)
def test_what_is_no_range_is_refused(text):
    with pytest.raises(EmbodiedError, match=f"--vary {text}"):
        Varied.parse(text)


def test_whole_numbers_stay_whole():
    study = optuna.create_study()
    drawn = [Varied.parse("n=4..64,log").drawn(study.ask()) for _ in range(20)]
    assert all(4 <= int(text) <= 64 for text in drawn)
    assert len(set(drawn)) > 5


def pretended(monkeypatch, value_of):
    """Let trials train nothing, and come to what a function of their settings says; None: a signal stops them."""

    def train_one(settings, stop_early=None):
        if not (settings.out / "config.json").exists():
            Run.create(settings.out, settings.task, {}, settings.out)
        run = Run.open(settings.out)
        value = value_of(settings)
        if value is None:
            return Trained(run, None, {}, stopped=True)  # pyright: ignore[reportArgumentType] - no policy is asked for
        for share in (0.4, 0.6, 0.8):
            if stop_early is not None and stop_early(int(share * settings.steps), {"success": value * share}):
                return Trained(run, None, {}, stopped=True)  # pyright: ignore[reportArgumentType]
        run.write_result({"success": value, "steps": settings.steps})
        return Trained(run, None, run.result, stopped=False)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(sweeps, "train_one", train_one)


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    entry = join_content().find(TASK)

    def make(goal=Goal(), name="s", varied=(RATE,), words=WORDS):  # noqa: B008 - frozen
        return Sweep(entry, words, [Varied.parse(text) for text in varied], goal, name)

    return make


def by_rate(settings):
    """As if 1e-3 were the best rate."""
    return 1 - abs(math.log10(settings.algorithm_config.learning_rate) + 3) / 2


@pytest.mark.parametrize(("trials", "off"), [(3, None), pytest.param(25, 0.5, marks=pytest.mark.slow)])
def test_it_finds_the_best_and_says_how_to_train_with_it(trials, off, sweep, monkeypatch):
    pretended(monkeypatch, by_rate)
    search = sweep()
    assert search.run(trials)
    best, *others = search.ranked()
    distances = [abs(math.log10(trial.params["ppo.learning-rate"]) + 3) for trial in (best, *others)]
    assert distances == sorted(distances)
    assert off is None or best.params["ppo.learning-rate"] == pytest.approx(1e-3, rel=off)
    rate = f"{best.params['ppo.learning-rate']:.6g}"
    common = " ".join(WORDS[1:])
    assert search.best_command() == f"python -m embodied.train {TASK} {common} --ppo.learning-rate={rate}"
    assert len({trial.user_attrs["run"] for trial in search.ranked()}) == trials


def test_more_trials_go_on_with_those_there_are(sweep, monkeypatch):
    pretended(monkeypatch, by_rate)
    assert sweep().run(2)
    first = [trial.params for trial in sweep().ranked()]
    assert sweep().run(4)
    later = [trial.params for trial in sweep().ranked()]
    assert len(later) == 4
    assert all(params in later for params in first)


def test_a_trial_that_was_cut_off_goes_on_in_its_run(sweep, monkeypatch):
    stopped = []

    def value(settings):
        stopped.append(settings.out)
        return by_rate(settings) if len(stopped) != 2 else None

    pretended(monkeypatch, value)
    assert not sweep().run(3)
    (cut_off,) = sweep().study.get_trials(states=(optuna.trial.TrialState.RUNNING,))
    assert sweep().run(3)
    assert stopped[1] == stopped[2]
    (again,) = [trial for trial in sweep().ranked() if trial.user_attrs["run"] == stopped[2].name]
    assert again.params == cut_off.params
    pretended(monkeypatch, by_rate)
    assert (whole := sweep(name="whole")).run(3)
    assert [(trial.user_attrs["run"], trial.params, trial.value) for trial in sweep().ranked()] == [
        (trial.user_attrs["run"], trial.params, trial.value) for trial in whole.ranked()
    ]


def test_a_second_process_is_refused_and_leaves_the_first_ones_trial(sweep, monkeypatch):
    def value(settings):
        with pytest.raises(RunError, match="is run by another process; wait for it, or end it"):
            sweep().run(2)
        return by_rate(settings)

    pretended(monkeypatch, value)
    assert sweep().run(2)
    assert len(sweep().ranked()) == 2


def test_hopeless_trials_are_stopped(sweep, monkeypatch):
    # The first five are as good as can be, so that the last one is worse than their median.
    seen = []
    pretended(monkeypatch, lambda settings: seen.append(1) or (1.0 if len(seen) <= 5 else 0.1))
    search = sweep(Goal(prune=True))
    assert search.run(6)
    assert (len(search.ranked()), len(search.pruned)) == (5, 1)


def test_a_trial_that_cannot_be_trained_is_passed_over_unless_all_are(sweep, monkeypatch):
    def value(settings):
        if settings.algorithm_config.learning_rate > 3e-3:
            raise EmbodiedError("diverged")
        return 0.5

    pretended(monkeypatch, value)
    search = sweep(name="some")
    assert search.run(3)
    assert len(search.ranked()) == 3
    with pytest.raises(EmbodiedError, match="diverged"):
        sweep(name="none", varied=("ppo.learning-rate=4e-3..1e-2",)).run(3)


def test_messages(sweep, monkeypatch, capsys):
    pretended(monkeypatch, by_rate)
    sweep().run(1)
    with pytest.raises(RunError, match="varies other flags or trains otherwise"):
        sweep(varied=("ppo.gamma=0.9..0.99",))
    with pytest.raises(EmbodiedError, match="single runs"):
        sweep(words=[*WORDS, "--seeds", "1", "2"], name="other")
    with pytest.raises(RunError, match="--measure reward: an evaluation here has success"):
        sweep(Goal("reward"), name="third").run(1)
    with pytest.raises(EmbodiedError, match=r"what is to vary\? .*--vary"):
        inspect.unwrap(main)(["swarm/hover"])


def test_the_command_trains_trials_and_writes_them(tmp_path, monkeypatch, capsys, ppo_compiled):
    monkeypatch.chdir(tmp_path)
    words = [*WORDS, "--vary", RATE, "ppo.gamma=0.9,0.99", "--trials", "2", "--measure", "return", "--name", "real"]
    assert main(words) == 0
    said = capsys.readouterr().out
    folder = tmp_path / "runs" / TASK / "real"
    values = json.loads((folder / "sweep.json").read_text())
    assert values["best"] in said
    assert [trial["run"] for trial in values["trials"]] == ["trial-000", "trial-001"] or len(values["trials"]) == 2
    run = Run.open(folder / values["trials"][0]["run"])
    assert run.result["return"] == values["trials"][0]["value"]
    assert f"--ppo.learning-rate={run.config['algorithm_config']['learning_rate']:.6g}" in values["best"]
    page = (folder / "sweep.html").read_text()
    assert "<circle" in page
    assert "http" not in page
