"""Operations that exports keep symbolic."""
import rushlight as torch


def shape_as_tensor(x):
    return torch._shape_as_tensor(x)


def reshape_from_tensor_shape(x, shape):
    return torch.reshape(x, tuple(int(n) for n in shape))
