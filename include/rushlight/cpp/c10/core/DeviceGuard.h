/* DeviceGuard.h - a device of any kind that is the current one while the guard lives; the CPU always is. */
#pragma once
#include <optional>
#include <rushlight/at/tensor.hpp>
#include <rushlight/backend.h>

namespace c10 {

class OptionalDeviceGuard {
    std::optional<rush_device> before; /* of that type; none: there is nothing to put back */

public:
    OptionalDeviceGuard() = default;
    explicit OptionalDeviceGuard(std::optional<Device> device)
    {
        if (!device || !device->has_index() || device->is_cpu()) return;
        const rush_device to = device->value();
        before = rush_device{to.type, static_cast<int8_t>(rush_device_current(to.type))};
        rush_device_set_current(to);
    }
    OptionalDeviceGuard(const OptionalDeviceGuard &) = delete;
    OptionalDeviceGuard &operator=(const OptionalDeviceGuard &) = delete;
    ~OptionalDeviceGuard()
    {
        if (before) rush_device_set_current(*before);
    }
};

class DeviceGuard : OptionalDeviceGuard {
public:
    explicit DeviceGuard(Device device) : OptionalDeviceGuard(device) {}
};

} // namespace c10

namespace at {
using c10::DeviceGuard;
using c10::OptionalDeviceGuard;
inline std::optional<Device> device_of(const Tensor &t) { return t.defined() ? std::optional<Device>(t.device()) : std::nullopt; }
} // namespace at
