"""Processes that share tensors: queues, shared memory, a pool, spawn."""
import torch
import torch.multiprocessing as mp


def fill(rank, shared, queue, done):
    shared[rank] += rank + 1
    queue.put((rank, torch.full((2,), float(rank))))
    done.wait()  # a tensor's memory is passed on by the process that made it


def square(t):
    return (t * t).sum()


def spawned(rank, shared):
    shared.add_(rank)


if __name__ == "__main__":
    torch.manual_seed(26)
    context = mp.get_context("fork")
    shared = torch.zeros(3).share_memory_()
    queue, done = context.Queue(), context.Event()
    workers = [context.Process(target=fill, args=(r, shared, queue, done)) for r in range(3)]
    for w in workers:
        w.start()
    got = sorted((queue.get() for _ in workers), key=lambda p: p[0])
    done.set()
    for w in workers:
        w.join()
    print(shared, got, shared.is_shared())
    with context.Pool(2) as pool:
        print(pool.map(square, [torch.arange(3.0), torch.ones(4)]))
    model = torch.nn.Linear(2, 1).share_memory()
    print(all(p.is_shared() for p in model.parameters()))
    counter = torch.zeros(1, dtype=torch.long).share_memory_()
    mp.spawn(spawned, args=(counter,), nprocs=2)
    print(counter, mp.get_sharing_strategy() in mp.get_all_sharing_strategies())
