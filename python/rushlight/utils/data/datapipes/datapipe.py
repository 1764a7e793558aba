"""The two base classes of data pipes and the decorators that make a pipe a method of all others."""
import collections.abc
import functools

import rushlight as torch
from rushlight.utils.data.dataset import Dataset, IterableDataset, _T_co

__all__ = ["DataChunk", "DFIterDataPipe", "IterDataPipe", "MapDataPipe", "argument_validation",
           "functional_datapipe", "guaranteed_datapipes_determinism", "non_deterministic", "runtime_validation",
           "runtime_validation_disabled"]


class _Functional:
    """Holds the registered functional forms, looked up when an attribute is not found."""

    functions = {}
    reduce_ex_hook = None
    getstate_hook = None

    def __getattr__(self, name):
        if name in type(self).functions:
            return functools.partial(type(self).functions[name], self)
        raise AttributeError("'%s' object has no attribute '%s'" % (type(self).__name__, name))

    @classmethod
    def register_function(cls, function_name, function):
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(cls, function_name, cls_to_register, enable_df_api_tracing=False):
        if function_name in cls.functions:
            raise Exception("Unable to add DataPipe function name %s as it is already taken" % function_name)

        @functools.wraps(cls_to_register.__init__, assigned=("__doc__",))
        def make(source, *args, **kwargs):
            return cls_to_register(source, *args, **kwargs)

        cls.functions[function_name] = make

    def __getstate__(self):
        hook = type(self).getstate_hook
        return hook(self.__dict__) if hook is not None else self.__dict__

    @classmethod
    def set_reduce_ex_hook(cls, hook_fn):
        if cls.reduce_ex_hook is not None and hook_fn is not None:
            raise RuntimeError("Attempt to override existing reduce_ex_hook")
        cls.reduce_ex_hook = hook_fn

    @classmethod
    def set_getstate_hook(cls, hook_fn):
        if cls.getstate_hook is not None and hook_fn is not None:
            raise RuntimeError("Attempt to override existing getstate_hook")
        cls.getstate_hook = hook_fn

    def __reduce_ex__(self, protocol):
        hook = type(self).reduce_ex_hook
        if hook is not None:
            try:
                return hook(self)
            except NotImplementedError:
                return super().__reduce_ex__(protocol)
        return super().__reduce_ex__(protocol)

    def __repr__(self):
        return type(self).__qualname__


class IterDataPipe(_Functional, IterableDataset[_T_co]):
    """A stream that can be iterated; `reset` is called when a new iteration begins.

    >>> from torch.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(5)).batch(2))
    [[0, 1], [2, 3], [4]]
    """

    functions = {}

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        own = cls.__dict__.get("__iter__")
        if own is None:
            return

        @functools.wraps(own)
        def with_reset(self):
            # A pipe's reset() runs at the start of every pass over it.
            reset = getattr(type(self), "reset", None)
            if reset is not None:
                self.reset()
            return own(self)

        cls.__iter__ = with_reset


class DFIterDataPipe(IterDataPipe):
    """Marks pipes of data frames.

    >>> issubclass(data.DFIterDataPipe, data.IterDataPipe)
    True
    """

    def _is_dfpipe(self):
        return True


class MapDataPipe(_Functional, Dataset[_T_co]):
    """A pipe that is indexed.

    >>> from torch.utils.data.datapipes.map import SequenceWrapper
    >>> SequenceWrapper([1, 2]).map(lambda x: x * 10)[1]
    20
    """

    functions = {}


class DataChunk(list):
    """A batch of a data pipe: a list that remembers the items it was made from.

    items: the batch.

    >>> data.DataChunk([1, 2])[1]
    2
    """

    def __init__(self, items):
        items = list(items)
        super().__init__(items)
        self.items = items

    def as_str(self, indent=""):
        return indent + "[" + ", ".join(str(item) for item in self) + "]"

    def raw_iterator(self):
        yield from self.items


class functional_datapipe:
    """Class decorator: `@functional_datapipe("batch")` gives every pipe of that kind a method batch().

    name: of the method; enable_df_api_tracing: for pipes of data frames.

    >>> @data.functional_datapipe("doubled")
    ... class Doubler(data.IterDataPipe):
    ...     def __init__(self, source):
    ...         self.source = source
    ...     def __iter__(self):
    ...         return (2 * x for x in self.source)
    >>> from torch.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([1, 2]).doubled())
    [2, 4]
    """

    def __init__(self, name, enable_df_api_tracing=False):
        self.name = name
        self.enable_df_api_tracing = enable_df_api_tracing

    def __call__(self, cls):
        if issubclass(cls, IterDataPipe):
            IterDataPipe.register_datapipe_as_function(self.name, cls, self.enable_df_api_tracing)
        elif issubclass(cls, MapDataPipe):
            MapDataPipe.register_datapipe_as_function(self.name, cls)
        else:
            raise TypeError("functional_datapipe: %r is neither an IterDataPipe nor a MapDataPipe" % (cls,))
        return cls


_determinism = False
_validation = True


class _Switch:
    """Context manager that sets a flag of this module and puts it back."""

    name, value = None, None

    def __init__(self):
        self.before = globals()[self.name]
        globals()[self.name] = self.value

    def __enter__(self):
        return None

    def __exit__(self, *error):
        globals()[self.name] = self.before


class guaranteed_datapipes_determinism(_Switch):
    """Context in which pipes marked with non_deterministic are refused.

    >>> with data.guaranteed_datapipes_determinism():
    ...     print(list(data.SequentialSampler(range(2))))
    [0, 1]
    """
    name, value = "_determinism", True


class runtime_validation_disabled(_Switch):
    """Context in which runtime_validation does nothing.

    >>> with data.runtime_validation_disabled():
    ...     print(list(data.SequentialSampler(range(2))))
    [0, 1]
    """
    name, value = "_validation", False


class non_deterministic:
    """Marks a pipe whose order may vary; making one under guaranteed_datapipes_determinism is an error.

    arg: the class, or a function of its arguments that says whether.

    >>> @data.non_deterministic
    ... class Ones(data.IterDataPipe):
    ...     def __iter__(self):
    ...         yield 1
    >>> list(Ones())
    [1]
    """

    def __init__(self, arg):
        self.pipe_class = arg if isinstance(arg, type) else None
        self.decide = (lambda *args, **kwargs: True) if self.pipe_class is not None else arg

    def __call__(self, *args, **kwargs):
        if self.pipe_class is None:
            self.pipe_class = args[0]
            return self._guarded
        return self._guarded(*args, **kwargs)

    def _guarded(self, *args, **kwargs):
        if _determinism and self.decide(*args, **kwargs):
            raise TypeError("%s is non-deterministic, and may not be used while determinism is guaranteed"
                            % self.pipe_class.__name__)
        return self.pipe_class(*args, **kwargs)


def argument_validation(f):
    """Type checks of pipe arguments: annotations are accepted and not enforced.

    f: the function.

    >>> class Ones(data.IterDataPipe):
    ...     @data.argument_validation
    ...     def __iter__(self):
    ...         yield 1
    >>> list(Ones())
    [1]
    """
    return f


def runtime_validation(f):
    """Type checks of what a pipe yields: annotations are accepted and not enforced.

    f: the function.

    >>> class Ones(data.IterDataPipe):
    ...     @data.runtime_validation
    ...     def __iter__(self):
    ...         yield 1
    >>> issubclass(Ones, data.IterDataPipe)
    True
    """
    return f


class _IterDataPipeSerializationWrapper(IterDataPipe):
    def __init__(self, datapipe):
        self._datapipe = datapipe

    def __iter__(self):
        yield from self._datapipe

    def __len__(self):
        return len(self._datapipe)


class _MapDataPipeSerializationWrapper(MapDataPipe):
    def __init__(self, datapipe):
        self._datapipe = datapipe

    def __getitem__(self, index):
        return self._datapipe[index]

    def __len__(self):
        return len(self._datapipe)


# What is the same of the iterable and of the indexed pipes.

def length_below(pipe):
    """The length of what a pipe reads, if that has one."""
    if not isinstance(pipe.datapipe, collections.abc.Sized):
        raise TypeError("%s instance doesn't have valid length" % type(pipe).__name__)
    return len(pipe.datapipe)


class Batches:
    def __init__(self, datapipe, batch_size, drop_last=False, wrapper_class=DataChunk):
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.datapipe, self.batch_size, self.drop_last = datapipe, batch_size, drop_last
        self.wrapper_class = wrapper_class

    def __len__(self):
        whole, rest = divmod(length_below(self), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)


class Shuffles:
    _enabled, _seed = True, None

    def set_shuffle(self, shuffle=True):
        self._enabled = shuffle
        return self

    def set_seed(self, seed):
        self._seed = seed
        return self

    def _take_seed(self):
        """The seed that was set, for one pass, or one drawn from the default generator."""
        seed, self._seed = self._seed, None
        return int(torch.empty((), dtype=torch.int64).random_().item()) if seed is None else seed

    def __len__(self):
        return len(self.datapipe)
