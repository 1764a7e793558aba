"""Pool of torch.multiprocessing: the standard one; tensors in tasks and results are shared, not copied."""
import multiprocessing.pool

__all__ = ["Pool"]

Pool = multiprocessing.pool.Pool
