/* guard.cc - where C++ exceptions of extensions become errors of the library, and one the other way round. */
#include <rushlight.h>

#include <stdexcept>
#include <string>

extern "C" {
int rush_stable_guarded(void (*f)(uint64_t *, uint64_t, uint64_t), uint64_t *stack, uint64_t n, uint64_t nout)
{
    try {
        f(stack, n, nout);
        return rush_error() ? -1 : 0;
    } catch (const std::exception &e) {
        return rush_fail(RUSH_RUNTIME_ERROR, "%s", e.what());
    } catch (...) {
        return rush_fail(RUSH_RUNTIME_ERROR, "an exception of a type that is not known was thrown");
    }
}

__attribute__((visibility("default"))) void aoti_torch_check(bool fine, const char *function, const char *file, uint32_t line, const char *message)
{
    (void)function, (void)file, (void)line;
    if (!fine) throw std::runtime_error(message);
}
}
