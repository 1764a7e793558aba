"""Names of the optimizer of TorchScript programs for phones, which is not part of rushlight."""
import enum


class LintCode(enum.Enum):
    BUNDLED_INPUT = 1
    REQUIRES_GRAD = 2
    DROPOUT = 3
    BATCHNORM = 4


def optimize_for_mobile(script_module, optimization_blocklist=None, preserved_methods=None, backend="CPU"):
    raise NotImplementedError("optimize_for_mobile: there is no TorchScript for phones; export the model instead")


def generate_mobile_module_lints(script_module):
    raise NotImplementedError("generate_mobile_module_lints: there is no TorchScript for phones")
