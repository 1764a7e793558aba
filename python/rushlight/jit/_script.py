"""The home of script and ScriptModule, under the name that packages import."""
from . import RecursiveScriptModule, ScriptFunction, ScriptModule, interface, script, script_method  # noqa: F401
