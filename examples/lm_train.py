"""A small transformer in flax learns to write a licence, character by character: 200 steps of optax.

    JAX_PLATFORMS=hilo python lm_train.py [TEXT]

The text is this repository's LICENSE, or any other that is named.
"""
import pathlib
import sys
import time

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

LENGTH, BATCH, WIDTH, HEADS, LAYERS, STEPS = 64, 16, 64, 4, 2, 200
LICENSE = pathlib.Path(__file__).resolve().parent.parent / "LICENSE"


class Block(nn.Module):
    @nn.compact
    def __call__(self, x, mask):
        y = nn.LayerNorm()(x)
        x = x + nn.MultiHeadDotProductAttention(HEADS)(y, y, mask=mask)
        y = nn.LayerNorm()(x)
        return x + nn.Dense(WIDTH)(nn.gelu(nn.Dense(4 * WIDTH)(y)))


class Model(nn.Module):
    symbols: int

    @nn.compact
    def __call__(self, text):
        place = self.param("place", nn.initializers.normal(0.02), (LENGTH, WIDTH))
        x = nn.Embed(self.symbols, WIDTH)(text) + place[:text.shape[1]]
        mask = nn.make_causal_mask(text)
        for _ in range(LAYERS):
            x = Block()(x, mask)
        return nn.Dense(self.symbols)(nn.LayerNorm()(x))


def loss_of(params, model, text):
    logits = model.apply(params, text[:, :-1])
    return optax.softmax_cross_entropy_with_integer_labels(logits, text[:, 1:]).mean()


def make_step(model, optimizer):
    @jax.jit
    def step(params, state, text):
        loss, grads = jax.value_and_grad(loss_of)(params, model, text)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, loss
    return step


def continued(params, model, start, n):
    """The likeliest n characters after `start`, one at a time, inside one compiled loop."""
    def write(k, text):
        window = jax.lax.dynamic_slice(text, (k - LENGTH,), (LENGTH,))
        symbol = model.apply(params, window[None])[0, -1].argmax()
        return text.at[k].set(symbol)
    text = jnp.concatenate([start, jnp.zeros(n, start.dtype)])
    return jax.jit(lambda text: jax.lax.fori_loop(LENGTH, LENGTH + n, write, text))(text)[LENGTH:]


def main():
    corpus = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else LICENSE).read_text()
    symbols = sorted(set(corpus))
    number = {c: k for k, c in enumerate(symbols)}
    data = np.array([number[c] for c in corpus], np.int32)
    random = np.random.default_rng(0)
    model = Model(len(symbols))
    params = model.init(jax.random.key(0), jnp.zeros((1, LENGTH), jnp.int32))
    optimizer = optax.adamw(optax.warmup_cosine_decay_schedule(0, 6e-3, 20, STEPS))
    state = optimizer.init(params)
    step = make_step(model, optimizer)
    print(f"{len(corpus):,} characters, {len(symbols)} different; "
          f"{sum(p.size for p in jax.tree.leaves(params)):,} parameters")

    begin = time.time()
    for k in range(STEPS):
        at = random.integers(0, len(data) - LENGTH - 1, BATCH)
        text = np.stack([data[a:a + LENGTH + 1] for a in at])
        params, state, loss = step(params, state, text)
        if k % 40 == 0 or k == STEPS - 1:
            print(f"step {k:3}  loss {loss:.2f}")
    print(f"{STEPS} steps in {time.time() - begin:.1f} s", file=sys.stderr)

    start = data[1000:1000 + LENGTH]
    written = continued(params, model, jnp.asarray(start), 60)
    text = lambda numbers: " ".join("".join(symbols[k] for k in numbers).split())
    print(f"after '...{text(start[-24:])}' comes '{text(np.asarray(written))}'")


if __name__ == "__main__":
    main()
