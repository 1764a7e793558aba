"""torch.utils.tensorboard: SummaryWriter, without the tensorboard package; it is needed only to look at the files."""
from .writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
