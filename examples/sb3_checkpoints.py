"""What did 3,000 more steps of training change? Two checkpoints of a Stable-Baselines3 model on CartPole."""

from tempfile import TemporaryDirectory

from stable_baselines3 import PPO

from polidiff import Simulator, as_policy, explain

model = PPO("MlpPolicy", "CartPole-v1", n_steps=512, n_epochs=5, seed=0, device="cpu")
with TemporaryDirectory() as folder:
    model.learn(1_000).save(f"{folder}/early.zip")
    model.learn(3_000).save(f"{folder}/late.zip")
    early, late = (as_policy(f"{folder}/{name}.zip", greedy=True, trust=True) for name in ("early", "late"))

world = Simulator("CartPole-v1", horizon=200, return_name="steps in balance")
print(explain(world, early, late, starts=10, max_steps=5_000, max_rules=2))
