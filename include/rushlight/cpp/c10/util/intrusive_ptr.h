/* intrusive_ptr.h - objects that are shared, by counters of their own in PyTorch, by those of std::shared_ptr here. */
#pragma once
#include <memory>
#include <utility>

namespace c10 {

struct intrusive_ptr_target {
    virtual ~intrusive_ptr_target() = default;
    virtual void release_resources() {}
};
template <class T> struct intrusive_ptr : std::shared_ptr<T> {
    using std::shared_ptr<T>::shared_ptr;
    intrusive_ptr(std::shared_ptr<T> shared) : std::shared_ptr<T>(std::move(shared)) {}
    template <class... Args> static intrusive_ptr make(Args &&...args) { return std::make_shared<T>(std::forward<Args>(args)...); }
    bool defined() const { return static_cast<bool>(*this); }
};
template <class T, class... Args> intrusive_ptr<T> make_intrusive(Args &&...args) { return intrusive_ptr<T>::make(std::forward<Args>(args)...); }

} // namespace c10
