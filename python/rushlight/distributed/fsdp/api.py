"""Settings of fully sharded data parallelism."""
import dataclasses
import enum
from typing import Optional, Sequence, Type

import rushlight as torch

__all__ = ["BackwardPrefetch", "MixedPrecision", "CPUOffload", "StateDictType", "StateDictConfig", "FullStateDictConfig", "LocalStateDictConfig",
           "ShardedStateDictConfig", "OptimStateDictConfig", "FullOptimStateDictConfig", "LocalOptimStateDictConfig", "ShardedOptimStateDictConfig",
           "ShardingStrategy", "StateDictSettings", "OptimStateKeyType"]


class ShardingStrategy(enum.Enum):
    """Which of parameters, gradients and optimizer states are in pieces, and over which processes."""
    FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD, _HYBRID_SHARD_ZERO2 = range(1, 6)


class BackwardPrefetch(enum.Enum):
    BACKWARD_PRE, BACKWARD_POST = 1, 2


@dataclasses.dataclass
class MixedPrecision:
    """The dtypes of gathered parameters, of summed gradients and of buffers; None: as they are."""
    param_dtype: Optional[torch.dtype] = None
    reduce_dtype: Optional[torch.dtype] = None
    buffer_dtype: Optional[torch.dtype] = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Sequence[Type[torch.nn.Module]] = (torch.nn.modules.batchnorm._BatchNorm,)


@dataclasses.dataclass
class CPUOffload:
    offload_params: bool = False


class StateDictType(enum.Enum):
    FULL_STATE_DICT, LOCAL_STATE_DICT, SHARDED_STATE_DICT = 1, 2, 3


@dataclasses.dataclass
class StateDictConfig:
    offload_to_cpu: bool = False


@dataclasses.dataclass
class FullStateDictConfig(StateDictConfig):
    rank0_only: bool = False


@dataclasses.dataclass
class LocalStateDictConfig(StateDictConfig):
    pass


@dataclasses.dataclass
class ShardedStateDictConfig(StateDictConfig):
    _use_dtensor: bool = False


@dataclasses.dataclass
class OptimStateDictConfig:
    offload_to_cpu: bool = True


@dataclasses.dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    rank0_only: bool = False


@dataclasses.dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    offload_to_cpu: bool = False


@dataclasses.dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    _use_dtensor: bool = False


@dataclasses.dataclass
class StateDictSettings:
    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig


class OptimStateKeyType(enum.Enum):
    PARAM_NAME, PARAM_ID = 1, 2
