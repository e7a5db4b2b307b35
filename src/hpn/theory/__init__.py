"""What can be proved: bounds on the number of prototypes, and conditions for retention."""

from hpn.theory.memory import MemoryBound, choose
from hpn.theory.spherical_codes import CodeBound, max_code_size, upper_bounds

__all__ = ["CodeBound", "MemoryBound", "choose", "max_code_size", "upper_bounds"]
