"""Configuration of the documentation site; ``make docs`` builds it into ``docs/_build/html``."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent / "src")]

import hpn  # noqa: E402  (found on the path above)

project = "hpn"
author = "the hpn developers"
version = release = hpn.__version__

extensions = [
    "charts",
    "generated",
    "mathml",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_build", "_ext", "scripts", "images"]

myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "deflist", "dollarmath", "linkify", "tasklist"]
myst_heading_anchors = 4
myst_linkify_fuzzy_links = False
highlight_language = "text"
nitpicky = True
strip_signature_backslash = True  # names of learned attributes end in an underscore
suppress_warnings = ["ref.python"]  # a short name in Raises may be that of several classes

autodoc_class_signature = "mixed"
autodoc_inherit_docstrings = False
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
napoleon_custom_sections = ["Shapes"]
napoleon_use_ivar = True
napoleon_use_rtype = False
default_role = "code"
html_math_renderer = "mathml"

html_theme = "furo"
html_title = "hpn"
html_show_copyright = False
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
copybutton_exclude = ".linenos, .gp, .go"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
