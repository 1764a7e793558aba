"""Errors of exports."""


class OnnxExporterError(RuntimeError):
    """A model that could not be exported."""


class UnsupportedOperatorError(OnnxExporterError):
    """Operations that have no form in ONNX; the message names all of them, with the lines that call them."""


class SymbolicValueError(OnnxExporterError):
    """A value that had to be known when the model was exported."""


class OnnxExporterWarning(UserWarning):
    pass
