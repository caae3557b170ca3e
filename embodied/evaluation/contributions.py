"""Contribution of each agent to a team: Shapley values, estimated from random orders in which agents join.

The Shapley value of agent i is the mean, over all orders of joining, of the increase of the team's earnings when i
joins (Shapley 1953); the agents' values add up to the whole team's earnings beyond those of an empty team. Drawn orders
give an unbiased estimate (Castro et al. 2009, "Polynomial calculation of the Shapley value based on sampling").
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

EXACT = 4
"""Agents up to which all orders are taken: 2⁴ teams are evaluated at most."""


@dataclass(frozen=True)
class Contribution:
    """An agent's Shapley value."""

    value: float
    half: float
    """Half the width of its 95 % interval over the orders that were drawn; 0 where all orders were taken."""


def contributions(
    value: Callable[[frozenset[int]], float], agents: int, orders: int, seed: int = 0
) -> list[Contribution]:
    """Shapley values of `agents` players.

    Args:
        value: Earnings of a coalition; called once for each that occurs.
        agents: Their number.
        orders: Random orders of joining; ignored with few agents (`EXACT`), of which all are taken.
        seed: Of the orders.
    """
    known: dict[frozenset[int], float] = {}

    def earned(coalition: frozenset[int]) -> float:
        if coalition not in known:
            known[coalition] = value(coalition)
        return known[coalition]

    if agents <= EXACT:
        return [Contribution(exact_value(earned, agent, agents), 0.0) for agent in range(agents)]
    generator = np.random.default_rng(seed)
    gains = np.zeros((orders, agents))
    for row in gains:
        team: frozenset[int] = frozenset()
        for agent in generator.permutation(agents).tolist():
            row[agent] = earned(team | {agent}) - earned(team)
            team |= {agent}
    halves = 1.96 * gains.std(0, ddof=1) / math.sqrt(orders) if orders > 1 else np.full(agents, math.nan)
    return [Contribution(float(mean), float(half)) for mean, half in zip(gains.mean(0), halves, strict=True)]


def most_coalitions(agents: int, orders: int) -> int:
    """Largest number of coalitions that `contributions` evaluates."""
    return 2**agents if agents <= EXACT else min(2**agents, orders * agents + 1)


def exact_value(value: Callable[[frozenset[int]], float], agent: int, agents: int) -> float:
    """Σ over coalitions S without the agent of |S|! (n - |S| - 1)! / n! (v(S + agent) - v(S))."""
    others = [one for one in range(agents) if one != agent]
    total = 0.0
    for code in range(2 ** len(others)):
        coalition = frozenset(one for bit, one in enumerate(others) if code >> bit & 1)
        size = len(coalition)
        weight = math.factorial(size) * math.factorial(agents - size - 1) / math.factorial(agents)
        total += weight * (value(coalition | {agent}) - value(coalition))
    return total
