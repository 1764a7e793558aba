"""Gradients in fewer bits: hooks for DistributedDataParallel.register_comm_hook."""
import rushlight as torch
import rushlight.distributed as dist

__all__ = ["allreduce_hook", "fp16_compress_hook", "bf16_compress_hook", "fp16_compress_wrapper", "bf16_compress_wrapper"]


def _group(process_group):
    return process_group if process_group is not None else dist.group.WORLD


def allreduce_hook(process_group, bucket):
    """The mean, as without a hook."""
    group = _group(process_group)
    work = dist.all_reduce(bucket.buffer().div_(group.size()), group=group, async_op=True)
    return work.get_future().then(lambda done: done.value()[0])


def _compressed(dtype, process_group, bucket):
    group = _group(process_group)
    small = bucket.buffer().to(dtype).div_(group.size())
    work = dist.all_reduce(small, group=group, async_op=True)
    return work.get_future().then(lambda done: bucket.buffer().copy_(done.value()[0]))


def fp16_compress_hook(process_group, bucket):
    """The mean, of gradients rounded to float16."""
    return _compressed(torch.float16, process_group, bucket)


def bf16_compress_hook(process_group, bucket):
    """The mean, of gradients rounded to bfloat16."""
    return _compressed(torch.bfloat16, process_group, bucket)


def _wrapped(dtype, hook):
    def compressed(state, bucket):
        whole = bucket.buffer()
        bucket.set_buffer(whole.to(dtype))

        def widen(done):
            value = done.value()
            whole.copy_(value[0] if isinstance(value, (list, tuple)) else value)
            return whole
        return hook(state, bucket).then(widen)
    return compressed


def fp16_compress_wrapper(hook):
    """Another hook, which gets the gradients rounded to float16."""
    return _wrapped(torch.float16, hook)


def bf16_compress_wrapper(hook):
    """Another hook, which gets the gradients rounded to bfloat16."""
    return _wrapped(torch.bfloat16, hook)
