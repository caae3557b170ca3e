"""Actions of metaworld 3.1.1's scripted policies, for any observations: for a Python that has metaworld.

In: a line of JSON, `{"task": "reach", "observations": [[39 numbers], ...]}`, one observation an episode. Out: a line of
JSON, the actions (4 numbers each), clipped to [-1, 1] as Meta-World's environments do. Another task than in
the line before gets policies anew, one an episode.
"""

import json
import sys

import numpy as np
from metaworld.policies import ENV_POLICY_MAP  # pyright: ignore[reportMissingImports] - of another environment

task, policies = "", []
for line in sys.stdin:
    asked = json.loads(line)
    observations = np.array(asked["observations"], np.float64)
    if asked["task"] != task or len(policies) != len(observations):
        task = asked["task"]
        policies = [ENV_POLICY_MAP[f"{task}-v3"]() for _ in observations]
    actions = [np.clip(policy.get_action(seen), -1.0, 1.0) for policy, seen in zip(policies, observations)]  # noqa: B905
    print(json.dumps(np.asarray(actions, np.float64).tolist()), flush=True)
