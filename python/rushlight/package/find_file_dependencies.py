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
            if node.args and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
                found[node.args[0].value, None] = None
    return list(found)
