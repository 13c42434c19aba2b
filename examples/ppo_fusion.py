"""PPO with a graph network learns which kernels to fuse, beside players that do not learn.

    python ppo_fusion.py --updates 40 --plot ppo.svg

The network sees a state as `hilo-v1` has it: instructions are nodes, what they read edges. A choice of the game is about two nodes, a
producer and the user that it would go into; it gets a score from what the network makes of both and of the guess of its gain. The
last action stops. The reward is what a step takes off the program's time, in parts of the time at first.
"""
import argparse
import importlib.util
import sys

import hilo.env
import numpy as np

if importlib.util.find_spec("torch") is None:
  print("skipped: ppo_fusion.py needs PyTorch (pip install torch)")
  sys.exit(77)
import torch
from torch import nn

ENVS, STEPS, HIDDEN, ROUNDS, EPOCHS = 4, 32, 48, 3, 3
DISCOUNT, SMOOTHING, CLIP, ENTROPY = 0.99, 0.95, 0.2, 0.01


class Batch:
  """States side by side as one graph; `state` says whose a node or an action is."""

  def __init__(self, states):
    at = np.cumsum([0] + [len(s["opcode"]) for s in states])
    self.n = len(states)
    self.opcode = torch.from_numpy(np.concatenate([s["opcode"] for s in states]))
    self.numbers = torch.from_numpy(np.concatenate([s["numbers"] for s in states]))
    self.edges = torch.from_numpy(np.concatenate([s["edges"] + a for s, a in zip(states, at)], axis=1))
    self.node_state = torch.from_numpy(np.repeat(np.arange(self.n), np.diff(at)))
    self.pairs = torch.from_numpy(np.concatenate([s["pairs"] + a for s, a in zip(states, at)]))
    self.gain = torch.from_numpy(np.concatenate([s["gain"] for s in states]))
    self.pair_state = torch.from_numpy(np.repeat(np.arange(self.n), [len(s["pairs"]) for s in states]))


def look(game):
  """What the network sees of a state."""
  arrays = game._arrays_seen(True)
  logs = [np.log1p(arrays["node_" + name].astype(np.float32)) for name in ("bytes", "flops", "transcendentals", "users")]
  flags = [arrays["node_" + name].astype(np.float32) for name in ("is_root", "in_entry", "in_fusion")]
  kinds = (arrays["node_fusion_kind"] >= 0).astype(np.float32)
  inst, other = game.choice_nodes()
  gain = game.choice_arrays()["gain"] / max(game.costs["seconds"], 1e-30)
  known = ~np.isnan(gain)
  return {"opcode": arrays["node_opcode"].astype(np.int64) % 256, "numbers": np.stack([*logs, *flags, kinds], axis=1),
          "edges": np.stack([arrays["edge_src"], arrays["edge_dst"]]).astype(np.int64),
          "pairs": np.stack([inst, np.where(other < 0, inst, other)], axis=1).astype(np.int64),
          "gain": np.stack([np.nan_to_num(gain) * 100, known], axis=1).astype(np.float32)}


class Network(nn.Module):

  def __init__(self):
    super().__init__()
    self.opcode = nn.Embedding(256, 16)
    self.begin = nn.Linear(16 + 8, HIDDEN)
    self.rounds = nn.ModuleList(nn.Linear(3 * HIDDEN, HIDDEN) for _ in range(ROUNDS))
    self.pair = nn.Sequential(nn.Linear(3 * HIDDEN + 2, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 1))
    self.stop = nn.Sequential(nn.Linear(HIDDEN, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 1))
    self.value = nn.Sequential(nn.Linear(HIDDEN, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 1))

  def forward(self, batch):
    """Of each state the logarithms of the chances of its actions (-inf: there is none such), and its value."""
    x = torch.relu(self.begin(torch.cat([self.opcode(batch.opcode), batch.numbers], 1)))
    for layer in self.rounds:
      read = mean(x[batch.edges[0]], batch.edges[1], len(x))
      used = mean(x[batch.edges[1]], batch.edges[0], len(x))
      x = x + torch.relu(layer(torch.cat([x, read, used], 1)))
    whole = mean(x, batch.node_state, batch.n)
    pairs = self.pair(torch.cat([x[batch.pairs[:, 0]], x[batch.pairs[:, 1]], whole[batch.pair_state], batch.gain], 1))[:, 0]
    counts = torch.bincount(batch.pair_state, minlength=batch.n)
    scores = torch.full((batch.n, int(counts.max()) + 1), -torch.inf)
    place = torch.arange(len(pairs)) - (counts.cumsum(0) - counts)[batch.pair_state]
    scores[batch.pair_state, place + 1] = pairs
    scores[:, 0] = self.stop(whole)[:, 0] - 3  # the first action here: few games stop at first
    return torch.log_softmax(scores, 1), self.value(whole)[:, 0]


def mean(rows, where, n):
  total = torch.zeros(n, rows.shape[1]).index_add(0, where, rows)
  return total / torch.bincount(where, minlength=n).clamp(min=1)[:, None]


def play(network, env, states, greedy=False):
  """A step of every environment: actions as the network numbers them, their chances, values; and what came of it."""
  with torch.no_grad():
    chances, values = network(Batch(states))
  actions = chances.argmax(1) if greedy else torch.distributions.Categorical(logits=chances).sample()
  stop = env.single_action_space.n - 1
  _, rewards, terminated, truncated, info = env.step([stop if a == 0 else a - 1 for a in actions.tolist()])
  chosen = chances.gather(1, actions[:, None])[:, 0]
  return actions, chosen, values, torch.from_numpy(rewards).float(), torch.from_numpy(terminated | truncated), info


def collect(network, env, states, over):
  """Steps of all environments. A step after the end of a game begins another, and is not learnt from."""
  steps = []
  for _ in range(STEPS):
    actions, chances, values, rewards, done, _ = play(network, env, states)
    steps.append((states, actions, chances, values, rewards, done, ~over))
    states, over = [look(g) for g in env.games.games], done
  return steps, states, over


def advantages(network, steps, states):
  with torch.no_grad():
    after = network(Batch(states))[1]
  out, sum_ = [], torch.zeros(ENVS)
  for _, _, _, values, rewards, done, _ in reversed(steps):
    goes_on = (~done).float()
    sum_ = rewards + DISCOUNT * after * goes_on - values + DISCOUNT * SMOOTHING * goes_on * sum_
    after = values
    out.append(sum_)
  return out[::-1]


def learn(network, optimizer, steps, gained):
  """Clipped policy gradients (Schulman and others, 2017)."""
  flat = [(s[0][e], s[1][e], s[2][e], gained[k][e], gained[k][e] + s[3][e])
          for k, s in enumerate(steps) for e in range(ENVS) if s[6][e]]
  scale = torch.stack([f[3] for f in flat]).std() + 1e-6
  for _ in range(EPOCHS):
    for part in torch.randperm(len(flat)).split(64):
      some = [flat[k] for k in part.tolist()]
      chances, values = network(Batch([f[0] for f in some]))
      actions, before, gain, returns = (torch.stack([f[k] for f in some]) for k in (1, 2, 3, 4))
      ratio = (chances.gather(1, actions[:, None])[:, 0] - before).exp()
      gain = gain / scale
      policy = torch.minimum(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain).mean()
      entropy = -(chances.exp() * chances.clamp(min=-30)).sum(1).mean()
      loss = -policy - ENTROPY * entropy + 0.5 * (values - returns).square().mean()
      optimizer.zero_grad()
      loss.backward()
      nn.utils.clip_grad_norm_(network.parameters(), 0.5)
      optimizer.step()


def game_of(network, env):
  """The time at the end of a game in which the network takes the likeliest action, in parts of the time at first."""
  env.reset(seed=0)
  game = env.games.games[0]
  for _ in range(500):
    done = play(network, env, [look(g) for g in env.games.games], greedy=True)[4]
    if done[0]:
      break
  return game.state[hilo.env._game.METRIC] / game.state[hilo.env._game.FIRST_METRIC]


def baselines(module):
  found = {}
  for policy in ("uniform", "xla", "greedy"):
    env = hilo.env.Env(module, "gpu-fusion", actions="one")
    env.reset(seed=0)
    played = env.play(policy, seed=0)
    found[policy] = played["last"] / played["first"]
  return found


def plot(path, curve, others):
  import matplotlib
  matplotlib.use("agg")
  from matplotlib import pyplot
  pyplot.figure(figsize=(6, 3.5))
  pyplot.plot(range(len(curve)), curve, label="PPO")
  for k, (name, value) in enumerate(others.items()):
    pyplot.axhline(value, color=f"C{k + 1}", linestyle="--", linewidth=1, label=name)
  pyplot.xlabel("updates")
  pyplot.ylabel("time at the end of a game, at first 1")
  pyplot.legend()
  pyplot.tight_layout()
  pyplot.savefig(path, metadata={"Date": None} if path.endswith(".svg") else None)


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("--module", default="tests/fixtures/mlp_train/before.hlo", help="the program")
  parser.add_argument("--updates", type=int, default=20)
  parser.add_argument("--seed", type=int, default=0)
  parser.add_argument("--plot", help="where a picture of the games is drawn")
  args = parser.parse_args()
  torch.manual_seed(args.seed)
  torch.set_num_threads(1)
  others = baselines(args.module)
  for name, value in others.items():
    print(f"{name}: {value:.3f} of the time at first")
  env = hilo.env.VectorEnv(args.module, "gpu-fusion", num_envs=ENVS, actions="one", observation="hilo-v1", reward="relative",
                           max_choices=1024, max_steps=100)
  network = Network()
  optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
  curve = [game_of(network, env)]
  for update in range(args.updates):
    env.reset(seed=args.seed + 1 + update)
    states, over = [look(g) for g in env.games.games], torch.zeros(ENVS, dtype=torch.bool)
    for _ in range(3):
      steps, states, over = collect(network, env, states, over)
      learn(network, optimizer, steps, advantages(network, steps, states))
    curve.append(game_of(network, env))
    if (update + 1) % 5 == 0:
      print(f"ppo, after {update + 1} updates: {curve[-1]:.3f}")
  if args.plot:
    plot(args.plot, curve, others)
  env.close()


if __name__ == "__main__":
  main()
