"""Tools around: profiler, benchmark timer, summaries of memory format, quantisation names, backends, configuration."""
import torch
import torch.ao.quantization
import torch.backends.cudnn
import torch.nn.quantized
import torch.utils.benchmark as benchmark
from torch.profiler import ProfilerActivity, profile, record_function
from torch.testing import assert_close
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:
    with record_function("model_inference"):
        torch.nn.Linear(4, 4)(torch.ones(2, 4))
names = {e.key for e in prof.key_averages()}
print("model_inference" in names)
print("Self CPU" in prof.key_averages().table(sort_by="cpu_time_total", row_limit=5))
timer = benchmark.Timer(stmt="x + 1", globals={"x": torch.ones(4)}, label="add")
print(timer.timeit(10).mean > 0, type(timer.blocked_autorange(min_run_time=0.01)).__name__)
print(torch.cuda.is_available(), torch.cuda.device_count(), torch.backends.cudnn.enabled, torch.backends.mps.is_available(), torch.backends.cpu.get_cpu_capability() != "")
leaves, spec = tree_flatten({"a": [torch.ones(1), 2], "b": (3,)})
print(len(leaves), tree_unflatten([1, 2, 3], spec), tree_map(lambda v: v * 2, {"k": [1, (2,)]}))
try:
    assert_close(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5]))
except AssertionError as error:
    print(error)
try:
    assert_close(torch.ones(2), torch.ones(3))
except AssertionError as error:
    print(str(error).splitlines()[0])
print(torch.__version__.split(".")[0], torch.version.cuda is None or True, torch.get_num_threads() > 0, torch.is_grad_enabled(), torch.is_inference_mode_enabled())
with torch.inference_mode():
    t = torch.ones(2)
    print(t.is_inference(), (t * 2).requires_grad)


@torch.no_grad()
def frozen(x):
    return x * 2


x = torch.ones(2, requires_grad=True)
print(frozen(x).requires_grad, torch.set_grad_enabled(True), (x * 2).requires_grad)
with torch.random.fork_rng():
    torch.manual_seed(1)
    a = torch.rand(2)
torch.manual_seed(1)
print(torch.equal(a, torch.rand(2)), torch.initial_seed(), torch.get_rng_state().shape, torch.Generator().manual_seed(5).initial_seed())
torch.set_default_dtype(torch.float64)
print(torch.ones(1).dtype, torch.tensor([1.5]), torch.complex(torch.ones(1), torch.ones(1)).dtype)
torch.set_default_dtype(torch.float32)
torch.set_printoptions(precision=2, sci_mode=False)
print(torch.tensor([1.23456, 1e-5]))
with torch.device("meta"):
    print(torch.ones(2).device, torch.nn.Linear(2, 2).weight.device)
print(torch.overrides.is_tensor_like(torch.ones(1)), torch.utils.data.get_worker_info(), torch.jit.is_tracing())
torch.use_deterministic_algorithms(True)
print(torch.are_deterministic_algorithms_enabled())


class Logged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        calls.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


calls = []
v = torch.ones(2).as_subclass(Logged)
print(type(v + 1).__name__, type(torch.cat([v, v])).__name__, calls)
from torch.overrides import TorchFunctionMode


class Mode(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        seen.append(func.__name__)
        return func(*args, **(kwargs or {}))


seen = []
with Mode():
    torch.ones(2).sum()
print(seen)
