"""Parts of the reference that are written from the code at build time.

A page asks for one with a fence such as ``{generated} commands``; the fence is replaced by Markdown before
the page is parsed, so that headings of the part are headings of the page.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from html import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import typer
from docutils import nodes
from sphinx.domains.python import PyObject
from sphinx.errors import ExtensionError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

import hpn
from hpn.cli.app import app as typer_app
from hpn.datasets import CATALOG
from hpn.learners import LEARNERS
from hpn.metrics import METRICS
from hpn.params import declared_params, read_meanings

if TYPE_CHECKING:
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

SHORT_NAME = re.compile(r"(?<=^\| )(?=.{1,18} \|)[\w·()-]+( [\w·()-]+)+(?= \|)", re.MULTILINE)
PART = re.compile(r"^```\{generated\} (\w+)(.*)\n```$", re.MULTILINE)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[str] = ()) -> str:
    """A Markdown table; the columns of numbers are aligned to the right."""
    rule = ["--:" if head in numbers else "---" for head in heads]
    lines = [heads, rule, *([cell.replace("|", r"\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


# --- The command line ---------------------------------------------------------------------------------------------


def commands() -> str:
    """Every command, its help, its arguments and its options."""
    root = typer.main.get_command(typer_app)
    context = typer.Context(root, info_name="hpn", **root.context_settings)
    known = list(walk(root, context))
    rows = [[f"[`{name}`](#{anchor(name)})", first_sentence(command.help or "")] for name, command, _ in known]
    parts = [table(["command", "what it does"], rows)]
    for name, command, inner in known:
        parts += [f"({anchor(name)})=\n## `{name}`", *describe_command(name, command, inner)]
    return "\n\n".join(parts)


def walk(group: Any, context: Any) -> Iterator[tuple[str, Any, Any]]:
    """The commands in the order of ``--help``, those of a group after it."""
    for name, command in group.commands.items():
        inner = typer.Context(command, info_name=name, parent=context)
        yield inner.command_path, command, inner
        if hasattr(command, "commands"):
            yield from walk(command, inner)


def describe_command(name: str, command: Any, context: Any) -> Iterator[str]:
    """The usage line, the help and the tables of a command."""
    yield f"```text\n{name} {' '.join(usage(command, context))}\n```"
    yield markdown(command.help or "")
    kinds: dict[str, list[list[str]]] = {"argument": [], "option": []}
    for param in command.get_params(context):
        if getattr(param, "hidden", False) or param.name == "help":
            continue
        metavar = "" if getattr(param, "is_flag", False) else param.metavar or param.name.upper()
        label = metavar if is_argument(param) else " ".join([", ".join(param.opts), metavar]).strip()
        default = "required" if param.required else default_text(param)
        about = markdown(param.help or "")
        if getattr(param, "multiple", False) and "several times" not in about:
            about += " May be given several times."
        kinds[param.param_type_name].append([f"`{label}`", default, about])
    for kind, rows in kinds.items():
        if rows:
            yield table([kind, "default", "meaning"], rows)


def usage(command: Any, context: Any) -> Iterator[str]:
    """The words after the name of a command."""
    params = command.get_params(context)
    yield "[OPTIONS]"
    yield from (f"{param.opts[0]} {param.metavar}" for param in params if param.required and not is_argument(param))
    for param in filter(is_argument, params):
        word = f"{param.metavar or param.name.upper()}{'...' if param.nargs == -1 else ''}"
        yield word if param.required else f"[{word}]"
    if hasattr(command, "commands"):
        yield "COMMAND"


def is_argument(param: Any) -> bool:
    """Whether a parameter is given by its position."""
    return bool(param.param_type_name == "argument")


def default_text(param: Any) -> str:
    """The default of an option as it would be typed."""
    default = param.default
    if callable(default) or default in (None, False, "", ()) or str(default) == "Sentinel.UNSET":
        return ""
    return f"`{' '.join(map(str, default)) if isinstance(default, (list, tuple)) else default}`"


# --- Metrics ------------------------------------------------------------------------------------------------------


def metrics() -> str:
    """Every metric of the registry: how to read it, and its formula."""
    rows = [
        [
            f"[{metric.label}](#metric-{name})",
            f"`{name}`",
            metric.unit,
            "higher" if metric.higher_is_better else "lower",
            metric.definition,
        ]
        for name, metric in METRICS.items()
    ]
    parts = [table(["metric", "field", "unit", "better", "definition"], rows)]
    for name, metric in METRICS.items():
        home = metric.function.__module__
        parts += [f"(metric-{name})=\n## {metric.label}", f"```{{eval-rst}}\n.. autofunction:: {home}.{name}\n```"]
    return "\n\n".join(parts)


# --- Hyper-parameters ---------------------------------------------------------------------------------------------


def hyperparameters() -> str:
    """Every learner with its hyper-parameters: default, allowed values and meaning."""
    parts = []
    for name, learner, params in learners():
        meanings = read_meanings(learner)
        rows = [
            [f"`{key}`", f"`{param.default}`", allowed(param.annotation), meanings.get(key, "")]
            for key, param in declared_params(learner).items()
            if key != "seed"
        ]
        given = f"--method {params['method']}" + "".join(
            f" --set {key}={value}" for key, value in params.items() if key != "method"
        )
        parts += [
            f"## {name}",
            f"{first_line(learner)} On the command line: `{given}`.",
            table(["name", "default", "allowed", "meaning"], rows) if rows else "It has no hyper-parameters.",
        ]
        if searched := {key: choice.describe() for key, choice in learner.search_space.items()}:
            listed = ", ".join(f"`{key}` in {space_text(choice)}" for key, choice in searched.items())
            parts.append(f"`hpn tune` searches {listed}.")
    return "\n\n".join(parts)


def learners() -> Iterator[tuple[str, Any, dict[str, str]]]:
    """The learners by name, ``hpn`` first; each preset of one that has several classes on its own."""
    for name, learner in sorted(LEARNERS.items(), key=lambda item: item[0] != "hpn"):
        presets: dict[str, Any] = getattr(learner, "variants", dict)()
        yield from (
            (f"{name}, preset {preset}", variant, {"method": name, "preset": preset})
            for preset, variant in presets.items()
        )
        if not presets:
            yield name, learner, {"method": name}


def allowed(hint: Any) -> str:
    """The values that an annotation allows, in words."""
    if hint is Any:
        return ""
    if hint is type(None):
        return "none"
    if get_origin(hint) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(hint))
    if metadata := getattr(hint, "__metadata__", None):
        limits = [limit for one in metadata for limit in limits_of(one)]
        return " ".join([allowed(get_args(hint)[0]), *[", ".join(limits)] * bool(limits)])
    if isinstance(hint, type) and not get_args(hint):
        return {"bool": "true or false", "int": "integer", "float": "number", "str": "text"}.get(
            hint.__name__, hint.__name__
        )
    if get_origin(hint) in (list, tuple, Sequence):
        return f"list of {allowed(next(part for part in get_args(hint) if part is not ...))}"
    return " or ".join(dict.fromkeys(allowed(part) for part in get_args(hint))) or str(hint)


def limits_of(one: Any) -> Iterator[str]:
    """Bounds of an ``annotated_types`` object or of a pydantic field, as comparisons."""
    for name, sign in {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}.items():
        if (value := getattr(one, name, None)) is not None:
            yield f"{sign} {value}"
    for inner in getattr(one, "metadata", ()):
        yield from limits_of(inner)


def space_text(space: Any) -> str:
    """What ``hpn tune`` tries."""
    if isinstance(space, dict):
        return f"{space['low']:g} … {space['high']:g} ({space['scale']})"
    return "{" + ", ".join(f"`{value}`" for value in space) + "}"


# --- Data sets ----------------------------------------------------------------------------------------------------


def datasets() -> str:
    """The catalog."""
    heads = ["name", "nodes", "edges", "features", "classes", "about"]
    rows = [
        [f"`{info.name}`", *(f"{value:,}" if isinstance(value, int) else str(value) for value in info.published),
         info.about]
        for info in CATALOG.values()
    ]  # fmt: skip
    return table(heads, [["–" if cell == "None" else cell for cell in row] for row in rows], heads[1:5])


# --- The folders --------------------------------------------------------------------------------------------------


def layers() -> str:
    """The diagram of the packages: the layers that import-linter enforces, the highest first."""
    project = tomllib.loads(Path(hpn.__file__).parents[2].joinpath("pyproject.toml").read_text())
    (contract,) = [one for one in project["tool"]["importlinter"]["contracts"] if one["type"] == "layers"]
    rows = []
    for layer in contract["layers"]:
        boxes = [layer_box(name.strip()) for name in re.split(r"[|:]", layer)]
        rows.append(f"<li>{''.join(boxes)}</li>")
    return "\n".join(['<ol class="layers">', *rows, "</ol>"])


def layer_box(name: str) -> str:
    """A package or module of the diagram: its name, and what its docstring says."""
    about = escape(re.sub(r":\w+:`~?([^`]*)`|``", r"\1", (inspect.getdoc(import_module(name)) or "").splitlines()[0]))
    return f"<div><code>{name.removeprefix('hpn.')}</code><span>{about}</span></div>"


# --- The Python API -----------------------------------------------------------------------------------------------


def api(module: str, *names: str) -> str:
    """The names of a module, all public ones if none are given, each by its docstring."""
    if names:
        return "\n\n".join(documented(module, name) for name in names)
    listed = public_names(module)
    rows = [[f"{{py:obj}}`{name} <{path_of(module, name)}>`", summary(module, name)] for name in listed]
    head = [f"```{{eval-rst}}\n.. py:module:: {module}\n```", table(["name", "what it is"], rows)]
    return "\n\n".join([*head, *(documented(module, name) for name in listed)])


def path_of(module: str, name: str) -> str:
    """The shortest path that people import a name from."""
    return f"hpn.{name}" if name in hpn.__all__ else f"{module}.{name}"


def summary(module: str, name: str) -> str:
    """One line on a name."""
    found = getattr(import_module(module), name)
    if inspect.isclass(found) or inspect.isroutine(found) or inspect.ismodule(found):
        return first_line(found)
    return markdown(attribute_doc(hpn._HOMES[name] if module == "hpn" else module, name))


def public_names(module: str) -> list[str]:
    """What a module exports, classes first; of ``hpn`` what no package of it has on a page of its own.

    A module without ``__all__`` exports its classes and functions, those of its own modules, and its constants.
    """
    found = import_module(module)
    own = [name for name, one in vars(found).items() if is_own(one, module) or (name.isupper() and name[0] != "_")]
    exported = [name for name in getattr(found, "__all__", own) if not name.startswith("_")]
    if module == "hpn":
        exported = [name for name in exported if name in hpn._HOMES and package_of(name) not in PACKAGES]
    if not exported:
        raise ExtensionError(f"{module} exports nothing that the reference could show")
    objects = {name: getattr(found, name) for name in exported}
    return sorted(objects, key=lambda name: (not inspect.isclass(objects[name]), not callable(objects[name])))


def is_own(found: Any, module: str) -> bool:
    """Whether a class or function is of a module or of one below it."""
    home = getattr(found, "__module__", None)
    is_code = inspect.isclass(found) or inspect.isfunction(found)
    return is_code and isinstance(home, str) and f"{home}.".startswith(f"{module}.")


PACKAGES = ("hpn.datasets", "hpn.learners", "hpn.model", "hpn.report", "hpn.streams")


def package_of(name: str) -> str:
    """The package that a name of ``hpn`` comes from."""
    return ".".join(hpn._HOMES[name].split(".")[:2])


def documented(module: str, name: str) -> str:
    """The directive that documents a name, under the shortest path that people import it from."""
    found = getattr(import_module(module), name)
    path = path_of(module, name)
    if inspect.isclass(found):
        bases = [base for base in found.__mro__[1:] if is_documented_elsewhere(base)]
        again = [
            name for base in bases for name in vars(base) if name in vars(found) and not callable(vars(found)[name])
        ]
        kind = "autoclass"
        options = ["members:", f"inherited-members: {', '.join(base.__name__ for base in bases)}"]
        options += [f"exclude-members: {', '.join(again)}"]
        if hooks := re.findall(r":meth:`(_\w+)`", inspect.getdoc(found) or ""):  # what subclasses write
            options += [f"private-members: {', '.join(hooks)}"]
        options += ["show-inheritance:"] * any(base.__module__.startswith("hpn.") for base in bases)
        if issubclass(found, BaseException):
            kind = "autoexception"
    elif inspect.isroutine(found):
        kind, options = "autofunction", []
    else:
        home = path.rpartition(".")[0]
        about = attribute_doc(module, name)
        return f"```{{eval-rst}}\n.. py:data:: {name}\n   :module: {home}\n\n   {about}\n```"
    lines = [f".. {kind}:: {path}", *(f"   :{option}" for option in options)]
    return "```{eval-rst}\n" + "\n".join(lines) + "\n```"


def is_documented_elsewhere(base: type) -> bool:
    """Whether the classes that extend a class need not repeat its members."""
    return not base.__module__.startswith("hpn.") or base.__name__ in {"Learner", "Stream"}


def exports() -> str:
    """Everything that can be imported from ``hpn`` itself, with one line on each."""
    names = [name for name in sorted(hpn.__all__, key=str.lower) if not name.startswith("__")]
    return table(["name", "what it is"], [[f"{{py:obj}}`hpn.{name}`", summary("hpn", name)] for name in names])


def attribute_doc(package: str, name: str) -> str:
    """The string below a constant or type alias, in whatever module of the package it is; else what it stands for."""
    for module in [one for key, one in sys.modules.items() if key == package or key.startswith(f"{package}.")]:
        if name in vars(module):
            found = re.search(
                rf'^{name}\b[^\n]*=(?:(?!\n\n).)*?\n"""(.*?)"""', inspect.getsource(module), re.DOTALL | re.MULTILINE
            )
            if found:
                return " ".join(found[1].split())
    return f"Alias of ``{value_text(getattr(import_module(package), name))}``."


def value_text(value: Any) -> str:
    """A type as it is written."""
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", str(value))


# --- Words --------------------------------------------------------------------------------------------------------


def anchor(text: str) -> str:
    """A label for links."""
    return re.sub(r"\W+", "-", text).strip("-")


def first_line(found: Any) -> str:
    """The first line of a docstring, in Markdown."""
    return markdown(inspect.getdoc(found) or "").splitlines()[0]


def first_sentence(text: str) -> str:
    """The first line of a help text."""
    return markdown(text).split("\n")[0]


def markdown(text: str) -> str:
    """A docstring's reStructuredText roles and literals as Markdown."""
    text = re.sub(r":\w+:`~?([^`]*)`", r"`\1`", inspect.cleandoc(text))
    return text.replace("``", "`").replace("\b\n", "").replace("\f", "")


PARTS: dict[str, Callable[..., str]] = {
    part.__name__: part for part in (api, commands, datasets, exports, hyperparameters, layers, metrics)
}


def fill_in(_app: Sphinx, _page: str, source: list[str]) -> None:
    """Replace the fences of a page by what they ask for, and keep short cells that name a row on one line."""
    source[0] = PART.sub(lambda found: PARTS[found[1]](*found[2].split()), source[0])
    source[0] = SHORT_NAME.sub(lambda found: found[0].replace(" ", "\u00a0"), source[0])


def always_anew(app: Sphinx, env: BuildEnvironment, *_changes: set[str]) -> list[str]:
    """Pages with generated parts are read at every build: the code may have changed."""
    return [page for page in env.found_docs if PART.search(Path(app.srcdir, f"{page}.md").read_text())]


# --- References ---------------------------------------------------------------------------------------------------


def resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.Element) -> nodes.Element | None:
    """Find what a reference means: an object may be documented under another path, or be of another project.

    A reference to something that exists nowhere stays unresolved, which is a warning.
    """
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"]
    for found in candidates(target, node.get("py:module") or "hpn"):
        domain: Any = env.get_domain("py")
        canonical = f"{getattr(found, '__module__', '')}.{getattr(found, '__qualname__', '')}"
        for name in (canonical, f"hpn.{target.rpartition('.')[2]}"):
            if name in domain.objects:
                kind = node["reftype"]
                return domain.resolve_xref(env, node["refdoc"], app.builder, kind, name, node, content)  # type: ignore[no-any-return]
        return content
    # Annotations may name what is imported for type checking alone.
    return content if node.get("refspecific") else None


def candidates(target: str, module: str) -> Iterator[Any]:
    """What a reference may mean: a path, a name of the module at hand, of Python, or of any module of the package."""
    known = [module, "builtins", "typing", *(name for name in sys.modules if name.startswith("hpn."))]
    for path in (target, *(f"{scope}.{target}" for scope in known)):
        if (found := find(path)) is not None:
            yield found


def find(path: str) -> Any:
    """An object by its dotted path, if there is one."""
    words = path.split(".")
    for cut in range(len(words), 0, -1):
        name = ".".join(words[:cut])
        try:
            found: Any = sys.modules.get(name) or import_module(name)
        except ImportError:
            continue
        for word in words[cut:]:
            found = getattr(found, word, None)
        return found
    return None


def without_limits(app: Sphinx, _what: str, name: str, *_more: Any) -> None:
    """Leave out of annotations what only checks values: the reference of hyper-parameters has it."""
    recorded = app.env.temp_data.get("annotations", {}).get(name, {})
    for key, hint in recorded.items():
        recorded[key] = re.sub(r"~?(?:typing\.)?Annotated\[((?:[^\[\],]|\[[^\]]*\])*), [^\]]*?\)\]", r"\1", hint)


COLON = "\ue000"


def hide_colons(_app: Sphinx, what: str, _name: str, _found: Any, _options: Any, lines: list[str]) -> None:
    """Keep napoleon from reading what precedes a colon in the docstring of an attribute as its type."""
    if what in {"attribute", "data", "property"}:
        lines[:] = [line.replace(":", COLON) for line in lines]


def show_colons(_app: Sphinx, _what: str, _name: str, _found: Any, _options: Any, lines: list[str]) -> None:
    """Undo :func:`hide_colons`."""
    lines[:] = [line.replace(COLON, ":") for line in lines]


def skip_member(_app: Sphinx, _what: str, name: str, found: Any, *_more: Any) -> bool | None:
    """Leave out methods that scikit-learn adds to every estimator, and classes that are attributes of others."""
    return True if re.fullmatch(r"set_\w+_request", name) or inspect.isclass(found) else None


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to the events of a build."""
    app.setup_extension("sphinx.ext.autodoc")
    for field in PyObject.doc_field_types:
        if field.name == "variable":
            field.label = "Attributes"
    app.connect("source-read", fill_in)
    app.connect("env-get-outdated", always_anew)
    app.connect("missing-reference", resolve)
    app.connect("autodoc-process-signature", without_limits, priority=600)
    app.connect("autodoc-skip-member", skip_member)
    app.connect("autodoc-process-docstring", hide_colons, priority=400)
    app.connect("autodoc-process-docstring", show_colons, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
