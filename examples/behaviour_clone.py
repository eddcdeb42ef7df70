"""A classifier learns to balance a pole by watching: where does it not do as it was shown, and what does that cost?"""

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from polidiff import Outcome, Simulator, as_policy, explain
from polidiff.worlds.rollouts import roll_out

balance = Outcome("steps in balance", "reward", prefer="more", less="fewer steps in balance")
world = Simulator("CartPole-v1", horizon=200, outcomes=[balance], include_return=False)


def teacher(observations):
    """Push towards where the pole is falling."""
    _, _, angle, spin = np.asarray(observations).T
    return (angle + 0.5 * spin > 0).astype(int)


shown = roll_out(world, as_policy(teacher, n_actions=2), episodes=20, seed=(0,), record=True).visits
clone = DecisionTreeClassifier(max_leaf_nodes=2, random_state=0).fit(shown.states, shown.actions)

print(explain(world, teacher, as_policy(clone, greedy=True), starts=40, max_steps=40_000, max_rules=3))
