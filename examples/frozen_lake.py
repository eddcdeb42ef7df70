"""FrozenLake from its own table: what does a policy gain that fears the holes?

The current policy takes the shortest way as if the ice were not slippery. The proposed one is the best there is.
"""

from polidiff import TabularMDP, explain
from polidiff.evaluation.exact import best_policy

world = TabularMDP.from_gymnasium("FrozenLake-v1", return_name="chance of arriving")

# 0 left, 1 down, 2 right, 3 up; rows of the 4 by 4 lake
shortest = [1, 2, 1, 0,
            1, 0, 1, 0,
            2, 1, 1, 0,
            0, 2, 2, 0]  # fmt: skip
careful = best_policy(world).actions

print(explain(world, shortest, careful))
