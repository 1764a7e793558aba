"""torch.mtia: Meta's devices. There is no backend for them."""
from rushlight._absent_device import fill

fill(__name__, "mtia", AssertionError("Torch not compiled with MTIA enabled. Ensure you have `import "
                                      "mtia.host_runtime.torch_mtia` in your python src file and include "
                                      "`//mtia/host_runtime/torch_mtia:torch_mtia` as your target dependency!"))
