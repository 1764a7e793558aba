"""The home of trace, under the name that packages import."""
from . import ScriptFunction, TopLevelTracedModule, TracedModule, TracerWarning, TracingCheckError, is_tracing, script_if_tracing, trace, trace_module  # noqa: F401
from . import _script_if_tracing  # noqa: F401
