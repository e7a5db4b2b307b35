import base64
import hashlib
import re

from hpn.report.style import page_css


def test_policy_names_the_hashes_of_what_the_page_holds(make_result, render):
    text = render([make_result()])
    for element in ("style", "script"):
        (body,) = re.findall(f"<{element}>(.*?)</{element}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{element}-src &#x27;sha256-{digest}&#x27;" in text
    assert " style=" not in text, "the policy would drop it"


def test_style_sheet_is_whole():
    css = page_css()
    assert css.count("{") == css.count("}")
    assert not re.search(r"@(?!media|page)", css), "a placeholder was left"
    assert "<" not in css
    for medium in ("print", "prefers-color-scheme:dark", "max-width"):
        assert medium in css
