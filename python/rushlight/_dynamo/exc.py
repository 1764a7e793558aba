"""Errors of a compiler."""


class TorchDynamoException(RuntimeError):
    pass


class InternalTorchDynamoError(TorchDynamoException):
    pass


class ResetRequired(TorchDynamoException):
    def __init__(self):
        super().__init__("Must call `torch._dynamo.reset()` before changing backends. Detected two calls to `torch.compile()` with a different backend compiler arguments.")


class InvalidBackend(TorchDynamoException):
    def __init__(self, name):
        super().__init__(f"Invalid backend: {name!r}, see `torch._dynamo.list_backends()` for available backends.")


class BackendCompilerFailed(TorchDynamoException):
    """A backend raised an error, which is `inner_exception`."""

    def __init__(self, backend_fn, inner_exception):
        self.backend_name = getattr(backend_fn, "__name__", str(backend_fn))
        self.inner_exception = inner_exception
        super().__init__(f"backend={self.backend_name!r} raised:\n{type(inner_exception).__name__}: {inner_exception}")


class Unsupported(TorchDynamoException):
    """With fullgraph=True: something that no graph can hold."""

    def __init__(self, msg, **more):
        super().__init__(msg)
        self.msg = msg


class UserError(Unsupported):
    pass


class IncorrectUsage(Exception):
    pass


class TorchRuntimeError(TorchDynamoException):
    pass


class RecompileError(TorchDynamoException):
    pass


class FailOnRecompileLimitHit(Exception):
    pass


class UncapturedHigherOrderOpError(TorchDynamoException):
    pass
