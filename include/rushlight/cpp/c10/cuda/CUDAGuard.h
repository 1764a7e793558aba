/* CUDAGuard.h - a device that is the current one while the guard lives. */
#pragma once
#include <c10/cuda/CUDAStream.h>
#include <optional>

namespace c10 {
namespace cuda {

class CUDAGuard {
    DeviceIndex before = c10::cuda::current_device();

public:
    explicit CUDAGuard(DeviceIndex device) { set_index(device); }
    explicit CUDAGuard(Device device) { set_index(device.index()); }
    CUDAGuard(const CUDAGuard &) = delete;
    ~CUDAGuard() { set_index(before); }
    void set_index(DeviceIndex device)
    {
        if (device >= 0) rush_device_set_current(rush_device{RUSH_CUDA, static_cast<int8_t>(device)});
    }
    Device original_device() const { return Device(kCUDA, before); }
    Device current_device() const { return Device(kCUDA, c10::cuda::current_device()); }
};

class OptionalCUDAGuard {
    std::optional<CUDAGuard> its;

public:
    OptionalCUDAGuard() = default;
    explicit OptionalCUDAGuard(std::optional<Device> device)
    {
        if (device && device->is_cuda()) its.emplace(*device);
    }
};

} // namespace cuda
} // namespace c10

namespace at {
namespace cuda {
using c10::cuda::CUDAGuard;
using c10::cuda::OptionalCUDAGuard;
} // namespace cuda
} // namespace at
