"""Errors of exports."""


class OnnxExporterError(RuntimeError):
    pass


class UnsupportedOperatorError(OnnxExporterError):
    pass


class SymbolicValueError(OnnxExporterError):
    pass


class OnnxExporterWarning(UserWarning):
    pass
