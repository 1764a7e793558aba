"""Data for jobs whose processes come and go."""
from .cycling_iterator import CyclingIterator  # noqa: F401
from .elastic_distributed_sampler import ElasticDistributedSampler  # noqa: F401
