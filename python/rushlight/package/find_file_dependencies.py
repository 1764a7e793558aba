"""What a source imports, as far as its text says so."""
import ast
import importlib.util


def find_files_source_depends_on(src, package):
    """[(module, name in it or None)] of the imports in a source whose relative ones begin at `package`."""
    found = {}
    for node in ast.walk(ast.parse(src)):
        if isinstance(node, ast.Import):
            found.update({(alias.name, None): None for alias in node.names})
        elif isinstance(node, ast.ImportFrom):
            module = importlib.util.resolve_name("." * node.level + (node.module or ""), package) if node.level else node.module
            found.update({(module, None if alias.name == "*" else alias.name): None for alias in node.names})
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "__import__":
            given = dict(zip(("name", "globals", "locals", "fromlist", "level"), node.args)) | {k.arg: k.value for k in node.keywords}
            try:
                name, parts, level = (ast.literal_eval(given[k]) if k in given else standard for k, standard in (("name", ""), ("fromlist", ()), ("level", 0)))
            except ValueError:  # its name is known when it runs
                continue
            if isinstance(name, str):
                module = importlib.util.resolve_name("." * level + name, package) if level else name
                found.update({(module, part): None for part in parts or [None]})
    return list(found)
