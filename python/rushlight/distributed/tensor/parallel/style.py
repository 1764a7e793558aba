"""Styles: how a module's weights are spread, and how its inputs and outputs are to lie."""
import abc

import rushlight as torch
from rushlight import nn

from .._api import DTensor, distribute_module, distribute_tensor
from ..placement_types import Placement, Replicate, Shard

__all__ = ["ParallelStyle", "RowwiseParallel", "SequenceParallel", "ColwiseParallel", "PrepareModuleInput", "PrepareModuleInputOutput", "PrepareModuleOutput"]


class ParallelStyle(abc.ABC):
    """_apply(module, mesh) spreads a module."""

    src_data_rank = 0

    @abc.abstractmethod
    def _apply(self, module, device_mesh):
        """Spread it, and return it."""

    def _spread(self, module, mesh, **placements):
        """Parameters by their names; those without a placement are cut along nothing."""
        for name, param in list(module.named_parameters(recurse=False)):
            made = distribute_tensor(param.detach(), mesh, [placements.get(name, Replicate())], src_data_rank=self.src_data_rank)
            module.register_parameter(name, nn.Parameter(made, param.requires_grad))


def _as_dtensor(x, mesh, layout, wanted):
    """A tensor of this process as the DTensor whose layout it has, laid out as wanted."""
    if not isinstance(x, DTensor):
        x = DTensor.from_local(x, mesh, (layout,), run_check=False)
    return x.redistribute(placements=(wanted,)) if x.placements != (wanted,) else x


def _given_out(x, wanted, local):
    x = x.redistribute(placements=(wanted,)) if x.placements != (wanted,) else x
    return x.to_local() if local else x


class _Layers(ParallelStyle):
    """Linear layers and embeddings."""

    def __init__(self, input_layout, output_layout, use_local_output):
        self.input_layouts, self.output_layouts, self.use_local_output = (input_layout,), (output_layout,), use_local_output

    def _weights(self, module):
        """{parameter: placement}, and how the input has to lie"""

    def _apply(self, module, device_mesh):
        if not isinstance(module, (nn.Linear, nn.Embedding)):
            raise NotImplementedError(f"{type(self).__name__} currently only support nn.Linear and nn.Embedding!")
        placements, wanted = self._weights(module)

        def partition(name, part, mesh):
            self._spread(part, mesh, **placements)

        def before(part, inputs, mesh):
            return (_as_dtensor(inputs[0], mesh, self.input_layouts[0], wanted), *inputs[1:])

        def after(part, output, mesh):
            return _given_out(output, self.output_layouts[0], self.use_local_output)

        return distribute_module(module, device_mesh, partition, before, after)


class ColwiseParallel(_Layers):
    """Each process has some of the outputs."""

    def __init__(self, *, input_layouts=None, output_layouts=None, use_local_output=True):
        super().__init__(input_layouts or Replicate(), output_layouts or Shard(-1), use_local_output)

    def _weights(self, module):
        if isinstance(module, nn.Linear):
            return {"weight": Shard(0), "bias": Shard(0)}, Replicate()
        return {"weight": Shard(1)}, Replicate()


class RowwiseParallel(_Layers):
    """Each process has some of the inputs; their results are summed."""

    def __init__(self, *, input_layouts=None, output_layouts=None, use_local_output=True):
        super().__init__(input_layouts or Shard(-1), output_layouts or Replicate(), use_local_output)

    def _weights(self, module):
        if isinstance(module, nn.Linear):
            return {"weight": Shard(1)}, Shard(-1)
        return {"weight": Shard(0)}, Replicate()


class SequenceParallel(ParallelStyle):
    """Each process has some of the sequence: for norms and dropout, whose weights are copied."""

    def __init__(self, *, sequence_dim=1, use_local_output=False):
        self.sequence_sharding, self.use_local_output = (Shard(sequence_dim),), use_local_output

    def _apply(self, module, device_mesh):
        def partition(name, part, mesh):
            for key, param in list(part.named_parameters(recurse=False)):
                part.register_parameter(key, nn.Parameter(DTensor.from_local(param.detach(), mesh, [Replicate()], run_check=False), param.requires_grad))

        def before(part, inputs, mesh):
            x = inputs[0]
            if not isinstance(x, torch.Tensor):
                raise ValueError(f"expecting input of {part} to be a torch.Tensor or DTensor, but got {x}")
            return (_as_dtensor(x, mesh, self.sequence_sharding[0], self.sequence_sharding[0]), *inputs[1:])

        def after(part, output, mesh):
            return output.to_local() if self.use_local_output else output

        return distribute_module(module, device_mesh, partition, before, after)


def _tuple(layouts):
    return (layouts,) if isinstance(layouts, Placement) or layouts is None else tuple(layouts)


class PrepareModuleInput(ParallelStyle):
    """A module's inputs, of input_layouts, are brought to desired_input_layouts; None: an input is left as it is."""

    def __init__(self, *, input_layouts=None, desired_input_layouts=None, input_kwarg_layouts=None, desired_input_kwarg_layouts=None, use_local_output=False):
        self.input_layouts = None if input_layouts is None else _tuple(input_layouts)
        self.desired_input_layouts = None if desired_input_layouts is None else _tuple(desired_input_layouts)
        self.input_kwarg_layouts, self.desired_input_kwarg_layouts = input_kwarg_layouts or {}, desired_input_kwarg_layouts or {}
        self.use_local_output = use_local_output
        if self.input_layouts is not None and (self.desired_input_layouts is None or len(self.input_layouts) != len(self.desired_input_layouts)):
            raise AssertionError("input_layouts and desired_input_layouts should have same length!" if self.desired_input_layouts else
                                 "desired module inputs should not be None!")
        if len(self.input_kwarg_layouts) != len(self.desired_input_kwarg_layouts):
            raise AssertionError("input_kwarg_layouts and desired_input_kwarg_layouts should have same length!")

    def _one(self, x, mesh, layout, wanted):
        if layout is None or not isinstance(x, torch.Tensor):
            return x
        x = _as_dtensor(x, mesh, layout, layout if wanted is None else wanted)
        return x.to_local() if self.use_local_output else x

    def _prepared(self, inputs, mesh):
        if self.input_layouts is None:
            return inputs
        inputs = inputs if isinstance(inputs, tuple) else (inputs,)
        if len(inputs) != len(self.input_layouts):
            raise ValueError("module inputs and input_layouts should have same length!")
        return tuple(self._one(x, mesh, a, b) for x, a, b in zip(inputs, self.input_layouts, self.desired_input_layouts))

    def _apply(self, module, device_mesh):
        def before(part, args, kwargs):
            more = {k: self._one(x, device_mesh, self.input_kwarg_layouts.get(k), self.desired_input_kwarg_layouts.get(k)) for k, x in kwargs.items()}
            return self._prepared(args, device_mesh), more
        module.register_forward_pre_hook(before, with_kwargs=True)
        return module


class PrepareModuleOutput(ParallelStyle):
    """A module's outputs, of output_layouts, are brought to desired_output_layouts."""

    def __init__(self, *, output_layouts, desired_output_layouts, use_local_output=True):
        self.output_layouts, self.desired_output_layouts, self.use_local_output = _tuple(output_layouts), _tuple(desired_output_layouts), use_local_output
        if len(self.output_layouts) != len(self.desired_output_layouts):
            raise AssertionError("output_layouts and desired_output_layouts should have same length!")

    def _apply(self, module, device_mesh):
        def after(part, inputs, outputs):
            many = isinstance(outputs, tuple)
            outputs = outputs if many else (outputs,)
            if len(outputs) != len(self.output_layouts):
                raise ValueError("module outputs and output_layouts should have same length!")
            made = []
            for x, layout, wanted in zip(outputs, self.output_layouts, self.desired_output_layouts):
                if layout is not None:
                    x = _given_out(_as_dtensor(x, device_mesh, layout, layout), wanted, self.use_local_output)
                made.append(x)
            return tuple(made) if many else made[0]
        module.register_forward_hook(after)
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """Both."""

    def __init__(self, *, input_layouts=None, desired_input_layouts=None, input_kwarg_layouts=None, desired_input_kwarg_layouts=None, use_local_input=False,
                 output_layouts, desired_output_layouts, use_local_output=True):
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts, desired_input_layouts=desired_input_layouts, input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts, use_local_output=use_local_input)
        self.prepare_module_output = PrepareModuleOutput(output_layouts=output_layouts, desired_output_layouts=desired_output_layouts,
                                                         use_local_output=use_local_output)

    def _apply(self, module, device_mesh):
        self.prepare_module_input._apply(module, device_mesh)
        self.prepare_module_output._apply(module, device_mesh)
        return module
