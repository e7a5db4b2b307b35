from hpn.report.wording import setting


def test_setting_names_what_a_group_shares(make_result, make_time_result):
    shared = ["class-incremental", "global evaluation", "edges: within", "3 tasks"]
    assert setting(make_result()) == shared
    assert setting(make_result(scenario="domain"))[0] == "domain"
    assert setting(make_time_result())[-2:] == ["stream: time", "3 steps"]
