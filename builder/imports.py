"""What a source file imports and what it offers, read from its syntax tree; nothing is imported here.

Every import of the payload must be in the bundle, in the standard library, or declared as present on the
device. An import that the code can do without (`try … except ImportError`, `if TYPE_CHECKING:`) is optional.
"""

from __future__ import annotations

import ast
import functools
import sys
import warnings
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from builder.errors import RefusedHereError

STANDARD = sys.stdlib_module_names | {"__main__"}
ANYTHING = "*"  # among a module's names: they cannot be told from its text
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_CATCHES_IMPORT_ERROR = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}


@dataclass(frozen=True)
class Import:
    """One module that a statement imports; `names` are what `from module import …` takes from it.

    `optional`: the code goes on without it. `instead_of`: imported only when one of these cannot be.
    """

    module: str
    line: int
    names: tuple[str, ...] = ()
    optional: bool = False
    instead_of: tuple[Import, ...] = ()

    def __str__(self) -> str:
        return f"{', '.join(self.names)} from {self.module}" if self.names else self.module

    @property
    def top(self) -> str:
        """The name of the module or package that is looked for on the path."""
        return self.module.partition(".")[0]


@dataclass(frozen=True)
class Module:
    """A source file as the import rule sees it: its dotted name, its imports, its top-level names."""

    name: str
    shown: str
    imports: tuple[Import, ...]
    names: frozenset[str]

    def may_offer(self, name: str) -> bool:
        """Whether `name` may be had from this module."""
        return name in self.names or ANYTHING in self.names


@functools.lru_cache(maxsize=1024)  # whoever builds several kernels reads the same files again
def read_module(path: str, data: bytes, shown: str) -> Module:
    """Read the text `data` of `path` in the bundle. RefusedHereError, file and line, if it is no Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an odd escape in somebody's text is no concern of ours
            tree = ast.parse(data, shown)
            compile(tree, shown, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as problem:
        line = getattr(problem, "lineno", None) or 1
        message = getattr(problem, "msg", None) or str(problem)
        raise RefusedHereError(
            f"{shown}:{line} is not valid Python: {message}", "mend it, or leave it out"
        ) from None
    name, is_package = _module_name(path)
    scanner = _Scanner(name if is_package else name.rpartition(".")[0])
    scanner.visit(tree)
    names = frozenset(_names(tree, is_package)) | scanner.globals
    return Module(name, shown, tuple(scanner.found), names)


def _module_name(path: str) -> tuple[str, bool]:
    """`a/b.py` → `a.b`; `a/__init__.py` → `a`, and that it is a package."""
    name = path.removesuffix(".py").replace("/", ".")
    return name.removesuffix(".__init__"), name.endswith(".__init__")


def _names(tree: ast.Module, is_package: bool) -> Iterator[str]:
    for node in _top_level(tree):
        match node:
            case ast.FunctionDef(name="__getattr__"):
                yield ANYTHING
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.Name(ctx=ast.Store()):
                yield node.id
            case ast.ImportFrom(level=1, module=None) if is_package:
                pass  # its own submodules: asking for them does not make them
            case ast.Import() | ast.ImportFrom():
                yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
            case ast.Call(func=ast.Name(id="globals" | "vars" | "exec")):
                yield ANYTHING


def _top_level(node: ast.AST) -> Iterator[ast.AST]:
    """Every node that runs at import: not the bodies of functions and classes."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, _SCOPES):
            yield from _top_level(child)


class _Scanner(ast.NodeVisitor):
    """Collects imports in order, with what makes them optional, and what functions declare global."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.found: list[Import] = []
        self.globals: set[str] = set()
        self.optional = False
        self.instead_of: tuple[Import, ...] = ()

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add(alias.name, node.lineno)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        names = tuple(alias.name for alias in node.names if alias.name != "*")
        self._add(self._absolute(node), node.lineno, names)

    def visit_Call(self, node: ast.Call) -> None:
        match node:
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(module)), *_],
            ) if not module.startswith("."):
                self._add(module, node.lineno)
        self.generic_visit(node)

    def visit_Global(self, node: ast.Global) -> None:
        self.globals |= set(node.names)

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        self._all(node.body, optional=_is_never_true_there(node.test))
        self._all(node.orelse)

    def visit_With(self, node: ast.With) -> None:
        suppressed = [arg for item in node.items for arg in _suppressed(item.context_expr)]
        self._all(node.items)
        self._all(node.body, optional=any(map(_catches, suppressed)))

    def visit_Try(self, node: ast.Try) -> None:
        guards = [handler for handler in node.handlers if _catches(handler.type)]
        before = len(self.found)
        self._all(node.body, optional=bool(guards))
        tried = tuple(self.found[before:])
        for handler in node.handlers:
            self._all(handler.body, instead_of=tried if handler in guards else ())
        self._all([*node.orelse, *node.finalbody])

    def _all(
        self, nodes: Iterable[ast.AST], optional: bool = False, instead_of: tuple[Import, ...] = ()
    ) -> None:
        outer = self.optional, self.instead_of
        self.optional, self.instead_of = self.optional or optional, self.instead_of + instead_of
        for node in nodes:
            self.visit(node)
        self.optional, self.instead_of = outer

    def _add(self, module: str, line: int, names: tuple[str, ...] = ()) -> None:
        self.found.append(Import(module, line, names, self.optional, self.instead_of))

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.package.split(".") if self.package else []
        if node.level > len(parts):  # leads out of the package: no module has such a name
            return "." * node.level + (node.module or "")
        kept = parts[: len(parts) - node.level + 1]
        return ".".join([*kept, *filter(None, [node.module])])


def _is_never_true_there(test: ast.expr) -> bool:
    match test:
        case ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"):
            return True
        case ast.Compare(left=ast.Name(id="__name__"), comparators=[ast.Constant(value="__main__")]):
            return True
    return False


def _suppressed(expression: ast.expr) -> list[ast.expr]:
    match expression:
        case ast.Call(func=ast.Name(id="suppress") | ast.Attribute(attr="suppress")):
            return expression.args
    return []


def _catches(kind: ast.expr | None) -> bool:
    match kind:
        case None:
            return True
        case ast.Tuple():
            return any(map(_catches, kind.elts))
        case ast.Name():
            return kind.id in _CATCHES_IMPORT_ERROR
    return False


class ImportRule:
    """Tells which imports of the bundle's modules the device cannot meet."""

    def __init__(self, modules: Collection[Module], present: Collection[str]) -> None:
        """`present` are the top-level names that the device has, the standard library among them."""
        self.modules = {module.name: module for module in modules}
        self.present = present
        parents = (name.split(".")[:n] for name in self.modules for n in range(1, name.count(".") + 2))
        self.known = {".".join(parts) for parts in parents}

    def unmet(self) -> list[tuple[Module, Import]]:
        """Return what cannot be met, with the module that asks for it."""
        return [
            (module, wanted)
            for module in self.modules.values()
            for wanted in module.imports
            if not self._excused(wanted) and not self._is_met(wanted)
        ]

    def _excused(self, wanted: Import) -> bool:
        return wanted.optional or (bool(wanted.instead_of) and all(map(self._is_met, wanted.instead_of)))

    def _is_met(self, wanted: Import) -> bool:
        if wanted.top not in self.known:
            return wanted.top in self.present
        return wanted.module in self.known and all(self._offers(wanted.module, name) for name in wanted.names)

    def _offers(self, module: str, name: str) -> bool:
        source = self.modules.get(module)
        return f"{module}.{name}" in self.known or (source is not None and source.may_offer(name))
