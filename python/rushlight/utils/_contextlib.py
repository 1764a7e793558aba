"""Context managers that are decorators as well; behind torch.no_grad and the like."""
import functools
import inspect
import warnings

__all__ = ["context_decorator"]


def _wrap_generator(make_context, func):
    """A generator that is inside the context whenever its own code runs, and outside whenever it is suspended."""
    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        generator = func(*args, **kwargs)
        step, value = generator.send, None
        try:
            while True:
                with make_context():
                    produced = step(value)
                try:
                    value = yield produced
                    step = generator.send
                except GeneratorExit:
                    with make_context():
                        generator.close()
                    raise
                except BaseException as error:
                    value, step = error, generator.throw
        except StopIteration as stop:
            return stop.value
    return wrapped


def context_decorator(ctx, func):
    """func run inside ctx, which is a context manager or a function that makes one."""
    if callable(ctx) and hasattr(ctx, "__enter__"):
        raise AssertionError("Passed in %s is both callable and also a valid context manager (has __enter__), making it "
                             "ambiguous which interface to use." % (ctx,))

    def make_context():
        return ctx() if callable(ctx) else ctx

    if inspect.isgeneratorfunction(func):
        return _wrap_generator(make_context, func)
    if inspect.isclass(func):
        raise RuntimeError("Cannot decorate classes; it is ambiguous whether or not only the constructor or all methods "
                           "should have the context manager applied; additionally, decorating a class at "
                           "definition-site will prevent use of the identifier as a conventional type.")

    @functools.wraps(func)
    def decorated(*args, **kwargs):
        with make_context():
            return func(*args, **kwargs)
    return decorated


def decorated(make, func):
    """What a manager of gradients makes of a function; of a class, whose instances are made inside of it."""
    if not inspect.isclass(func):
        return context_decorator(make, func)
    warnings.warn("Decorating classes is deprecated and will be disabled in future versions. You should only "
                  "decorate functions or methods.", FutureWarning, stacklevel=3)
    func.__init__ = context_decorator(make, func.__init__)
    return func


class _DecoratorContextManager:
    """Base: a context manager whose instances decorate functions; each call enters a clone()."""

    def __call__(self, orig_func):
        return decorated(self.clone, orig_func)

    def __enter__(self):
        raise NotImplementedError

    def __exit__(self, exc_type, exc_value, traceback):
        raise NotImplementedError

    def clone(self):
        return type(self)()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """The same for managers without parameters: `@no_grad` works without the parentheses too."""

    def __new__(cls, orig_func=None):
        if orig_func is None:
            return super().__new__(cls)
        return cls()(orig_func)
