"""Running replicas at the same time, a thread each."""
import threading

import rushlight as torch

__all__ = ["get_a_var", "parallel_apply"]


def get_a_var(obj):
    """Some tensor inside a nested value, or None."""
    if isinstance(obj, torch.Tensor):
        return obj
    if isinstance(obj, (list, tuple)):
        values = obj
    elif isinstance(obj, dict):
        values = obj.items()
    else:
        return None
    for value in values:
        found = get_a_var(value)
        if found is not None:
            return found
    return None


def parallel_apply(modules, inputs, kwargs_tup=None, devices=None):
    """Call modules[i](*inputs[i], **kwargs_tup[i]) for all i at once."""
    if len(modules) != len(inputs):
        raise AssertionError(f"The number of modules {len(modules)} is not equal to the number of inputs "
                             f"{len(inputs)}")
    kwargs_tup = kwargs_tup if kwargs_tup is not None else ({},) * len(modules)
    results = [None] * len(modules)
    grad = torch.is_grad_enabled()

    def work(i):
        try:
            args = inputs[i] if isinstance(inputs[i], (list, tuple)) else (inputs[i],)
            with torch.set_grad_enabled(grad):
                results[i] = (modules[i](*args, **kwargs_tup[i]), None)
        except BaseException as problem:        # raised again in the calling thread
            results[i] = (None, problem)

    if len(modules) == 1:
        work(0)
    else:
        threads = [threading.Thread(target=work, args=(i,)) for i in range(len(modules))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for _, problem in results:
        if problem is not None:
            raise problem
    return [output for output, _ in results]
