"""Contracts as checks: for learners, streams and data formats, inside this package and outside of it.

A check is a function without arguments that raises if the contract is broken. In a test suite::

    @pytest.mark.parametrize("check", hpn.testing.learner_checks(MyLearner), ids=str)
    def test_my_learner(check):
        check()

Pytest is not needed to run them: ``hpn.testing.check_learner(MyLearner)`` and ``hpn check my_module:MyLearner``
return and print one verdict per check.
"""

from hpn.testing.formats import check_format, format_checks
from hpn.testing.learners import check_learner, learner_checks
from hpn.testing.streams import check_stream, stream_checks
from hpn.testing.suite import Check, ContractError, Verdict

__all__ = [
    "Check",
    "ContractError",
    "Verdict",
    "check_format",
    "check_learner",
    "check_stream",
    "format_checks",
    "learner_checks",
    "stream_checks",
]
