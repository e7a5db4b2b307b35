"""Getting a learner back from a run folder, to predict with it."""

from __future__ import annotations

from pathlib import Path

from hpn.errors import CheckpointError, ConfigError, RunFolderError
from hpn.experiment.run.checkpoint import load_checkpoint
from hpn.experiment.run.folder import read_config
from hpn.learners import Learner
from hpn.learners.finding import find_learner


def load_learner(run: Path | str, seed: int = 0, *, learner: type[Learner] | None = None) -> Learner:
    """Load a learner as a run left it.

    Args:
        run: A run folder, finished or not.
        seed: Which of its seeds.
        learner: The class of a learner of your own, if it cannot be imported by the name in the run folder.

    Raises:
        RunFolderError: If there is no such run or seed, or its learner cannot be imported.
        CheckpointError: If its checkpoint is damaged or of a newer version.
    """
    folder = Path(run)
    config = read_config(folder)
    saved = load_checkpoint(folder / f"seed-{seed}")
    if saved is None:
        raise RunFolderError(f"{folder} has no checkpoint of seed {seed}")
    try:
        kind = learner or find_learner(config["method"])[1]
    except ConfigError as error:
        raise RunFolderError(
            f"{folder}: {error}; load it where its module can be imported, or give its class with learner="
        ) from error
    try:
        return kind(seed=seed, **config["params"]).load_state_dict(saved["learner"])
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise CheckpointError(
            f"the checkpoint of seed {seed} in {folder} does not fit this version of {config['method']} "
            f"({error!r}); run its command again with --fresh"
        ) from error
