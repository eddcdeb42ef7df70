"""What did 8,000 more steps of training change? Two checkpoints of a Stable-Baselines3 model on CartPole."""

from tempfile import TemporaryDirectory

import torch
from stable_baselines3 import PPO

from polidiff import Outcome, Simulator, as_policy, explain

torch.set_num_threads(1)  # the order of sums is fixed, and with it the model that comes out
model = PPO("MlpPolicy", "CartPole-v1", n_steps=512, learning_rate=1e-3, seed=0, device="cpu")
with TemporaryDirectory() as folder:
    model.learn(512).save(f"{folder}/early.zip")
    model.learn(8_192).save(f"{folder}/late.zip")
    early, late = (as_policy(f"{folder}/{name}.zip", greedy=True, trust=True) for name in ("early", "late"))

balance = Outcome("steps in balance", "reward", prefer="more", less="fewer steps in balance")
world = Simulator("CartPole-v1", horizon=200, outcomes=[balance], include_return=False)
print(explain(world, early, late, starts=20, max_steps=20_000, max_rules=2))
