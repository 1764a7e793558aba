/* CUDAStream.h - the stream that operations of this thread use on a CUDA device, for kernels of one's own. */
#pragma once
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <link.h>
#include <rushlight/at/aten.hpp>
#include <rushlight/backend.h>

namespace c10 {
namespace cuda {
namespace detail {

/* A function of the CUDA part, which is open where there is a tensor on a device. */
template <class F> F part(const char *name)
{
    struct search {
        const char *name;
        void *found;
    } s = {name, nullptr};
    dl_iterate_phdr(
        [](struct dl_phdr_info *one, size_t, void *to) {
            search *s = static_cast<search *>(to);
            void *part = strstr(one->dlpi_name, "librushlight_cuda.so") ? dlopen(one->dlpi_name, RTLD_NOW | RTLD_NOLOAD) : nullptr;
            return part && (s->found = dlsym(part, s->name)) ? 1 : 0;
        },
        &s);
    TORCH_CHECK(s.found, "there is no CUDA device: ", name, " was not found");
    return reinterpret_cast<F>(s.found);
}

} // namespace detail

class CUDAStream {
    cudaStream_t its;
    DeviceIndex its_device;

public:
    CUDAStream(cudaStream_t stream, DeviceIndex device) : its(stream), its_device(device) {}
    cudaStream_t stream() const { return its; }
    operator cudaStream_t() const { return its; }
    DeviceIndex device_index() const { return its_device; }
    Device device() const { return Device(kCUDA, its_device); }
};

inline DeviceIndex current_device() { return static_cast<DeviceIndex>(rush_device_current(RUSH_CUDA)); }
inline CUDAStream getCurrentCUDAStream(DeviceIndex device = -1)
{
    static auto *stream = detail::part<void *(*)(int, int *)>("rush_cuda_stream");
    if (device < 0) device = current_device();
    int failed = 0;
    void *its = stream(device, &failed);
    TORCH_CHECK(!failed, "CUDA device ", static_cast<int>(device), ": ", rush_error() ? rush_error() : "it did not start");
    return {static_cast<cudaStream_t>(its), device};
}

} // namespace cuda
} // namespace c10

namespace at {
namespace cuda {
using c10::cuda::CUDAStream;
using c10::cuda::current_device;
using c10::cuda::getCurrentCUDAStream;
} // namespace cuda
} // namespace at
