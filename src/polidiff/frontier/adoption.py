r"""What happens when a plan is followed only in part: each change with probability θ.

.. math:: P_\theta = (1 - \theta)\, P_{\text{current}} + \theta\, P_{\text{plan}}

Return need not rise with θ: a change that pays only together with another one can cost while the other is not made.
"""

from __future__ import annotations

from polidiff.errors import ImproperPolicyError
from polidiff.evaluation.exact import ExactEvaluator
from polidiff.frontier.plans import told_outcomes
from polidiff.frontier.setting import Setting
from polidiff.policies import one_hot
from polidiff.records.arrays import IntArray
from polidiff.records.plan import AdoptionPoint

SHARES = (0.25, 0.5, 0.75, 1.0)


def adoption_curve(setting: Setting, actions: IntArray) -> tuple[tuple[AdoptionPoint, ...], tuple[str, ...]]:
    """Return and outcomes at each share, and warnings where less than all is worse than nothing."""
    world = setting.world
    gains = {outcome.name: world.outcome_table(outcome) for outcome in told_outcomes(setting)}
    today = one_hot(setting.base, world.n_actions)
    plan = one_hot(actions, world.n_actions)
    points, warnings = [], []
    for share in (0.0, *SHARES):
        table = (1.0 - share) * today + share * plan
        try:
            taken = ExactEvaluator(world, table).visits()[:, None] * table
        except ImproperPolicyError:
            warnings.append(f"followed with probability {share:g}, the plan may never end")
            continue
        points.append(
            AdoptionPoint(
                share,
                float((taken * world.rewards).sum()),
                {name: float((taken * gain).sum()) for name, gain in gains.items()},
            )
        )
    now = points[0].expected_return
    worse = [p for p in points[1:] if p.expected_return < now - 1e-9 * (1.0 + abs(now))]
    if worse:
        low = min(worse, key=lambda p: p.expected_return)
        warnings.append(
            f"partial adoption is worse than today: followed with probability {low.share:g} the plan returns "
            f"{low.expected_return:.6g}, the current policy {now:.6g}"
        )
    return tuple(points), tuple(warnings)
