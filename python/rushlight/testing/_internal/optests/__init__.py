"""The tests of torch.library.opcheck, and tests made of tests that call operators."""
from rushlight._library.opcheck import OpCheckError
from rushlight.library import opcheck
from rushlight.testing._internal.optests.generate import dontGenerateOpCheckTests, generate_opcheck_tests, is_inside_opcheck_mode

__all__ = ["opcheck", "generate_opcheck_tests", "dontGenerateOpCheckTests", "is_inside_opcheck_mode", "OpCheckError"]
