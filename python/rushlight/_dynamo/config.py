"""Settings of a compiler that is not there; they can be set and read."""
import contextlib

suppress_errors = False
verbose = False
disable = False
cache_size_limit = recompile_limit = 8
accumulated_cache_size_limit = accumulated_recompile_limit = 256
optimize_ddp = True
automatic_dynamic_shapes = True
assume_static_by_default = True
capture_scalar_outputs = False
capture_dynamic_output_shape_ops = False
inline_inbuilt_nn_modules = True
guard_nn_modules = True
allow_unspec_int_on_nn_module = False
specialize_int = False


@contextlib.contextmanager
def patch(*changes, **more):
    """These settings while the context lasts."""
    wanted = dict(more)
    for change in changes:
        wanted.update(change) if isinstance(change, dict) else None
    old = {name: globals().get(name) for name in wanted}
    globals().update(wanted)
    try:
        yield
    finally:
        globals().update(old)
