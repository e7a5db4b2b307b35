"""What can be proved: bounds on the number of prototypes."""

from hpn.theory.spherical_codes import max_code_size

__all__ = ["max_code_size"]
