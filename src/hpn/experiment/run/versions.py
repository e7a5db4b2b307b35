"""Versions of the packages that numbers depend on."""

from __future__ import annotations

import platform
from importlib.metadata import version

PACKAGES = ("hpn", "torch", "torch_geometric", "numpy", "scipy", "scikit-learn")


def installed_versions() -> dict[str, str]:
    """Versions of Python and of the packages that numbers depend on."""
    import hpn

    found = {name: hpn.__version__ if name == "hpn" else version(name) for name in PACKAGES}
    return {"python": platform.python_version(), **found}
