from hpn.report.results import differing, setting_key, variant_names


def test_equal_numbers_do_not_differ_and_a_flag_is_no_number():
    assert differing([{"a": 1, "b": True}, {"a": 1.0, "b": 1}]) == ["b"]


def test_what_one_lacks_differs():
    assert differing([{"a": 1}, {"a": 1, "b": 2}, {}]) == ["a", "b"]
    assert variant_names([{"a": 1}, {}]) == ["a 1", "a –"]


def test_values_of_any_kind_can_differ():
    settings = [{"a": [1, 2], "b": {"x": 1}}, {"a": [1, 3], "b": {"x": 1}}]
    assert differing(settings) == ["a"]
    assert variant_names(settings) == ["a [1, 2]", "a [1, 3]"]


def test_too_many_differences_are_no_name():
    one, two = (dict.fromkeys("abcd", value) for value in (1, 2))
    assert variant_names([one, two]) == ["", ""]
    assert variant_names([one]) == [""]


def test_settings_agree_but_for_what_is_left_out():
    one, two = {"a": 1, "b": 2}, {"b": 2.0, "a": 5}
    assert setting_key(one, without=("a",)) == setting_key(two, without=("a",))
    assert setting_key(one, without=("b",)) != setting_key(two, without=("b",))
