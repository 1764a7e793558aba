"""State of the compiler: there is none; of fake tensors, the mode that is on."""
import sys


class TracingContext:
    @staticmethod
    def try_get():
        return None

    @staticmethod
    def get():
        raise RuntimeError("TracingContext.get() must be called within an ongoing trace.")


class CompileContext:
    @staticmethod
    def try_get():
        return None


def active_fake_mode():
    """The innermost FakeTensorMode that is on, or None."""
    fakes = sys.modules.get("rushlight._subclasses.fake_tensor")
    if fakes is None:
        return None
    from rushlight.utils._python_dispatch import _get_current_dispatch_mode_stack
    return next((mode for mode in reversed(_get_current_dispatch_mode_stack()) if isinstance(mode, fakes.FakeTensorMode)), None)


def detect_fake_mode(inputs=None):
    """The FakeTensorMode that is on, or that fake tensors among the inputs are of."""
    fakes = sys.modules.get("rushlight._subclasses.fake_tensor")
    if fakes is None:
        return None
    from rushlight.utils._pytree import tree_leaves
    modes = [active_fake_mode(), *(x.fake_mode for x in tree_leaves(inputs) if isinstance(x, fakes.FakeTensor))]
    found = [mode for mode in modes if mode is not None]
    if any(mode is not found[0] for mode in found):
        raise AssertionError("fake mode of the inputs differs from the one that is on")
    return found[0] if found else None


class Source:
    pass
