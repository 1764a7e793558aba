/* accelerator.h - torch::stable::accelerator: which of the accelerator's devices is the current one, and its stream. */
#pragma once
#include <rushlight/at/stable.hpp>

namespace torch::stable::accelerator {

using DeviceIndex = int32_t;
using StreamId = int64_t;

/* The current device while it lives. */
class DeviceGuard {
    DeviceGuardHandle its = nullptr;

public:
    explicit DeviceGuard(DeviceIndex index) { STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_create_device_guard(index, &its)); }
    DeviceGuard(const DeviceGuard &) = delete;
    DeviceGuard &operator=(const DeviceGuard &) = delete;
    ~DeviceGuard() { aoti_torch_delete_device_guard(its); }
    void set_index(DeviceIndex index) { STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_device_guard_set_index(its, index)); }
};

class Stream {
    std::shared_ptr<StreamOpaque> its;

public:
    explicit Stream(StreamHandle own) : its(own, [](StreamHandle h) { aoti_torch_delete_stream(h); }) {}
    StreamId id() const
    {
        StreamId number;
        STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_stream_id(its.get(), &number));
        return number;
    }
};

inline Stream getCurrentStream(DeviceIndex index)
{
    StreamHandle stream = nullptr;
    STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_stream(index, &stream));
    return Stream(stream);
}
inline DeviceIndex getCurrentDeviceIndex()
{
    DeviceIndex index;
    STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_device_index(&index));
    return index;
}

} // namespace torch::stable::accelerator
