"""Datasets, samplers and the loader that turns them into batches."""
from rushlight.utils.data.dataset import (ChainDataset, ConcatDataset, Dataset, IterableDataset, StackDataset, Subset,
                                          TensorDataset, random_split)
from rushlight.utils.data.sampler import (BatchSampler, RandomSampler, Sampler, SequentialSampler,
                                          SubsetRandomSampler, WeightedRandomSampler)
from rushlight.utils.data.distributed import DistributedSampler
from rushlight.utils.data.datapipes.datapipe import (DataChunk, DFIterDataPipe, IterDataPipe, MapDataPipe,
                                                     argument_validation, functional_datapipe,
                                                     guaranteed_datapipes_determinism, non_deterministic,
                                                     runtime_validation, runtime_validation_disabled)
from rushlight.utils.data.dataloader import (DataLoader, _DatasetKind, default_collate, default_convert,
                                             get_worker_info)
from rushlight.utils.data import _utils, dataloader, datapipes, dataset, distributed, graph_settings, sampler

__all__ = ["BatchSampler", "ChainDataset", "ConcatDataset", "DFIterDataPipe", "DataChunk", "DataLoader", "Dataset",
           "DistributedSampler", "IterDataPipe", "IterableDataset", "MapDataPipe", "RandomSampler", "Sampler",
           "SequentialSampler", "StackDataset", "Subset", "SubsetRandomSampler", "TensorDataset",
           "WeightedRandomSampler", "_DatasetKind", "argument_validation", "default_collate", "default_convert",
           "functional_datapipe", "get_worker_info", "guaranteed_datapipes_determinism", "non_deterministic",
           "random_split", "runtime_validation", "runtime_validation_disabled"]
