/* dtypes.cpp - what Tensor::dtype() gives, and devices by name: prints what libtorch prints. */
#include <torch/torch.h>

#include <iostream>
#include <unordered_map>

int main()
{
    torch::Tensor f = torch::ones({2}), d = torch::ones({2}, torch::kDouble);
    caffe2::TypeMeta m = f.dtype();
    auto a = d.dtype();
    std::cout << m << " " << a << " " << f.dtype().name() << " " << a.itemsize() << " " << (m == a) << (m != a) << (m == torch::kFloat) << (torch::kFloat == m) << (f.dtype() == d.dtype()) << (f.dtype() != torch::kFloat) << "\n";
    std::cout << a.toScalarType() << " " << torch::typeMetaToScalarType(a) << " " << c10::scalarTypeToTypeMeta(torch::kInt) << "\n";
    for (auto t : {torch::kByte, torch::kChar, torch::kShort, torch::kInt, torch::kLong, torch::kHalf, torch::kFloat, torch::kDouble, torch::kComplexHalf, torch::kComplexFloat, torch::kComplexDouble, torch::kBool,
                   torch::kBFloat16, torch::kQInt8, torch::kQUInt8, torch::kQInt32, torch::kUInt16, torch::kUInt32, torch::kUInt64, torch::kFloat8_e5m2, torch::kFloat8_e8m0fnu})
        std::cout << c10::scalarTypeToTypeMeta(t) << " " << c10::scalarTypeToTypeMeta(t).itemsize() << " " << t << "\n";
    std::cout << torch::zeros({2}, d.dtype()).dtype() << f.to(d.dtype()).dtype() << torch::zeros_like(f, d.dtype()).dtype() << torch::zeros({1}, torch::dtype(d.dtype()).requires_grad(true)).dtype()
              << torch::empty({1}, torch::TensorOptions().dtype(a)).dtype() << torch::zeros({2}, f.options().dtype(d.dtype())).dtype() << "\n";
    std::cout << m.isScalarType() << m.isScalarType(torch::kFloat) << a.Match<double>() << a.Match<float>() << caffe2::TypeMeta::Make<int64_t>() << caffe2::TypeMeta::TypeName<float>() << caffe2::TypeMeta::ItemSize<float>()
              << caffe2::TypeMeta() << caffe2::TypeMeta().itemsize() << torch::Tensor().dtype() << *c10::optTypeMetaToScalarType(f.dtype()) << torch::toString(f.dtype().toScalarType()) << "\n";
    std::cout << torch::get_default_dtype() << torch::get_default_dtype_as_scalartype();
    torch::set_default_dtype(torch::scalarTypeToTypeMeta(torch::kDouble));
    std::cout << torch::ones({1}).dtype() << "\n";
    torch::set_default_dtype(caffe2::TypeMeta::Make<float>());
    try {
        TORCH_CHECK(f.dtype() == torch::kInt, "f must be int, not ", f.dtype(), " or ", f.scalar_type());
    } catch (const c10::Error &e) {
        std::cout << e.what_without_backtrace() << "\n";
    }
    for (const char *text : {"cpu", "cuda:1", "meta", "cpu:0", "xyz", "cuda:", "cuda:-1", "cuda:01", "", "cpu:0x", "mps", "xpu:0", "CPU", "privateuseone"})
        try {
            torch::Device dev(text);
            std::cout << dev << " " << dev.type() << " " << static_cast<int>(dev.index()) << dev.has_index() << dev.is_cpu() << dev.is_cuda() << dev.str() << "\n";
        } catch (const c10::Error &e) {
            std::cout << e.what_without_backtrace() << "\n";
        }
    std::unordered_map<torch::Device, int> found{{torch::Device("cuda:1"), 3}};
    torch::Device dev = torch::kCPU;
    dev.set_index(0);
    std::cout << found[torch::Device(torch::kCUDA, 1)] << (torch::Device("cuda") == torch::Device("cuda:0")) << dev << torch::kCPU << c10::DeviceTypeName(torch::kCUDA) << "\n";
    std::cout << f.options() << torch::TensorOptions().memory_format(torch::MemoryFormat::ChannelsLast) << "\n";
}
