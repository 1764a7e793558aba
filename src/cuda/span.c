/* span.c - addresses that are kept for memory which comes piece by piece: expandable segments, for memory.c.
 *
 * The driver is given room for all that a device has; pieces of one size get memory as they are needed, and lose it again.
 */
#include "cuda/cuda.h"
#include <unistd.h>

struct cuda_span {
    rush_device device;
    char *base;
    size_t room, piece;
    CUmemGenericAllocationHandle *at; /* the memory of each piece; 0: it has none */
    int *shown;                       /* its descriptor, that other processes were told; 0: none */
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
    *s = (cuda_span){d, (char *)(size_t)base, room, piece, at, NULL};
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
        if (s->shown && s->shown[i]) close(s->shown[i]), s->shown[i] = 0;
    }
}

CUresult cuda_span_access(rush_device d, CUdeviceptr p, size_t bytes)
{
    const CUmemAccessDesc access = {.location = of_device(d).location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    return cuda_driver->physical_access(p, bytes, &access, 1);
}

int cuda_span_export(cuda_span *s, size_t first, size_t n, int *fds)
{
    if (!s->shown && !(s->shown = rush_calloc(s->room / s->piece, sizeof *s->shown))) return -1;
    for (size_t i = first; i < first + n; i++) {
        if (!s->shown[i] && cuda_check(cuda_driver->physical_export(&s->shown[i], s->at[i], CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), "cuMemExportToShareableHandle")) return s->shown[i] = 0, -1;
        fds[i - first] = s->shown[i];
    }
    return 0;
}

bool cuda_span_map(cuda_span *s, char *p, size_t bytes)
{
    const CUmemAllocationProp prop = of_device(s->device);
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
    if (i == n && !cuda_span_access(s->device, (CUdeviceptr)(size_t)p, bytes)) return true;
    cuda_span_unmap(s, p, i * s->piece);
    return false;
}

void cuda_span_free(cuda_span *s)
{
    cuda_driver->address_free((CUdeviceptr)(size_t)s->base, s->room);
    rush_free(s->shown);
    rush_free(s->at);
    rush_free(s);
}
