"""A small network for the mountain car, and the same network after one layer was rounded to whole numbers."""

from copy import deepcopy

import torch

from polidiff import Simulator, as_policy, explain

torch.manual_seed(0)
world = Simulator("MountainCar-v0", return_name="reward")

# Push with the velocity: three scores, for left, coast and right.
network = torch.nn.Sequential(torch.nn.Linear(2, 3))
with torch.no_grad():
    network[0].weight.copy_(torch.tensor([[0.0, -9.4], [0.4, 0.0], [0.0, 9.4]]))
    network[0].bias.zero_()
rounded = deepcopy(network)
with torch.no_grad():
    rounded[0].weight.round_()

current, proposed = (as_policy(module, output="values") for module in (network, rounded))
print(explain(world, current, proposed, starts=20, max_steps=20_000, max_rules=2))
