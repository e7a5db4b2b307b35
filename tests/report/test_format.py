from dataclasses import replace

import pytest

from hpn.metrics import Summary
from hpn.report.format import clean, count, decimal, quantity, spread


def test_unprintable_characters_are_replaced():
    assert clean("\x00\x1b\ud800\uffff\tend") == "\ufffd" * 4 + "\tend"


@pytest.mark.parametrize("value", [None, float("nan")])
def test_absent_numbers_are_a_dash(value):
    assert decimal(value) == quantity(value) == count(value) == "–"


def test_a_value_that_rounds_to_zero_has_no_sign():
    assert decimal(-0.04, signed=True) == "0.0"


def test_spread_keeps_the_sign_of_forgetting():
    forgetting = Summary(-33.08, 1.5, [-34.0, -32.0])
    assert spread(forgetting, signed=True) == "−33.1 ± 1.5"
    assert spread(replace(forgetting, mean=2.0), signed=True) == "+2.0 ± 1.5"
