// stable.cpp - an extension by PyTorch's stable C symbols alone, or (PROGRAM) what AOTInductor makes of a program: both find them in libtorch_cpu.so.
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

struct Tensor;
struct List;
struct Text;
struct Library;
extern "C" {
int32_t aoti_torch_library_init_def(const char *, const char *, uint32_t, Library **);
int32_t aoti_torch_library_init_impl(const char *, const char *, const char *, uint32_t, Library **);
int32_t aoti_torch_library_def(Library *, const char *);
int32_t torch_library_impl(Library *, const char *, void (*)(uint64_t *, uint64_t, uint64_t), uint64_t);
int32_t torch_call_dispatcher(const char *, const char *, uint64_t *, uint64_t);
int32_t torch_list_size(List *, size_t *);
int32_t torch_string_c_str(Text *, const char **);
int32_t torch_delete_string(Text *);
const char *torch_exception_get_what();
int32_t aoti_torch_get_data_ptr(Tensor *, void **);
int32_t aoti_torch_get_numel(Tensor *, int64_t *);
int32_t aoti_torch_get_sizes(Tensor *, int64_t **);
int32_t aoti_torch_get_dtype(Tensor *, int32_t *);
int32_t aoti_torch_dtype_float32();
int32_t aoti_torch_empty_strided(int64_t, const int64_t *, const int64_t *, int32_t, int32_t, int32_t, Tensor **);
int32_t aoti_torch_delete_tensor_object(Tensor *);
int32_t aoti_torch_cpu_addmm_out(Tensor *, Tensor *, Tensor *, Tensor *, double, double);
int32_t aoti_torch_aten_subtract_Tensor(Tensor *, Tensor *, double, Tensor **);
// The last argument of these two is one too many: whoever looks at it takes what is not given.
int32_t aoti_torch_aten_fill__Scalar(Tensor *, double, Tensor **);
int32_t aoti_torch_cpu_randint_low_out(Tensor *, int64_t, int64_t, const int64_t *, int64_t, int32_t *);
}

#ifndef PROGRAM
static void check(int32_t failed)
{
    if (failed) throw std::runtime_error(torch_exception_get_what());
}
template <class T> static T as(uint64_t x)
{
    T t;
    std::memcpy(&t, &x, sizeof t);
    return t;
}
static uint64_t raw(const void *p) { return reinterpret_cast<uintptr_t>(p); }

// mix(Tensor x, float k, Tensor? more, int[] dims, str how) -> Tensor
static void mix(uint64_t *stack, uint64_t n, uint64_t nout)
{
    if (n != 5 || nout != 1) throw std::runtime_error("mix: another schema");
    Tensor *x = as<Tensor *>(stack[0]);
    double k = as<double>(stack[1]);
    auto *more = as<uint64_t *>(stack[2]);
    List *dims = as<List *>(stack[3]);
    Text *how = as<Text *>(stack[4]);
    const char *text;
    size_t count;
    int32_t dtype;
    check(torch_string_c_str(how, &text) || torch_list_size(dims, &count) || aoti_torch_get_dtype(x, &dtype));
    if (dtype != aoti_torch_dtype_float32()) throw std::runtime_error("mix takes float32");
    if (std::string(text) == "sub" && more) check(aoti_torch_aten_subtract_Tensor(x, as<Tensor *>(*more), k, &x));
    if (std::string(text) == "fill") {
        Tensor *none = nullptr;
        int64_t size[] = {2, 3};
        int32_t wrong = -7;
        check(aoti_torch_cpu_randint_low_out(x, 5, 6, size, 2, &wrong));
        float *p;
        check(aoti_torch_get_data_ptr(x, reinterpret_cast<void **>(&p)));
        if (p[0] != 5 || p[5] != 5) throw std::runtime_error("randint.low_out drew another number");
        check(aoti_torch_aten_fill__Scalar(x, k, &none));
        if (none) throw std::runtime_error("fill_ gives a result that nobody asked for");
    }
    uint64_t sum[] = {raw(x), raw(dims), 0, 0}; // both are given away
    check(torch_call_dispatcher("aten::amax", "", sum, 0));
    if (more) check(aoti_torch_delete_tensor_object(as<Tensor *>(*more)));
    delete more;
    torch_delete_string(how);
    stack[0] = sum[0];
}

static struct Defined {
    Defined()
    {
        Library *all, *cpu;
        check(aoti_torch_library_init_def("stable_test", __FILE__, __LINE__, &all) || aoti_torch_library_def(all, "mix(Tensor x, float k, Tensor? more, int[] dims, str how) -> Tensor"));
        check(aoti_torch_library_init_impl("stable_test", "CPU", __FILE__, __LINE__, &cpu) || torch_library_impl(cpu, "mix", mix, 0));
    }
} defined;

#else

// A program of AOTInductor's: relu(a @ b + 1), whose inputs it owns.
extern "C" {
float Sleef_expf_u10(float);
int32_t AOTInductorModelContainerCreateWithDevice(void **made, size_t, const char *, const char *) { return *made = made, 0; }
int32_t AOTInductorModelContainerGetNumInputs(void *, size_t *n) { return *n = 2, 0; }
int32_t AOTInductorModelContainerGetNumOutputs(void *, size_t *n) { return *n = 1, 0; }
int32_t AOTInductorModelContainerGetCallSpec(void *, const char **in, const char **out)
{
    *in = "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, "
          "\"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}]}, {\"type\": \"builtins.dict\", \"context\": \"[]\", \"children_spec\": []}]}]";
    *out = "[1, {\"type\": null, \"context\": null, \"children_spec\": []}]";
    return 0;
}
int32_t AOTInductorModelContainerRun(void *, Tensor **in, size_t, Tensor **out, size_t, void *, void *)
{
    int64_t *a, *b, n;
    float *y;
    if (aoti_torch_get_sizes(in[0], &a) || aoti_torch_get_sizes(in[1], &b)) return 1;
    int64_t size[] = {a[0], b[1]}, stride[] = {b[1], 1};
    if (aoti_torch_empty_strided(2, size, stride, aoti_torch_dtype_float32(), 0, 0, &out[0])) return 1;
    if (aoti_torch_get_data_ptr(out[0], reinterpret_cast<void **>(&y)) || aoti_torch_get_numel(out[0], &n)) return 1;
    for (int64_t i = 0; i < n; ++i) y[i] = 1;
    if (aoti_torch_cpu_addmm_out(out[0], out[0], in[0], in[1], 1, 1)) return 1;
    for (int64_t i = 0; i < n; ++i) y[i] = y[i] > 0 ? y[i] : 0;
#ifdef WITH_SLEEF
    for (int64_t i = 0; i < n; ++i) y[i] = Sleef_expf_u10(y[i]);
#endif
    return aoti_torch_delete_tensor_object(in[0]) || aoti_torch_delete_tensor_object(in[1]);
}
}
#endif
