"""Questions about exported programs."""
import contextlib

__all__ = ["is_param", "get_param", "is_buffer", "get_buffer", "is_lifted_tensor_constant", "get_lifted_tensor_constant"]


def is_param(program, node):
    """Whether an input of the graph is a parameter."""
    return node.name in program.graph_signature.inputs_to_parameters


def get_param(program, node):
    return program.state_dict[program.graph_signature.inputs_to_parameters[node.name]] if is_param(program, node) else None


def is_buffer(program, node):
    """Whether an input of the graph is a buffer."""
    return node.name in program.graph_signature.inputs_to_buffers


def get_buffer(program, node):
    if not is_buffer(program, node):
        return None
    name = program.graph_signature.inputs_to_buffers[node.name]
    return (program.constants if name in program.graph_signature.non_persistent_buffers else program.state_dict)[name]


def is_lifted_tensor_constant(program, node):
    """Whether an input of the graph is a tensor that the program made of numbers."""
    return node.name in program.graph_signature.inputs_to_lifted_tensor_constants


def get_lifted_tensor_constant(program, node):
    return program.constants[program.graph_signature.inputs_to_lifted_tensor_constants[node.name]] if is_lifted_tensor_constant(program, node) else None


@contextlib.contextmanager
def _disable_aten_to_metadata_assertions():
    """Programs that are captured inside have no assertions about what to() is given: none has."""
    yield
