"""Views of how a learner represents the test nodes: a picture in the plane, and how well classes separate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hpn.errors import ConfigError
from hpn.experiment.run.config import RunConfig
from hpn.experiment.run.folder import VIEWS, read_json, write_json
from hpn.experiment.run.result import View, Views
from hpn.learners import LEARNERS, Learner
from hpn.streams import Stream

# Nodes in one view; of more, every task contributes an equal share, the same nodes in every view.
MAX_NODES = 600
NUM_NEIGHBORS = 10
PERPLEXITY = 30.0


def check_views(config: RunConfig) -> None:
    """Refuse a run that has no views."""
    if config.learner.represent is Learner.represent:
        able = [name for name, kind in LEARNERS.items() if kind.represent is not Learner.represent]
        raise ConfigError(f"{config.method} has no representations to view; use {' or '.join(able)}")
    if config.evaluate != "oracle":
        raise ConfigError(f"views need the task of each node, which evaluate {config.evaluate!r} does not give")


def make_view(learner: Learner, stream: Stream, after: int) -> View:
    """The test nodes of the tasks up to ``after``, which the learner has just learned."""
    rows, labels = [], []
    for task in range(after + 1):
        query, key = stream.query(step=task, after=after, evaluate="oracle")
        represented = learner.represent(query)
        assert represented is not None  # noqa: S101  (check_views has made sure)
        share = np.random.default_rng((learner.seed, task)).permutation(len(key.y))
        share = np.sort(share[: MAX_NODES // len(stream)])
        rows.append(represented.numpy()[share])
        labels.append(key.y.numpy()[share])
    # Columns that a task with fewer classes lacks are 0, which is neutral.
    widest = max(part.shape[1] for part in rows)
    rows = [np.pad(part, ((0, 0), (0, widest - part.shape[1]))) for part in rows]
    x, y = np.concatenate(rows).astype(np.float64), np.concatenate(labels)
    from sklearn.metrics import silhouette_score

    return View(
        after=after,
        points=[(round(float(a), 2), round(float(b), 2)) for a, b in draw_tsne(x, learner.seed)],
        classes=y.tolist(),
        silhouette=float(silhouette_score(x, y)),
        neighbors=_among_own(x, y),
        neighbors_within=float(np.mean([_among_own(*own) for own in zip(rows, labels, strict=True)])),
    )


def combine_views(folder: Path, seeds: Sequence[int]) -> None:
    """Write the views of all seeds of a run into one file beside its result."""
    made = [read_json(folder / f"seed-{seed}" / VIEWS) for seed in seeds]
    views = Views.model_validate({"seeds": list(seeds), "views": made})
    write_json(folder / VIEWS, views.model_dump(mode="json"))


def draw_tsne(x: np.ndarray, seed: int) -> np.ndarray:
    """t-SNE to two dimensions, starting from the principal components."""
    from sklearn.manifold import TSNE

    distinct, place = np.unique(x, axis=0, return_inverse=True)
    if len(distinct) < 5:  # too few for neighbourhoods
        return np.stack([place.reshape(-1), np.zeros(len(x))], axis=1)
    perplexity = min(PERPLEXITY, (len(x) - 1) / 3)
    jitter = np.random.default_rng(seed).normal(scale=1e-4 * x.std(), size=x.shape)  # or many are one point
    start = "pca" if min(x.shape) > 1 else "random"
    drawn = TSNE(perplexity=perplexity, init=start, random_state=seed, n_jobs=1).fit_transform(x + jitter)
    return np.asarray(drawn)


def _among_own(x: np.ndarray, y: np.ndarray) -> float:
    """Percentage of the nodes whose nearest neighbours are mostly of their own class."""
    from sklearn.neighbors import NearestNeighbors

    num = min(NUM_NEIGHBORS, len(y) - 1)
    near = NearestNeighbors(n_neighbors=num).fit(x).kneighbors(return_distance=False)
    return float(100 * ((y[near] == y[:, None]).mean(axis=1) > 0.5).mean())
