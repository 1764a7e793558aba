/* gloo.cc - gloo's collectives over our own messages: the engine "gloo", a shared object that is opened when it is asked for.
 *
 * gloo's algorithms send and receive through a transport::Context; Wire is one whose buffers are the mesh's. No exception
 * leaves this file.
 */
#include "dist/engine.h"

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/context.h>
#include <gloo/gather.h>
#include <gloo/reduce.h>
#include <gloo/scatter.h>
#include <gloo/transport/context.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <vector>

namespace {

using Milliseconds = std::chrono::milliseconds;
using gloo::transport::UnboundBuffer;

struct WireFailed : std::exception {}; /* the reason is pending in the thread */

void check(int failed)
{
    if (failed) throw WireFailed();
}

class Buffer : public UnboundBuffer {
  public:
    Buffer(const rush_wire *wire, void *mesh, void *data, size_t n, Milliseconds timeout)
        : UnboundBuffer(data, n), wire(wire), b(wire->buffer(mesh, data, n)), timeout(timeout)
    {
        check(!b);
    }
    ~Buffer() override { wire->drop(b); }
    bool waitRecv(int *rank, Milliseconds t) override { return wait(1, rank, t); }
    bool waitSend(int *rank, Milliseconds t) override { return wait(0, rank, t); }
    void abortWaitRecv() override {}
    void abortWaitSend() override {}
    void send(int to, uint64_t slot, size_t offset, size_t n) override { check(wire->send(b, to, slot, offset, bytes(offset, n))); }
    void recv(int from, uint64_t slot, size_t offset, size_t n) override { check(wire->receive(b, 1, &from, slot, offset, bytes(offset, n))); }
    void recv(std::vector<int> from, uint64_t slot, size_t offset, size_t n) override
    {
        check(wire->receive(b, static_cast<int>(from.size()), from.data(), slot, offset, bytes(offset, n)));
    }

  private:
    size_t bytes(size_t offset, size_t n) const { return n == kUnspecifiedByteCount ? size - offset : n; }
    bool wait(int receives, int *rank, Milliseconds t)
    {
        check(wire->wait(b, receives, 1e-3 * static_cast<double>((t.count() < 0 ? timeout : t).count()), rank));
        return true;
    }
    const rush_wire *wire;
    void *b;
    Milliseconds timeout;
};

/* Algorithms look whether there is a connection to a rank; only older ones, which are not used here, do anything with it. */
class Pair : public gloo::transport::Pair {
    [[noreturn]] static void none() { throw std::logic_error("a pair is not used"); }
    const gloo::transport::Address &address() const override { none(); }
    void connect(const std::vector<char> &) override { none(); }
    void close() override {}
    void setSync(bool, bool) override { none(); }
    std::unique_ptr<gloo::transport::Buffer> createSendBuffer(int, void *, size_t) override { none(); }
    std::unique_ptr<gloo::transport::Buffer> createRecvBuffer(int, void *, size_t) override { none(); }
    virtual bool isConnected() { return true; } /* in newer gloo's class, too */
    void send(UnboundBuffer *, uint64_t, size_t, size_t) override { none(); }
    void recv(UnboundBuffer *, uint64_t, size_t, size_t) override { none(); }
};

class Wire : public gloo::transport::Context {
  public:
    Wire(const rush_wire *wire, void *mesh, int rank, int size) : gloo::transport::Context(rank, size), wire(wire), mesh(mesh)
    {
        for (int i = 0; i < size; i++) createPair(i);
    }
    std::unique_ptr<gloo::transport::Pair> &createPair(int i) final { return pairs_[static_cast<size_t>(i)] = std::unique_ptr<gloo::transport::Pair>(new Pair); }
    std::unique_ptr<UnboundBuffer> createUnboundBuffer(void *data, size_t n) override
    {
        return std::unique_ptr<UnboundBuffer>(new Buffer(wire, mesh, data, n, getTimeout()));
    }

  private:
    const rush_wire *wire;
    void *mesh;
};

class Group : public gloo::Context {
  public:
    Group(std::shared_ptr<Wire> wire, int rank, int size, Milliseconds timeout) : gloo::Context(rank, size)
    {
        wire->setTimeout(timeout);
        transportContext_ = wire;
        setTimeout(timeout);
    }
};

typedef std::shared_ptr<gloo::Context> Opened;

template <typename Options> void prepare(Options &o, const rush_engine_call *c)
{
    o.setTag(c->tag);
    o.setTimeout(Milliseconds(static_cast<int64_t>(c->seconds * 1e3)));
}

template <typename T> T *part(void *p, const rush_engine_call *c, int i)
{
    return static_cast<T *>(p) + c->n * static_cast<size_t>(i);
}

template <typename T> void all_reduce(const Opened &g, const rush_engine_call *c)
{
    gloo::AllreduceOptions o(g);
    prepare(o, c);
    o.setOutput(static_cast<T *>(c->out), c->n);
    o.setReduceFunction(c->reduction);
    gloo::allreduce(o);
}

template <typename T> void reduce(const Opened &g, const rush_engine_call *c)
{
    gloo::ReduceOptions o(g);
    prepare(o, c);
    o.setRoot(c->root);
    o.setInput(static_cast<T *>(c->in), c->n);
    o.setOutput(static_cast<T *>(c->out), c->n);
    o.setReduceFunction(c->reduction);
    gloo::reduce(o);
}

template <typename T> void broadcast(const Opened &g, const rush_engine_call *c)
{
    gloo::BroadcastOptions o(g);
    prepare(o, c);
    o.setRoot(c->root);
    o.setOutput(static_cast<T *>(c->out), c->n);
    gloo::broadcast(o);
}

template <typename T> void all_gather(const Opened &g, const rush_engine_call *c)
{
    gloo::AllgatherOptions o(g);
    prepare(o, c);
    o.setInput(static_cast<T *>(c->in), c->n);
    o.setOutput(static_cast<T *>(c->out), c->n * static_cast<size_t>(g->size));
    gloo::allgather(o);
}

template <typename T> void gather(const Opened &g, const rush_engine_call *c)
{
    gloo::GatherOptions o(g);
    prepare(o, c);
    o.setRoot(c->root);
    o.setInput(static_cast<T *>(c->in), c->n);
    if (g->rank == c->root) o.setOutput(static_cast<T *>(c->out), c->n * static_cast<size_t>(g->size));
    gloo::gather(o);
}

template <typename T> void scatter(const Opened &g, const rush_engine_call *c)
{
    gloo::ScatterOptions o(g);
    prepare(o, c);
    o.setRoot(c->root);
    if (g->rank == c->root) {
        std::vector<T *> parts;
        for (int i = 0; i < g->size; i++) parts.push_back(part<T>(c->in, c, i));
        o.setInputs(parts, c->n);
    }
    o.setOutput(static_cast<T *>(c->out), c->n);
    gloo::scatter(o);
}

template <typename T> void all_to_all(const Opened &g, const rush_engine_call *c)
{
    gloo::AlltoallOptions o(g);
    prepare(o, c);
    o.setInput(static_cast<T *>(c->in), c->n);
    o.setOutput(static_cast<T *>(c->out), c->n);
    gloo::alltoall(o);
}

template <typename T> void all_to_all_v(const Opened &g, const rush_engine_call *c)
{
    gloo::AlltoallvOptions o(g);
    prepare(o, c);
    o.setInput(static_cast<T *>(c->in), std::vector<int64_t>(c->in_counts, c->in_counts + g->size));
    o.setOutput(static_cast<T *>(c->out), std::vector<int64_t>(c->out_counts, c->out_counts + g->size));
    gloo::alltoallv(o);
}

template <typename T> void run_as(const Opened &g, const rush_engine_call *c)
{
    switch (c->kind) {
    case RUSH_ENGINE_ALL_REDUCE: return all_reduce<T>(g, c);
    case RUSH_ENGINE_BROADCAST: return broadcast<T>(g, c);
    case RUSH_ENGINE_REDUCE: return reduce<T>(g, c);
    case RUSH_ENGINE_ALL_GATHER: return all_gather<T>(g, c);
    case RUSH_ENGINE_GATHER: return gather<T>(g, c);
    case RUSH_ENGINE_SCATTER: return scatter<T>(g, c);
    case RUSH_ENGINE_ALL_TO_ALL: return all_to_all<T>(g, c);
    case RUSH_ENGINE_ALL_TO_ALL_V: return all_to_all_v<T>(g, c);
    case RUSH_ENGINE_BARRIER: {
        gloo::BarrierOptions o(g);
        prepare(o, c);
        return gloo::barrier(o);
    }
    case RUSH_ENGINE_REDUCE_SCATTER: throw std::logic_error("reduce_scatter is done as an all_reduce");
    }
}

/* Runs f; what it throws becomes a text, none where the wire has failed. */
template <typename F> bool guarded(F f, char *why, size_t room)
{
    why[0] = 0;
    try {
        f();
        return true;
    } catch (const WireFailed &) {
    } catch (const std::exception &e) {
        snprintf(why, room, "gloo: %s", e.what());
    } catch (...) {
        snprintf(why, room, "gloo failed for an unknown reason");
    }
    return false;
}

void *open(const rush_wire *wire, void *mesh, int rank, int size, double seconds, char *why, size_t room)
{
    Opened *g = nullptr;
    guarded([&] {
        auto timeout = Milliseconds(static_cast<int64_t>(seconds * 1e3));
        g = new Opened(std::make_shared<Group>(std::make_shared<Wire>(wire, mesh, rank, size), rank, size, timeout));
    }, why, room);
    return g;
}

void close(void *g)
{
    delete static_cast<Opened *>(g);
}

int run(void *opened, const rush_engine_call *c, char *why, size_t room)
{
    return guarded([&] {
        const Opened &g = *static_cast<Opened *>(opened);
        switch (c->size) {
        case 1: return run_as<uint8_t>(g, c);
        case 2: return run_as<uint16_t>(g, c);
        case 4: return run_as<uint32_t>(g, c);
        default: return run_as<uint64_t>(g, c);
        }
    }, why, room) ? 0 : -1;
}

} // namespace

extern "C" __attribute__((visibility("default"))) const rush_engine rush_engine_gloo = {"gloo", open, close, run, false, false, 0, false};
