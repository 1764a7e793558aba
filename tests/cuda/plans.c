/* plans.c - what src/cuda/cudnn.c asks, answered by cuDNN itself for a GPU that is only described: a plan must be found for every case below.
 *
 * cuDNN 9.8 and later find plans for the properties of a device, given as JSON, without one: here those of an H100. So all descriptors are checked
 * and finished; nothing is run. Prints how many plans were found, or what is wrong; ends by 77 where there is no such cuDNN.
 */
#include "cuda/cudnn.c"
#include <dlfcn.h>
#include <stdio.h>

enum { DEVICE = 38, DEVICE_JSON = 2702, TYPE_CHAR = 24, OF_HEURISTIC = 204, OF_PLAN = 407 }; /* of cudnn_graph.h: CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR and what it is set to */
static const char h100[] = "{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,\"multiProcessorCount\":132,\"warpSize\":32,"
                           "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":232448,\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,"
                           "\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":1,\"totalGlobalMem\":85017755648,"
                           "\"smClockRateKHz\":1980000,\"memClockRateKHz\":2619000,\"l2CacheSize\":52428800,\"cudaDeviceId\":0,\"deviceVer\":900,\"driverVer\":13000,"
                           "\"deviceName\":\"NVIDIA H100 80GB HBM3\"}";

static rush_cudnn own, asked; /* the library's functions; those with a described device in place of a handle */
static part device;
static int live;

static cudnnStatus_t ask_set(part p, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t n, const void *values)
{
    if (name == CUDNN_ATTR_OPERATIONGRAPH_HANDLE) return 0;
    if (name == CUDNN_ATTR_EXECUTION_PLAN_HANDLE) return own.set(p, OF_PLAN, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device);
    const cudnnStatus_t s = own.set(p, name, type, n, values);
    return s || name != CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH ? s : own.set(p, OF_HEURISTIC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device);
}
static cudnnStatus_t ask_make(cudnnBackendDescriptorType_t type, part *p) { return live++, own.make(type, p); }
static cudnnStatus_t ask_drop(part p) { return live--, own.drop(p); }
static cudnnStatus_t ask_execute(cudnnHandle_t handle, part steps, part pack) { return 0; }

/* What cudnn.c takes from its neighbours */
int cuda_emulated;
const rush_cuda_driver *cuda_driver;
const rush_cudnn *cuda_cudnn(void) { return &asked; }
bool cuda_has_libraries(void) { return true; }
cuda_device *cuda_enter(rush_device d) { return NULL; }
CUstream cuda_stream(rush_device d) { return NULL; }
void *cuda_alloc(rush_device d, size_t bytes) { return (void *)0x7f0000000000; }
void cuda_free(rush_device d, void *p, size_t bytes) {}

static const struct { rush_conv c; int dims; } cases[] = { /* n, in, out, groups; space, result (computed), kernel, stride, dilation, before */
    {{32, 64, 64, 1, {1, 56, 56}, {0}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}}, 2}, {{32, 3, 64, 1, {1, 224, 224}, {0}, {1, 7, 7}, {1, 2, 2}, {1, 1, 1}, {0, 3, 3}}, 2},
    {{32, 64, 256, 1, {1, 56, 56}, {0}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0}}, 2}, {{2, 4, 6, 2, {1, 9, 11}, {0}, {1, 3, 2}, {1, 2, 3}, {1, 1, 2}, {0, 1, 1}}, 2},
    {{2, 6, 12, 6, {1, 9, 11}, {0}, {1, 3, 3}, {1, 2, 2}, {1, 1, 1}, {0, 1, 1}}, 2}, {{8, 512, 1024, 32, {1, 14, 14}, {0}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}}, 2},
    {{2, 5, 7, 1, {1, 1, 40}, {0}, {1, 1, 3}, {1, 1, 1}, {1, 1, 1}, {0}}, 2}, {{2, 3, 4, 1, {1, 6, 6}, {0}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 4, 4}}, 2},
    {{2, 5, 7, 1, {7, 8, 9}, {0}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}}, 3}, {{2, 4, 8, 2, {7, 8, 9}, {0}, {3, 2, 1}, {2, 2, 2}, {2, 1, 1}, {1, 0, 0}}, 3}};

static int find(int which, int what, int dtype, int last, int more)
{
    void *const memory[] = {(void *)0x7f1000000000, (void *)0x7f2000000000, (void *)0x7f3000000000};
    key k;
    memset(&k, 0, sizeof k);
    k.c = cases[which].c, k.dims = cases[which].dims, k.what = what, k.dtype = dtype, k.last = last;
    k.tf32 = more != 1, k.deterministic = more == 2, k.alignment = more == 3 ? (int)rush_dtypes[dtype].size : 16;
    for (int i = 0; i < 3; i++) k.c.result[i] = (k.c.space[i] + 2 * k.c.before[i] - (k.c.kernel[i] - 1) * k.c.dilation[i] - 1) / k.c.stride[i] + 1;
    plan *p = plan_new(&asked, NULL, &k, memory);
    const bool found = p && p->steps;
    if (!found) printf("case %d, product %d, %s, last %d, more %d: %s\n", which, what, rush_dtype_name(dtype), last, more, p ? "no plan" : rush_error());
    rush_error_clear();
    if (p) drop(&asked, p->steps), drop(&asked, p->way), rush_free(p);
    return found;
}

#define TAKE(member, symbol, result, args) complete = complete && (*(void **)&own.member = dlsym(library, #symbol));
int main(void)
{
    static const int dtypes[] = {RUSH_F32, RUSH_F64, RUSH_F16, RUSH_BF16};
    void *library = dlopen("libcudnn.so.9", RTLD_NOW);
    bool complete = library;
    RUSH_CUDNN_FUNCTIONS(TAKE)
    if (!complete || own.make(DEVICE, &device) || own.set(device, DEVICE_JSON, TYPE_CHAR, sizeof h100, h100) || own.finish(device)) return 77;
    asked = own;
    asked.set = ask_set, asked.make = ask_make, asked.drop = ask_drop, asked.execute = ask_execute;
    int found = 0, missed = 0;
    for (int which = 0; which < (int)RUSH_COUNT(cases); which++)
        for (int n = 0; n < 24; n++) {
            const int good = find(which, n % 3, dtypes[n / 3 % 4], n / 12, (which + n) % 4);
            found += good, missed += !good;
        }
    printf("%d plans found by cuDNN %zu, %d missing, %d descriptors left\n", found, own.version(), missed, live);
    return missed || live;
}
