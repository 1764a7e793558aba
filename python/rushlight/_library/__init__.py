"""Parts of torch.library: schemas as text and operators written in Python."""
from rushlight._library import schema, custom_ops, fake_impl, infer_schema, utils  # noqa: F401
