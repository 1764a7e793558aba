/* span.c - addresses that are kept for memory which comes piece by piece: expandable segments, for memory.c.
 *
 * The driver is given room for all that a device has; pieces of one size get memory as they are needed, and lose it again.
 */
#include "cuda/cuda.h"

struct cuda_span {
    rush_device device;
    char *base;
    size_t room, piece;
    CUmemGenericAllocationHandle *at; /* the memory of each piece; 0: it has none */
};

static CUmemAllocationProp of_device(rush_device d)
{
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = cuda_devices[d.index].number}};
}

cuda_span *cuda_span_new(rush_device d, size_t piece)
{
    const CUmemAllocationProp prop = of_device(d);
    size_t grain, free, total;
    CUdeviceptr base;
    if (cuda_driver->physical_grain(&grain, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) || cuda_driver->memory_info(&free, &total)) return NULL;
    piece = (piece + grain - 1) / grain * grain;
    const size_t room = (total + total / 8 + piece - 1) / piece * piece; /* what is given back leaves gaps */
    if (cuda_driver->address_reserve(&base, room, 0, 0, 0)) return NULL;
    cuda_span *s = rush_calloc(1, sizeof *s);
    CUmemGenericAllocationHandle *at = s ? rush_calloc(room / piece, sizeof *at) : NULL;
    if (!at) {
        cuda_driver->address_free(base, room);
        rush_free(s);
        return NULL;
    }
    *s = (cuda_span){d, (char *)(size_t)base, room, piece, at};
    return s;
}

char *cuda_span_base(const cuda_span *s) { return s->base; }
size_t cuda_span_room(const cuda_span *s) { return s->room; }
size_t cuda_span_piece(const cuda_span *s) { return s->piece; }

void cuda_span_unmap(cuda_span *s, char *p, size_t bytes)
{
    for (size_t i = (size_t)(p - s->base) / s->piece, end = i + bytes / s->piece; i < end; i++) {
        cuda_driver->physical_unmap((CUdeviceptr)(size_t)(s->base + i * s->piece), s->piece);
        cuda_driver->physical_release(s->at[i]);
        s->at[i] = 0;
    }
}

bool cuda_span_map(cuda_span *s, char *p, size_t bytes)
{
    const CUmemAllocationProp prop = of_device(s->device);
    const CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    const size_t first = (size_t)(p - s->base) / s->piece, n = bytes / s->piece;
    size_t i = 0;
    for (; i < n; i++) {
        CUmemGenericAllocationHandle *h = &s->at[first + i];
        if (cuda_driver->physical_create(h, s->piece, &prop, 0)) break;
        if (!cuda_driver->physical_map((CUdeviceptr)(size_t)(p + i * s->piece), s->piece, 0, *h, 0)) continue;
        cuda_driver->physical_release(*h);
        break;
    }
    if (i < n) s->at[first + i] = 0;
    if (i == n && !cuda_driver->physical_access((CUdeviceptr)(size_t)p, bytes, &access, 1)) return true;
    cuda_span_unmap(s, p, i * s->piece);
    return false;
}

void cuda_span_free(cuda_span *s)
{
    cuda_driver->address_free((CUdeviceptr)(size_t)s->base, s->room);
    rush_free(s->at);
    rush_free(s);
}
