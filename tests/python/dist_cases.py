"""What the ranks of a job do: each case by its name, the same program under PyTorch and under rushlight.

    dist_cases.py LIBRARY STORE RANK SIZE     LIBRARY is torch or rushlight, STORE a url of init_process_group, or "mpi" (under mpiexec);
                                              DEVICE is a type of devices, of which each rank takes one, BACKEND their backend, CASES some cases

prints a line "case<TAB>values" per case. dist.tsv has what PyTorch prints, with the size and the rank before it; tests/parity/ranks.py writes
it, and lets ranks of both libraries do the cases together.
"""
import datetime
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def values(x):
    """Plain Python of what a case returns."""
    if isinstance(x, (list, tuple)):
        return [values(v) for v in x]
    if hasattr(x, "tolist"):
        return x.tolist()
    return x


def all_reduce_ops(T, d, r, n):
    out = []
    for dtype in (T.float32, T.float64, T.float16, T.bfloat16, T.int8, T.uint8, T.int32, T.int64):
        for op in ("SUM", "AVG", "PRODUCT", "MIN", "MAX"):
            if op == "AVG" and not dtype.is_floating_point:
                continue
            t = (T.arange(1, 6) + r).to(dtype)
            d.all_reduce(t, getattr(d.ReduceOp, op))
            out.append(t.double())
    return out


def all_reduce_bits(T, d, r, n):
    out = []
    for dtype in (T.int8, T.uint8, T.int32, T.int64):
        for op in ("BAND", "BOR", "BXOR"):
            t = (T.arange(5) + 3 * r).to(dtype)
            d.all_reduce(t, getattr(d.ReduceOp, op))
            out.append(t)
    return out


def all_reduce_complex(T, d, r, n):
    t = T.complex(T.arange(3.) + r, T.ones(3) * r)
    d.all_reduce(t)
    return T.view_as_real(t)


def all_reduce_strided(T, d, r, n):
    t, u, e = T.arange(6.).reshape(2, 3).t() + r, T.arange(10.)[::2] * (r + 1), T.tensor(2. + r)
    for x in (t, u, e):
        d.all_reduce(x)
    return [t, u, e]


def all_reduce_large(T, d, r, n):
    t = T.arange(300001.) % 1000 + r
    d.all_reduce(t)
    return [t[:3], t[-3:], t.double().sum()]


def all_reduce_coalesced(T, d, r, n):
    tensors = [T.ones(3) * r, T.arange(4.).reshape(2, 2) + r]
    d.all_reduce_coalesced(tensors)
    return tensors


def asynchronous(T, d, r, n):
    tensors = [T.full((1000 + i,), float(r + i)) for i in range(8)]
    works = [d.all_reduce(t, async_op=True) for t in tensors]
    done = [w.wait() for w in works]
    return [done, [w.is_completed() and w.is_success() for w in works], [t[-1] for t in tensors]]


def broadcast(T, d, r, n):
    out = []
    for root in range(n):
        for dtype in (T.float32, T.bfloat16, T.bool, T.int64, T.complex128):
            t = (T.arange(4) * (r + 1)).to(dtype)
            d.broadcast(t, root)
            out.append(T.view_as_real(t) if t.is_complex() else t.double())
        s = T.arange(6.).reshape(2, 3).t() * (r + 1)
        d.broadcast(s, src=root)
        out.append(s)
    return out


def reduce_(T, d, r, n):
    out = []
    for root in range(n):
        t = T.arange(4.) + r
        d.reduce(t, root, op=d.ReduceOp.MAX)
        out.append(t if r == root else None)
    return out


def all_gather(T, d, r, n):
    parts, whole, numbers = [T.zeros(2, 2) for _ in range(n)], T.empty(3 * n), T.empty(3 * n, dtype=T.int64)
    d.all_gather(parts, T.ones(2, 2) * r)
    d.all_gather_into_tensor(whole, T.arange(3.) * r)
    d.all_gather_into_tensor(numbers, T.arange(3) + 10 * r)
    half = [T.zeros(2, dtype=T.bfloat16) for _ in range(n)]
    d.all_gather(half, T.ones(2, dtype=T.bfloat16) * r)
    return [parts, whole, numbers, [h.float() for h in half]]


def gather_scatter(T, d, r, n):
    out = []
    for root in range(n):
        into = [T.zeros(3) for _ in range(n)] if r == root else None
        d.gather(T.arange(3.) + r, into, dst=root)
        part = T.zeros(2)
        d.scatter(part, [T.ones(2) * i + root for i in range(n)] if r == root else None, src=root)
        out.append([into, part])
    return out


def reduce_scatter(T, d, r, n):
    a, b, c = T.zeros(2), T.zeros(3), T.zeros(2)
    d.reduce_scatter(a, [T.arange(2.) + i + r for i in range(n)])
    d.reduce_scatter_tensor(b, T.arange(3. * n) * (r + 1))
    d.reduce_scatter_tensor(c, T.arange(2. * n) + r, op=d.ReduceOp.MAX)
    return [a, b, c]


def all_to_all(T, d, r, n):
    equal = T.zeros(2 * n)
    d.all_to_all_single(equal, T.arange(2. * n) + 100 * r)
    rows = [(r + i) % 2 + 1 for i in range(n)]  # what this rank sends to and gets from i
    uneven = T.zeros(sum(rows), 2)
    d.all_to_all_single(uneven, T.arange(2. * sum(rows)).reshape(-1, 2) + 100 * r, rows, rows)
    parts = [T.zeros(3) for i in range(n)]
    d.all_to_all(parts, [T.ones(3) * (10 * r + i) for i in range(n)])
    return [equal, uneven, parts]


def lists(T, d, r, n):
    """Tensors of a list in place, with gaps, of several numbers, and large ones."""
    def fresh(size=2):
        return [T.arange(float(size)) + 10 * r + 100 * i for i in range(n)]
    gathered, reduced, scattered, strided, sent = fresh(), fresh(), fresh(), [T.zeros(2, 3).t() for _ in range(n)], fresh()
    d.all_gather(gathered, gathered[r])
    d.reduce_scatter(reduced[r], reduced)
    d.scatter(scattered[r], scattered if r == 0 else None)
    d.all_gather(strided, T.arange(6.).reshape(3, 2) + r)
    got = [T.zeros(3).double() for i in range(n)]
    d.all_to_all(got, [T.ones(3).double() * (10 * r + i) for i in range(n)])
    pairs = [T.zeros(2, dtype=T.complex64) for _ in range(n)]
    d.all_to_all(pairs, [T.complex(x, x + 1) for x in sent])
    large, whole, part, sums = fresh(700001), [T.zeros(700001) for _ in range(n)], T.zeros(700001), T.zeros(700001)
    d.scatter(part, large if r == n - 1 else None, src=n - 1)
    d.gather(part, whole if r == 0 else None)
    d.reduce_scatter(sums, large)
    return [gathered, reduced[r], scattered[r], strided, got, [T.view_as_real(p) for p in pairs],
            [[x[:2], x[-2:], x.double().sum()] for x in (part, sums, *whole)]]


def barriers(T, d, r, n):
    d.barrier(device_ids=[r])
    d.monitored_barrier(timeout=datetime.timedelta(seconds=60))
    w = d.barrier(async_op=True)
    w.wait()
    return [1]


def messages(T, d, r, n):
    to, frm = (r + 1) % n, (r - 1) % n
    got = T.zeros(5)
    sent = d.isend(T.arange(5.) + r, to)
    source = d.recv(got, frm)
    sent.wait()
    tagged = [T.zeros(2), T.zeros(2)]  # the second tag is waited for first
    works = [d.isend(T.ones(2) * r + tag, to, tag=tag) for tag in (7, 9)]
    d.recv(tagged[1], frm, tag=9)
    d.recv(tagged[0], frm, tag=7)
    for w in works:
        w.wait()
    return [got, source, tagged]


def message_from_any(T, d, r, n):
    if r:
        d.send(T.tensor([float(r)]), 0, tag=3)
        return []
    seen = []
    for _ in range(n - 1):
        t = T.zeros(1)
        source = d.recv(t, tag=3)
        seen.append([source, t.item()])
    return sorted(seen)


def batch(T, d, r, n):
    got = T.zeros(3)
    ops = [d.P2POp(d.isend, T.arange(3.) + r, (r + 1) % n), d.P2POp(d.irecv, got, (r - 1) % n)]
    for w in d.batch_isend_irecv(ops):
        w.wait()
    return got


def objects(T, d, r, n):
    every, listed, one, all_ = [None] * n, [{"rank": 0, "x": [1, 2.5]}, "text", None] if r == 0 else [None] * 3, [None], [None] * n
    d.all_gather_object(every, {"r": r, "pad": "x" * (10 * r)})
    d.broadcast_object_list(listed, src=0)
    d.scatter_object_list(one, [("for", i) for i in range(n)] if r == 0 else None, src=0)
    d.gather_object(r * 2, all_ if r == 0 else None, dst=0)
    return [every, listed, list(one[0]), all_]


def groups(T, d, r, n):
    out = []
    for members in ([0, n - 1], list(range(n))[1:], list(range(n))):
        g = d.new_group(members)
        if r not in members:
            out.append(g == d.GroupMember.NON_GROUP_MEMBER)
            continue
        t = T.tensor([float(r)])
        d.all_reduce(t, group=g)
        b = T.tensor([float(r)])
        d.broadcast(b, src=members[-1], group=g)
        d.barrier(group=g)
        out.append([t, b, d.get_rank(g), d.get_world_size(g), d.get_process_group_ranks(g), d.get_global_rank(g, 0)])
    return out


def empty(T, d, r, n):
    t = T.zeros(0)
    d.broadcast(t, 0)
    return [t, d.get_rank(), d.get_world_size(), d.get_backend()]


CASES = [all_reduce_ops, all_reduce_bits, all_reduce_complex, all_reduce_strided, all_reduce_large, all_reduce_coalesced, asynchronous, broadcast, reduce_, all_gather,
         gather_scatter, reduce_scatter, all_to_all, lists, barriers, messages, message_from_any, batch, objects, groups, empty]


def main():
    library, url, rank, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    if library == "torch":
        import torch as T
        import torch.distributed as d
    else:
        import rushlight as T
        import rushlight.distributed as d
    if os.environ.get("DEVICE"):
        T.accelerator.set_device_index(rank % T.accelerator.device_count())
        T.set_default_device(f"{os.environ['DEVICE']}:{rank % T.accelerator.device_count()}")
    if url == "mpi":
        d.init_process_group("mpi", timeout=datetime.timedelta(seconds=60))
        rank, size = d.get_rank(), d.get_world_size()
        sys.stdout = open(f"{os.environ['ANSWERS']}/{rank}", "w")
    else:
        d.init_process_group(os.environ.get("BACKEND", "gloo"), init_method=url, rank=rank, world_size=size, timeout=datetime.timedelta(seconds=60))
    some = os.environ["CASES"].split() if "CASES" in os.environ else sys.argv[5:]
    for case in CASES:
        if not some or case.__name__ in some:
            print(case.__name__, values(case(T, d, rank, size)), sep="\t", flush=True)
    d.barrier()
    d.destroy_process_group()


if __name__ == "__main__":
    main()
