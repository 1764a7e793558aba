"""Training by several processes: the same program under PyTorch and under rushlight, on any number of ranks.

    ddp_cases.py LIBRARY CASE URL RANK SIZE     prints "loss<TAB>..." of each step, then "weights<TAB>..."

DEVICE is a type of devices, of which each rank takes one, BACKEND their backend. Each rank takes its part of the same batches, so that the weights do not depend on the number of ranks. SIZE 1 trains without
DistributedDataParallel.
"""
import datetime
import os
import sys

STEPS, BATCH = 20, 24


def mlp(T):
    return T.nn.Sequential(T.nn.Linear(10, 32), T.nn.ReLU(), T.nn.Linear(32, 16), T.nn.Tanh(), T.nn.Linear(16, 3))


def cnn(T):
    return T.nn.Sequential(T.nn.Conv2d(1, 6, 3, padding=1), T.nn.ReLU(), T.nn.MaxPool2d(2), T.nn.Conv2d(6, 8, 3), T.nn.ReLU(), T.nn.Flatten(),
                           T.nn.Linear(8 * 2 * 2, 5))


def norm(T):
    """With buffers, which rank 0 tells in each step."""
    return T.nn.Sequential(T.nn.Linear(10, 8), T.nn.BatchNorm1d(8), T.nn.ReLU(), T.nn.Linear(8, 3))


def unused(T):
    """In odd steps one branch has no part."""
    class Branches(T.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.left, self.right, self.step = T.nn.Linear(10, 8), T.nn.Linear(8, 3), T.nn.Linear(8, 3), 0

        def forward(self, x):
            self.step += 1
            x = self.first(x).relu()
            return self.left(x) if self.step % 2 else self.right(x)
    return Branches()


def data(T, case):
    g = T.Generator().manual_seed(1)
    shape = (BATCH, 1, 8, 8) if case == "cnn" else (BATCH, 10)
    for _ in range(STEPS):
        yield T.randn(shape, generator=g), T.randint(0, 3, (BATCH,), generator=g)


def main():
    library, case, url, rank, size = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
    if library == "torch":
        import torch as T
        import torch.distributed as dist
    else:
        import rushlight as T
        import rushlight.distributed as dist
    T.manual_seed(rank if size > 1 and case != "hook" else 0)  # rank 0's weights are everyone's
    net = {"cnn": cnn, "unused": unused, "norm": norm}.get(case, mlp)(T)
    device, where = T.device("cpu"), {}
    if os.environ.get("DEVICE"):
        device = T.device(os.environ["DEVICE"], rank % T.accelerator.device_count())
        T.accelerator.set_device_index(device.index)
        where, net = {"device_ids": [device.index]}, net.to(device)
    model = net
    if size > 1:
        dist.init_process_group(os.environ.get("BACKEND", "gloo"), init_method=url, rank=rank, world_size=size, timeout=datetime.timedelta(seconds=60))
        model = T.nn.parallel.DistributedDataParallel(net, find_unused_parameters=case == "unused", bucket_cap_mb=0.001, **where)
        if case == "hook":
            from importlib import import_module
            hooks = import_module(T.__name__ + ".distributed.algorithms.ddp_comm_hooks.default_hooks")
            model.register_comm_hook(None, hooks.allreduce_hook)
        assert [k[:7] for k in model.state_dict()] == ["module."] * len(net.state_dict())
    optimizer = T.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step, (x, y) in enumerate(data(T, case)):
        x, y = x.chunk(size)[rank], y.chunk(size)[rank].to(device)  # DistributedDataParallel moves what the module gets
        x = x if size > 1 else x.to(device)
        if case == "no_sync" and size > 1:  # two halves, of which only the second is averaged
            with model.no_sync():
                (T.nn.functional.cross_entropy(model(x[::2]), y[::2]) / 2).backward()
            loss = T.nn.functional.cross_entropy(model(x[1::2]), y[1::2]) / 2
            loss.backward()
        elif case == "late_sync" and size > 1:  # the second half's forward does not know yet that its gradients are averaged
            with model.no_sync():
                (T.nn.functional.cross_entropy(model(x[::2]), y[::2]) / 2).backward()
                loss = T.nn.functional.cross_entropy(model(x[1::2]), y[1::2]) / 2
            model.reducer.prepare_for_backward([])
            loss.backward()
        else:
            loss = T.nn.functional.cross_entropy(model(x), y)
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total = loss.detach().clone()
        if size > 1:
            dist.all_reduce(total)
        print("loss", "%.6f" % (total.item() / size), sep="\t")
    print("weights", " ".join("%.9g" % v for p in net.parameters() for v in p.detach().reshape(-1).tolist()), sep="\t")
    if size > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
