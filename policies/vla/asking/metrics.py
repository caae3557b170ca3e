"""Metrics of asking: recall and false alarms of questions, success, and how often a wrong object was taken."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from embodied.evaluation.rates import wilson
from embodied.evaluation.rollouts import Evaluation


def question_rates(asked: Tensor, ambiguous: Tensor) -> dict[str, float]:
    """Shares of questions, from (n,) of episodes or scenes.

    `asked`, `ambiguous`: of all. `asked_when_ambiguous` (recall) and `asked_when_clear` (false alarms), with `_low` and
    `_high`, their 95 % intervals. `right`: accuracy.
    """
    asked, ambiguous = asked.bool(), ambiguous.bool()
    rates = {"asked": _share(asked), "ambiguous": _share(ambiguous), "right": _share(asked == ambiguous)}
    for name, chosen in (("ambiguous", ambiguous), ("clear", ~ambiguous)):
        low, high = wilson(int(asked[chosen].sum()), int(chosen.sum()))
        rate = {f"asked_when_{name}": _share(asked[chosen]), f"asked_when_{name}_low": low}
        rates |= rate | {f"asked_when_{name}_high": high}
    return rates


def summary(outcome: Evaluation) -> dict[str, float]:
    """The evaluation's own summary, `wrong_object` (its failures), `question_rates`, and success where it was ambiguous
    or clear: `success_any_when_ambiguous`, `success_any_when_clear`."""
    values: Mapping[str, Tensor] = outcome.values
    found = outcome.summary() | question_rates(values["asked"], values["ambiguous"])
    found["wrong_object"] = found.pop("fall")
    ambiguous = values["ambiguous"].bool()
    return found | {
        "success_any_when_ambiguous": _share(values["success_any"][ambiguous]),
        "success_any_when_clear": _share(values["success_any"][~ambiguous]),
    }


def _share(chosen: Tensor) -> float:
    """Mean; 0 for nothing, which JSON can hold."""
    return float(chosen.double().mean()) if len(chosen) else 0.0


def table_rows(by: Mapping[str, Mapping[str, float]]) -> dict[str, str]:
    """The rows of a table, one for each asker."""
    return {
        name: f"success {_percent(found['success_any'])} (unclear {_percent(found['success_any_when_ambiguous'])}, "
        f"clear {_percent(found['success_any_when_clear'])}), wrong object {_percent(found['wrong_object'])}, "
        f"asked when unclear {_percent(found['asked_when_ambiguous'])}, "
        f"when clear {_percent(found['asked_when_clear'])}"
        for name, found in by.items()
    }


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
