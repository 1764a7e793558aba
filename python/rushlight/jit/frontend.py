"""Source of what is scripted, and errors that show it: the line, marked below, and those around it."""
import __future__
import ast
import inspect
import linecache
import textwrap


class FrontendError(Exception):
    """What is scripted is not in the language. `source_range` says where."""

    def __init__(self, source_range, msg):
        super().__init__(msg)
        self.source_range, self.msg = source_range, msg

    def __str__(self):
        return f"{self.msg}:\n{self.source_range.highlight()}"


class NotSupportedError(FrontendError):
    """A construct of Python that the language does not have."""


class UnsupportedNodeError(NotSupportedError):
    """A statement or expression that the language does not have."""

    def __init__(self, source_range, node, reason=""):
        super().__init__(source_range, reason or f"{_KINDS.get(type(node), type(node).__name__)} aren't supported")


class FrontendTypeError(FrontendError):
    """An annotation that the language does not have."""


_KINDS = {ast.Try: "try blocks", ast.Import: "import statements", ast.ImportFrom: "import statements", ast.ClassDef: "class definitions",
          ast.FunctionDef: "function definitions", ast.AsyncFunctionDef: "async function definitions", ast.Global: "global variables",
          ast.Nonlocal: "nonlocal variables", ast.NamedExpr: "NamedExpr", ast.GeneratorExp: "GeneratorExp", ast.Match: "Match"}


class Range:
    """A part of a function's source."""

    def __init__(self, source, node, whole_line=False):
        self.source, self.line = source, getattr(node, "lineno", 1)
        self.start = getattr(node, "col_offset", 0) + source.shift
        same = getattr(node, "end_lineno", self.line) == self.line and not isinstance(node, (ast.If, ast.For, ast.While, ast.Try))
        text = source.lines[self.line - 1] if self.line <= len(source.lines) else ""
        self.end = node.end_col_offset + source.shift if same and hasattr(node, "end_col_offset") else max(len(text.rstrip()), self.start + 1)

    def highlight(self):
        lines, k = self.source.lines, self.line - 1
        before, after = lines[max(0, k - 3):k + 1], lines[k + 1:k + 3]
        mark = " " * self.start + "~" * max(1, self.end - self.start) + " <--- HERE"
        return "\n".join([f'  File "{self.source.file}", line {self.source.first + k}', *before, mark, *after]) + "\n"


class Source:
    """The parsed definition of a function or class."""

    def __init__(self, thing):
        try:
            lines, first = inspect.getsourcelines(thing)
            self.file = inspect.getsourcefile(thing) or "?"
        except (OSError, TypeError) as why:
            raise OSError(f"Can't get source for {thing}. TorchScript requires source access in order to carry out compilation, make sure original .py files are available.") from why
        text = textwrap.dedent("".join(lines))
        self.lines, self.first = "".join(lines).rstrip("\n").split("\n"), max(first, 1)
        self.shift = len(self.lines[0]) - len(self.lines[0].lstrip()) if text != "".join(lines) else 0
        try:
            tree = ast.parse(text)
        except SyntaxError:  # continued lines of comments can stand further left than the code
            tree = ast.parse("if True:\n" + "".join(lines)).body[0]
            self.lines, self.first, self.shift = ["if True:", *self.lines], self.first - 1, 0
        found = next((n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef, ast.Lambda))), None)
        if found is None or isinstance(found, (ast.AsyncFunctionDef, ast.Lambda)):
            raise RuntimeError("Expected a single top-level function: " + (f"{self.file}:{self.first} defines none" if found is None else f"{self.file}:{self.first} is a lambda or coroutine"))
        self.tree = found

    def error(self, node, message):
        """A RuntimeError that shows where."""
        return RuntimeError(f"\n{message}:\n{Range(self, node).highlight()}")

    def unsupported(self, node, reason=""):
        return UnsupportedNodeError(Range(self, node), node, reason)

    def type_comments(self):
        """Lines `# type: ...` before the first statement, without the mark."""
        first = self.tree.body[0].lineno
        out = []
        for line in self.lines[self.tree.lineno - 1:first]:
            _, mark, rest = line.partition("# type:")
            if mark and not rest.strip().startswith("ignore"):
                out.append((line, rest.strip()))
        return out


def types_of_comment(text):
    """Of "(int, Tensor) -> int": the types of the arguments and of the result, or None where the arrow is left out."""
    left, arrow, right = text.rpartition("->") if "->" in text else (text, "", "")
    kinds = ast.parse(left.strip(), mode="eval").body
    return kinds.elts if isinstance(kinds, ast.Tuple) else [kinds], ast.parse(right.strip(), mode="eval").body if arrow else None


class _Annotated(ast.NodeTransformer):
    """Types that comments give, as annotations."""

    def visit_FunctionDef(self, node):
        args = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        if node.type_comment:
            kinds, node.returns = types_of_comment(node.type_comment)
            for arg, kind in zip(args[len(args) - len(kinds):], kinds):
                arg.annotation = kind
        for arg in args:
            if arg.type_comment:
                arg.annotation, arg.type_comment = ast.parse(arg.type_comment, mode="eval").body, None
        node.type_comment = None
        return self.generic_visit(node)


def annotated(text):
    """A text whose types stand in annotations alone."""
    if "# type:" not in text:
        return text
    return ast.unparse(ast.fix_missing_locations(_Annotated().visit(ast.parse(text, type_comments=True)))) + "\n"


def functions_of(text, names):
    """The functions of a text by their names, which may use `names`."""
    file = f"<functions of CompilationUnit {len(linecache.cache)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    exec(compile(text, file, "exec", __future__.annotations.compiler_flag), names)
    return {node.name: names[node.name] for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}


def get_jit_def(fn, def_name=None, self_name=None, is_classmethod=False):
    """The parsed definition of a function: an ast.FunctionDef."""
    return Source(fn).tree
