"""``python -m hpn`` is ``hpn``."""

from hpn.cli import main

if __name__ == "__main__":
    main()
