"""A train step of RoBERTa, a masked language model, by pmap on every device there is.

    JAX_PLATFORMS=hilo python roberta_pmap.py                              # one device
    JAX_PLATFORMS=hilo JAX_NUM_CPU_DEVICES=8 python roberta_pmap.py        # eight

The model (2 layers of width 128, 4 heads) is small and its weights are random; it is written out here in plain JAX, so that
nothing but JAX and optax is needed. Each device has four rows of text, and takes its own dropout; gradients are averaged.
"""
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax

VOCABULARY, WIDTH, LAYERS, HEADS, LENGTH, ROWS = 1000, 128, 2, 4, 128, 4
DROPOUT, PAD = 0.1, 1


def dense(key, n, m):
    return {"kernel": 0.02 * jax.random.normal(key, (n, m)), "bias": jnp.zeros(m)}


def make_layer(key):
    keys = jax.random.split(key, 6)
    norm = {"scale": jnp.ones(WIDTH), "bias": jnp.zeros(WIDTH)}
    attention = {name: dense(k, WIDTH, WIDTH) for name, k in zip(("query", "key", "value", "out"), keys)}
    return {"attention": attention, "attention_norm": norm, "up": dense(keys[4], WIDTH, 4 * WIDTH),
            "down": dense(keys[5], 4 * WIDTH, WIDTH), "down_norm": norm}


def make_params(key):
    words, places, head, *layers = jax.random.split(key, 3 + LAYERS)
    norm = {"scale": jnp.ones(WIDTH), "bias": jnp.zeros(WIDTH)}
    return {"words": 0.02 * jax.random.normal(words, (VOCABULARY, WIDTH)),
            "places": 0.02 * jax.random.normal(places, (LENGTH + PAD + 1, WIDTH)),
            "norm": norm, "layers": [make_layer(k) for k in layers],
            "head": dense(head, WIDTH, WIDTH), "head_norm": norm, "head_bias": jnp.zeros(VOCABULARY)}


def apply(p, x):
    return x @ p["kernel"] + p["bias"]


def layer_norm(p, x):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * p["scale"] + p["bias"]


def dropout(key, x):
    return jnp.where(jax.random.bernoulli(key, 1 - DROPOUT, x.shape), x / (1 - DROPOUT), 0)


def attend(p, x, mask, key):
    split = lambda a: a.reshape(*a.shape[:-1], HEADS, WIDTH // HEADS)
    q, k, v = (split(apply(p[name], x)) for name in ("query", "key", "value"))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / (WIDTH // HEADS) ** 0.5
    weights = dropout(key, jax.nn.softmax(jnp.where(mask[:, None, None], scores, -1e9)))
    return apply(p["out"], jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape))


def roberta(params, ids, mask, key):
    place = jnp.cumsum(mask, axis=1) * mask + PAD  # RoBERTa counts from behind the padding
    keys = iter(jax.random.split(key, 1 + 3 * LAYERS))
    x = params["words"][ids] + params["places"][place]
    x = dropout(next(keys), layer_norm(params["norm"], x))
    for p in params["layers"]:
        x = layer_norm(p["attention_norm"], x + dropout(next(keys), attend(p["attention"], x, mask, next(keys))))
        hidden = jax.nn.gelu(apply(p["up"], x), approximate=False)
        x = layer_norm(p["down_norm"], x + dropout(next(keys), apply(p["down"], hidden)))
    x = layer_norm(params["head_norm"], jax.nn.gelu(apply(params["head"], x), approximate=False))
    return x @ params["words"].T + params["head_bias"]


OPTIMIZER = optax.adamw(5e-5, b1=0.9, b2=0.98, eps=1e-8, weight_decay=0.01)


@functools.partial(jax.pmap, axis_name="batch")
def train_step(params, state, batch, key):
    key, new_key = jax.random.split(key)

    def loss_of(params):
        logits = roberta(params, batch["ids"], batch["mask"], key)
        asked = batch["labels"] > 0
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, batch["labels"])
        return (losses * asked).sum() / asked.sum()

    loss, grads = jax.value_and_grad(loss_of)(params)
    grads = jax.lax.pmean(grads, "batch")
    updates, state = OPTIMIZER.update(grads, state, params)
    return optax.apply_updates(params, updates), state, jax.lax.pmean(loss, "batch"), new_key


def make_batch(n):
    random = np.random.default_rng(0)
    ids = random.integers(5, VOCABULARY, (n * ROWS, LENGTH)).astype(np.int32)
    labels = np.where(random.random(ids.shape) < 0.15, ids, -100).astype(np.int32)
    batch = {"ids": ids, "mask": np.ones_like(ids), "labels": labels}
    return {name: a.reshape(n, ROWS, LENGTH) for name, a in batch.items()}


def main():
    n = jax.local_device_count()
    params = make_params(jax.random.key(0))
    print(f"{sum(p.size for p in jax.tree.leaves(params)):,} parameters on each of {n} device{'s' * (n > 1)}")
    everywhere = lambda tree: jax.tree.map(lambda a: jnp.broadcast_to(a, (n, *a.shape)), tree)
    params, state = everywhere(params), everywhere(OPTIMIZER.init(params))
    keys, batch = jax.random.split(jax.random.key(0), n), make_batch(n)
    for k in range(3):
        params, state, loss, keys = train_step(params, state, batch, keys)
        print(f"step {k}  loss", *(f"{v:.4f}" for v in loss))


if __name__ == "__main__":
    main()
