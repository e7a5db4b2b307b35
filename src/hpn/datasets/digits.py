"""Handwritten digits as a graph: the default data set, nothing to download."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from pydantic import Field

from hpn.datasets.graph import Graph

MAX_INTENSITY = 16.0


def load_digits(*, neighbors: Annotated[int, Field(ge=1, le=100)] = 6) -> Graph:
    """Scikit-learn's 1,797 images of 8 × 8 pixels, each linked to its nearest images.

    The graph is built from the pixels alone, never from labels. The default number of neighbours was
    chosen on validation nodes (``python docs/scripts/choose_digits_neighbors.py``).

    Args:
        neighbors: Number of nearest images, by Euclidean distance, that each image is linked to.
    """
    images, labels = _read_images()
    nearest = torch.from_numpy(_nearest(images, neighbors))
    source = torch.arange(len(images)).repeat_interleave(neighbors)
    return Graph.build(
        "digits",
        x=torch.from_numpy(images / MAX_INTENSITY).float(),
        links=torch.stack([source, nearest.flatten()]),
        y=torch.from_numpy(labels),
        class_order=range(10),
    )


def _read_images() -> tuple[np.ndarray, np.ndarray]:
    """Images and labels from the file in scikit-learn's package, whose import takes longer than a run."""
    package = find_spec("sklearn")
    file = Path(str(package.origin if package else "")).parent / "datasets" / "data" / "digits.csv.gz"
    if not file.is_file():  # another version may store it elsewhere
        from sklearn import datasets

        images, labels = datasets.load_digits(return_X_y=True)
        return images, labels
    table = np.loadtxt(file, delimiter=",")
    return table[:, :-1], table[:, -1].astype(np.int64)


def _nearest(images: np.ndarray, count: int) -> np.ndarray:
    """The ``count`` nearest other images of each; of equally near ones, those that come first.

    Intensities are whole numbers, so squared distances are exact, and the same on every machine.
    """
    squares = (images**2).sum(axis=1)
    distances = (squares[:, None] + squares - 2 * images @ images.T).astype(np.int64)
    np.fill_diagonal(distances, distances.max() + 1)
    ranks = distances * len(images) + np.arange(len(images))  # no two in a row are equal
    return np.sort(np.argpartition(ranks, count, axis=1)[:, :count], axis=1)
