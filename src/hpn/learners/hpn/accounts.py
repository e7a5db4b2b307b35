"""What a prototype network keeps, and the most that it could come to keep."""

from __future__ import annotations

from dataclasses import replace

from hpn.learners.hpn.presets import HPN, PRESETS, Settings
from hpn.nn.network import PrototypeNetwork, Selection
from hpn.nn.prototypes import PrototypeBook
from hpn.theory.memory import LEVELS, MemoryBound


class HPNAccounts(HPN):
    """A learner with a prototype network, as far as its size goes."""

    network_: PrototypeNetwork
    selections_: list[Selection]

    def settings(self) -> Settings:
        """Every hyper-parameter: as given, else as the preset has it."""
        usual = PRESETS["large" if self.preset == "large" else "paper"]
        return replace(usual, **self.given_params(Settings))

    @property
    def codebooks(self) -> dict[str, PrototypeBook]:
        """The prototypes of each level in use, which :func:`hpn.check_run` looks at."""
        return dict(zip(LEVELS, self.network_.books_in_use, strict=False))

    @property
    def prototype_counts(self) -> dict[str, int]:
        """Prototypes of each level."""
        counts = (len(book) for book in self.network_.books)
        return dict(zip(LEVELS[: len(self.network_.levels)], counts, strict=False))

    @property
    def prototype_bounds(self) -> dict[str, int]:
        """The most prototypes of each level that any stream could lead to (Theorem 1)."""
        most = self.memory_bound.prototypes
        return {level: most[level] for level in LEVELS[: len(self.settings().levels)]}

    @property
    def memory_bound(self) -> MemoryBound:
        """Theorem 1 for these hyper-parameters; before the first task, without the extractors."""
        s = self.settings()
        thresholds = (s.threshold_atomic, s.threshold_node, s.threshold_class)
        return MemoryBound(s.dim, thresholds, s.num_extractors, getattr(self, "num_features_", 0))

    @property
    def num_parameters(self) -> int:
        """Extractors in use, prototypes, and the shared layers."""
        s = self.settings()
        num_extractors = sum(len(used) for used in self._used())
        vectors = num_extractors * self.num_features_ + sum(self.prototype_counts.values())
        return vectors * s.dim + sum(layer.numel() for layer in self.network_.shared_parameters.values())

    @property
    def parameter_bound(self) -> int:
        """Every extractor, as many prototypes as fit, and the shared layers (with the head as it is)."""
        s = self.settings()
        vectors = 2 * s.num_extractors * self.num_features_ + sum(self.prototype_bounds.values())
        return vectors * s.dim + sum(layer.numel() for layer in self.network_.shared_parameters.values())

    @property
    def num_stored(self) -> int:
        """What must be kept between tasks; extractors that no task uses yet are what the seed draws."""
        s = self.settings()
        num_unused = 2 * s.num_extractors - sum(len(used) for used in self._used())
        return super().num_stored - num_unused * self.num_features_ * s.dim

    def _used(self) -> tuple[set[int], set[int]]:
        """Node and structure extractors that a task uses."""
        node = {number for selection in self.selections_ for number in selection.node}
        return node, {number for selection in self.selections_ for number in selection.structure}
