/* data.hpp - torch::data: datasets, transforms of examples and batches, samplers, and the loader that walks them in the calling thread. */
#ifndef RUSHLIGHT_AT_DATA_HPP
#define RUSHLIGHT_AT_DATA_HPP

#include "nn.hpp"
#include <fstream>

namespace torch::data {

template <class Data = Tensor, class Target = Tensor> struct Example {
    using DataType = Data;
    using TargetType = Target;
    Example() = default;
    Example(Data d, Target t) : data(std::move(d)), target(std::move(t)) {}
    Data data;
    Target target;
};
using TensorExample = Example<Tensor, Tensor>;

namespace transforms {

/* Of each example, or of the list of them. */
template <class In, class Out> struct BatchTransform {
    using InputBatchType = In;
    using OutputBatchType = Out;
    virtual ~BatchTransform() = default;
    virtual Out apply_batch(In) = 0;
};
template <class In, class Out> struct Transform : BatchTransform<std::vector<In>, std::vector<Out>> {
    virtual Out apply(In) = 0;
    std::vector<Out> apply_batch(std::vector<In> batch) override
    {
        std::vector<Out> made;
        for (auto &x : batch) made.push_back(apply(std::move(x)));
        return made;
    }
};
template <class Target = Tensor> struct TensorTransform : Transform<Example<Tensor, Target>, Example<Tensor, Target>> {
    virtual Tensor operator()(Tensor x) = 0;
    Example<Tensor, Target> apply(Example<Tensor, Target> x) override
    {
        x.data = (*this)(std::move(x.data));
        return x;
    }
};
template <class Target = Tensor> struct Normalize : TensorTransform<Target> {
    Tensor mean, stddev;
    Normalize(at::ArrayRef<double> m, at::ArrayRef<double> s) : mean(channels(m)), stddev(channels(s)) {}
    Tensor operator()(Tensor x) override { return x.sub(mean).div(stddev); }

private:
    static Tensor channels(at::ArrayRef<double> list) { return at::tensor(list.vec(), kFloat).unsqueeze(1).unsqueeze(2); }
};
template <class E = TensorExample> struct Stack : BatchTransform<std::vector<E>, E> {
    E apply_batch(std::vector<E> batch) override
    {
        std::vector<Tensor> data, target;
        for (auto &x : batch) data.push_back(std::move(x.data)), target.push_back(std::move(x.target));
        return {at::stack(data), at::stack(target)};
    }
};
template <class In, class Out = In> struct Lambda : Transform<In, Out> {
    std::function<Out(In)> function;
    explicit Lambda(std::function<Out(In)> f) : function(std::move(f)) {}
    Out apply(In x) override { return function(std::move(x)); }
};

} // namespace transforms

namespace datasets {

template <class Source, class Transform> class MapDataset;

/* What gives batches for lists of indices. */
template <class Self, class Batch, class Request = at::ArrayRef<size_t>> struct BatchDataset {
    using BatchType = Batch;
    using BatchRequestType = Request;
    virtual ~BatchDataset() = default;
    virtual Batch get_batch(Request) = 0;
    virtual std::optional<size_t> size() const = 0;
    template <class T> MapDataset<Self, T> map(T transform) & { return {static_cast<Self &>(*this), std::move(transform)}; }
    template <class T> MapDataset<Self, T> map(T transform) && { return {std::move(static_cast<Self &>(*this)), std::move(transform)}; }
};
template <class Self, class SingleExample = TensorExample> struct Dataset : BatchDataset<Self, std::vector<SingleExample>> {
    using ExampleType = SingleExample;
    virtual SingleExample get(size_t index) = 0;
    std::vector<SingleExample> get_batch(at::ArrayRef<size_t> indices) override
    {
        std::vector<SingleExample> batch;
        for (size_t i : indices) batch.push_back(get(i));
        return batch;
    }
};
template <class Source, class Transform> class MapDataset : public BatchDataset<MapDataset<Source, Transform>, typename Transform::OutputBatchType> {
    Source source;
    Transform transform;

public:
    using DatasetType = Source;
    using TransformType = Transform;
    MapDataset(Source s, Transform t) : source(std::move(s)), transform(std::move(t)) {}
    typename Transform::OutputBatchType get_batch(at::ArrayRef<size_t> indices) override { return transform.apply_batch(source.get_batch(indices)); }
    std::optional<size_t> size() const noexcept override { return source.size(); }
    const Source &dataset() const { return source; }
};
struct TensorDataset : Dataset<TensorDataset, TensorExample> {
    Tensor data, target;
    TensorDataset(Tensor d, Tensor t = Tensor()) : data(std::move(d)), target(std::move(t)) {}
    TensorExample get(size_t i) override { return {data[static_cast<int64_t>(i)], target.defined() ? target[static_cast<int64_t>(i)] : Tensor()}; }
    std::optional<size_t> size() const override { return static_cast<size_t>(data.size(0)); }
};

/* Handwritten digits, from the four files of their home page, unpacked. */
class MNIST : public Dataset<MNIST> {
public:
    enum class Mode { kTrain, kTest };

private:
    Tensor its_images, its_targets;

    /* Bytes behind a big-endian header: a magic number, then the sizes. */
    static Tensor read(const std::string &path, const char *what, int dims)
    {
        std::ifstream file(path, std::ios::binary);
        TORCH_CHECK(file, "Error opening ", what, " file at ", path);
        auto number = [&] {
            unsigned char b[4] = {};
            file.read(reinterpret_cast<char *>(b), 4);
            return static_cast<int64_t>(b[0]) << 24 | b[1] << 16 | b[2] << 8 | b[3];
        };
        TORCH_CHECK(number() == 0x800 + dims, "The header of ", path, " is not that of such a file");
        std::vector<int64_t> sizes;
        for (int i = 0; i < dims; ++i) sizes.push_back(number());
        Tensor bytes = at::empty(sizes, kByte);
        file.read(static_cast<char *>(bytes.data_ptr()), bytes.numel());
        TORCH_CHECK(file.gcount() == bytes.numel(), path, " ends too early");
        return bytes;
    }

public:
    explicit MNIST(const std::string &root, Mode mode = Mode::kTrain)
    {
        std::string prefix = root + (mode == Mode::kTrain ? "/train" : "/t10k");
        its_images = read(prefix + "-images-idx3-ubyte", "images", 3).unsqueeze(1).to(kFloat).div_(255);
        its_targets = read(prefix + "-labels-idx1-ubyte", "targets", 1).to(kLong);
    }
    TensorExample get(size_t i) override { return {its_images[static_cast<int64_t>(i)], its_targets[static_cast<int64_t>(i)]}; }
    std::optional<size_t> size() const override { return static_cast<size_t>(its_images.size(0)); }
    const Tensor &images() const { return its_images; }
    const Tensor &targets() const { return its_targets; }
};

} // namespace datasets

/* The name that programs of old derive from. */
template <class Self, class E = TensorExample> using Dataset = datasets::Dataset<Self, E>;

namespace samplers {

template <class Batch = std::vector<size_t>> struct Sampler {
    virtual ~Sampler() = default;
    virtual void reset(std::optional<size_t> size = std::nullopt) = 0;
    virtual std::optional<Batch> next(size_t batch_size) = 0;
};
class SequentialSampler : public Sampler<> {
    size_t size, at = 0;

public:
    explicit SequentialSampler(size_t n) : size(n) {}
    void reset(std::optional<size_t> n = std::nullopt) override { size = n.value_or(size), at = 0; }
    std::optional<std::vector<size_t>> next(size_t batch_size) override
    {
        if (at >= size) return std::nullopt;
        std::vector<size_t> batch(std::min(batch_size, size - at));
        std::iota(batch.begin(), batch.end(), at);
        at += batch.size();
        return batch;
    }
};
class RandomSampler : public Sampler<> {
    Tensor order;
    int64_t at = 0;

public:
    explicit RandomSampler(size_t n) : order(at::randperm(static_cast<int64_t>(n), TensorOptions(kLong))) {}
    void reset(std::optional<size_t> n = std::nullopt) override
    {
        order = at::randperm(n ? static_cast<int64_t>(*n) : order.numel(), TensorOptions(kLong));
        at = 0;
    }
    std::optional<std::vector<size_t>> next(size_t batch_size) override
    {
        int64_t end = std::min(order.numel(), at + static_cast<int64_t>(batch_size));
        if (at >= end) return std::nullopt;
        const int64_t *first = order.data_ptr<int64_t>();
        std::vector<size_t> batch(first + at, first + end);
        at = end;
        return batch;
    }
};

} // namespace samplers

struct DataLoaderOptions {
    DataLoaderOptions(size_t batch = 1) : batch_size_(batch) {}
    TORCH_ARG(size_t, batch_size);
    TORCH_ARG(size_t, workers) = 0;
    TORCH_ARG(bool, drop_last) = false;
    TORCH_ARG(bool, enforce_ordering) = true;
};

template <class Dataset, class Sampler> class DataLoader {
    Dataset dataset;
    Sampler sampler;
    DataLoaderOptions options;

public:
    using BatchType = typename Dataset::BatchType;
    DataLoader(Dataset d, Sampler s, DataLoaderOptions o) : dataset(std::move(d)), sampler(std::move(s)), options(o) {}

    class Iterator {
        DataLoader *loader;
        std::optional<BatchType> batch;

    public:
        using iterator_category = std::input_iterator_tag;
        using value_type = BatchType;
        using difference_type = std::ptrdiff_t;
        using pointer = BatchType *;
        using reference = BatchType &;
        explicit Iterator(DataLoader *from) : loader(from)
        {
            if (loader) ++*this;
        }
        Iterator &operator++()
        {
            auto indices = loader->sampler.next(loader->options.batch_size());
            if (indices && loader->options.drop_last() && indices->size() < loader->options.batch_size()) indices.reset();
            if (indices) batch = loader->dataset.get_batch(*indices);
            else batch.reset(), loader = nullptr;
            return *this;
        }
        BatchType &operator*() { return *batch; }
        BatchType *operator->() { return &*batch; }
        bool operator==(const Iterator &other) const { return loader == other.loader; }
        bool operator!=(const Iterator &other) const { return loader != other.loader; }
    };
    Iterator begin()
    {
        sampler.reset();
        return Iterator(this);
    }
    Iterator end() { return Iterator(nullptr); }
};

template <class Sampler = samplers::RandomSampler, class Dataset> std::unique_ptr<DataLoader<Dataset, Sampler>> make_data_loader(Dataset dataset, DataLoaderOptions options = {})
{
    auto size = dataset.size();
    TORCH_CHECK(size, "Expected the dataset to be sized in order to construct the Sampler");
    return std::make_unique<DataLoader<Dataset, Sampler>>(std::move(dataset), Sampler(*size), options);
}
template <class Dataset, class Sampler, class = std::enable_if_t<std::is_base_of_v<samplers::Sampler<>, Sampler>>>
std::unique_ptr<DataLoader<Dataset, Sampler>> make_data_loader(Dataset dataset, Sampler sampler, DataLoaderOptions options = {})
{
    return std::make_unique<DataLoader<Dataset, Sampler>>(std::move(dataset), std::move(sampler), options);
}

} // namespace torch::data
#endif
