/* lbfgs.hpp - torch::optim::LBFGS: the direction from the last steps and changes of gradient, all parameters as one vector.
 *
 * Nocedal and Wright, Numerical optimization, chapters 3 (the search along a line) and 7 (the two loops).
 */
#ifndef RUSHLIGHT_AT_LBFGS_HPP
#define RUSHLIGHT_AT_LBFGS_HPP

#include "optim.hpp"

namespace torch::optim {

struct LBFGSOptions : OptimizerCloneableOptions<LBFGSOptions> {
    LBFGSOptions(double lr = 1) : lr_(lr) {}
    TORCH_ARG(double, lr);
    TORCH_ARG(int64_t, max_iter) = 20;
    TORCH_ARG(std::optional<int64_t>, max_eval) = std::nullopt; /* 5 / 4 of max_iter */
    TORCH_ARG(double, tolerance_grad) = 1e-7;
    TORCH_ARG(double, tolerance_change) = 1e-9;
    TORCH_ARG(int64_t, history_size) = 100;
    TORCH_ARG(std::optional<std::string>, line_search_fn) = std::nullopt; /* or "strong_wolfe" */

public:
    template <class F> void each(F &&f)
    {
        f("lr", lr_), f("max_iter", max_iter_), f("max_eval", max_eval_), f("tolerance_grad", tolerance_grad_), f("tolerance_change", tolerance_change_);
        f("history_size", history_size_), f("line_search_fn", line_search_fn_);
    }
};

/* Of all parameters; it is kept with the first. */
struct LBFGSParamState : OptimizerCloneableParamState<LBFGSParamState> {
    TORCH_ARG(int64_t, func_evals) = 0;
    TORCH_ARG(int64_t, n_iter) = 0;
    TORCH_ARG(double, t) = 0;
    TORCH_ARG(double, prev_loss) = 0;
    TORCH_ARG(Tensor, d);
    TORCH_ARG(Tensor, H_diag);
    TORCH_ARG(Tensor, prev_flat_grad);
    TORCH_ARG(std::deque<Tensor>, old_dirs);
    TORCH_ARG(std::deque<Tensor>, old_stps);
    TORCH_ARG(std::deque<Tensor>, ro);
    TORCH_ARG(std::optional<std::vector<Tensor>>, al) = std::nullopt;

public:
    template <class F> void each(F &&f)
    {
        f("func_evals", func_evals_), f("n_iter", n_iter_), f("t", t_), f("prev_loss", prev_loss_), f("d", d_), f("H_diag", H_diag_), f("prev_flat_grad", prev_flat_grad_);
        f("old_dirs", old_dirs_), f("old_stps", old_stps_), f("ro", ro_), f("al", al_);
    }
};

class LBFGS : public Optimizer {
    std::vector<Tensor> &params() { return param_groups_.at(0).params(); }

    /* A place on the line: step, loss, gradient, slope. */
    struct Point {
        double t, loss;
        Tensor grad;
        double slope;
    };

    static double number(const Tensor &x) { return x.item<double>(); }
    static double largest(const Tensor &x) { return number(x.abs().max()); }

    Tensor flat_grad()
    {
        std::vector<Tensor> pieces;
        for (const Tensor &x : params()) {
            Tensor grad = x.grad();
            if (!grad.defined()) pieces.push_back(x.new_zeros({x.numel()}));
            else pieces.push_back((grad.is_sparse() ? grad.to_dense() : grad).reshape({-1}));
        }
        return at::cat(pieces, 0);
    }
    void move(double t, const Tensor &direction)
    {
        int64_t at = 0;
        for (Tensor &x : params()) {
            x.add_(direction.narrow(0, at, x.numel()).view_as(x), t);
            at += x.numel();
        }
    }
    Point evaluate(const LossClosure &closure, const std::vector<Tensor> &from, double t, const Tensor &direction)
    {
        move(t, direction);
        double loss = number(loss_of(closure));
        Tensor grad = flat_grad();
        for (size_t i = 0; i < from.size(); ++i) params()[i].copy_(from[i]);
        return {t, loss, grad, number(grad.dot(direction))};
    }

    /* The least of the cubic through two points with two slopes, kept within bounds. */
    static double cubic(const Point &a, const Point &b, double low, double high)
    {
        double d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t), square = d1 * d1 - a.slope * b.slope;
        if (square < 0) return (low + high) / 2;
        const Point &left = a.t <= b.t ? a : b, &right = a.t <= b.t ? b : a;
        double d2 = std::sqrt(square);
        return std::min(std::max(right.t - (right.t - left.t) * ((right.slope + d2 - d1) / (right.slope - left.slope + 2 * d2)), low), high);
    }

    /* A point that meets the strong Wolfe conditions, or the best of those that were looked at. */
    Point strong_wolfe(const LossClosure &closure, const std::vector<Tensor> &from, double t, const Tensor &direction, const Point &start, double tolerance_change, int64_t &evaluations)
    {
        constexpr double c1 = 1e-4, c2 = 0.9;
        constexpr int most = 25;
        double norm = largest(direction);
        auto at = [&](double step) { return ++evaluations, evaluate(closure, from, step, direction); };
        auto falls = [&](const Point &p) { return p.loss <= start.loss + c1 * p.t * start.slope; };
        auto flat = [&](const Point &p) { return std::abs(p.slope) <= -c2 * start.slope; };

        /* Enlarge the step until such a point lies between two. */
        Point before = start, now = at(t);
        std::vector<Point> bracket;
        bool done = false;
        int iterations = 0;
        for (; iterations < most && bracket.empty(); ++iterations) {
            if (!falls(now) || (iterations > 1 && now.loss >= before.loss)) bracket = {before, now};
            else if (flat(now)) bracket = {now}, done = true;
            else if (now.slope >= 0) bracket = {before, now};
            if (!bracket.empty()) break;
            double next = cubic(before, now, now.t + 0.01 * (now.t - before.t), now.t * 10);
            before = std::exchange(now, at(next));
        }
        if (bracket.empty()) bracket = {start, now};

        /* Draw the two together. */
        bool stuck = false;
        size_t low = bracket[0].loss <= bracket.back().loss ? 0 : bracket.size() - 1, high = bracket.size() - 1 - low;
        while (!done && iterations < most) {
            double bottom = std::min(bracket[0].t, bracket[1].t), top = std::max(bracket[0].t, bracket[1].t), margin = 0.1 * (top - bottom);
            if ((top - bottom) * norm < tolerance_change) break;
            double next = cubic(bracket[0], bracket[1], bottom, top);
            bool near = std::min(top - next, next - bottom) < margin;
            if (near && (stuck || next >= top || next <= bottom)) { /* near an end once is forgiven */
                next = std::abs(next - top) < std::abs(next - bottom) ? top - margin : bottom + margin;
                near = false;
            }
            stuck = near;
            now = at(next);
            ++iterations;
            if (!falls(now) || now.loss >= bracket[low].loss) {
                bracket[high] = now;
                low = bracket[0].loss <= bracket[1].loss ? 0 : 1, high = 1 - low;
            } else {
                if (flat(now)) done = true;
                else if (now.slope * (bracket[high].t - bracket[low].t) >= 0) bracket[high] = bracket[low];
                bracket[low] = now;
            }
        }
        return bracket[low];
    }

    /* Minus the inverse Hessian times the gradient, after what the last step showed. */
    static void turn(LBFGSParamState &s, const Tensor &grad, size_t history)
    {
        std::deque<Tensor> &changes = s.old_dirs(), &steps = s.old_stps(), &ro = s.ro();
        Tensor y = grad.sub(s.prev_flat_grad()), step = s.d().mul(s.t()), ys = y.dot(step);
        if (number(ys) > 1e-10) {
            if (changes.size() == history) changes.pop_front(), steps.pop_front(), ro.pop_front();
            changes.push_back(y), steps.push_back(step), ro.push_back(1. / ys);
            s.H_diag(ys / y.dot(y));
        }
        if (!s.al()) s.al(std::vector<Tensor>(history));
        std::vector<Tensor> &al = *s.al();
        Tensor q = grad.neg();
        for (size_t i = changes.size(); i-- > 0;) {
            al[i] = steps[i].dot(q) * ro[i];
            q.add_(changes[i], -number(al[i]));
        }
        s.d(q.mul(s.H_diag()));
        for (size_t i = 0; i < changes.size(); ++i) s.d().add_(steps[i], number(al[i] - changes[i].dot(s.d()) * ro[i]));
    }

protected:
    std::unique_ptr<OptimizerParamState> empty_state() const override { return std::make_unique<LBFGSParamState>(); }

public:
    explicit LBFGS(const std::vector<OptimizerParamGroup> &groups, LBFGSOptions defaults = {}) : Optimizer(groups, std::make_unique<LBFGSOptions>(defaults))
    {
        TORCH_CHECK(param_groups_.size() == 1, "LBFGS doesn't support per-parameter options (parameter groups)");
    }
    explicit LBFGS(std::vector<Tensor> parameters, LBFGSOptions defaults = {}) : LBFGS(std::vector<OptimizerParamGroup>{OptimizerParamGroup(std::move(parameters))}, std::move(defaults)) {}

    /* At most max_iter iterations. */
    Tensor step(LossClosure closure) override
    {
        TORCH_CHECK(closure != nullptr, "LBFGS requires a closure function");
        NoGradGuard unrecorded;
        const auto &o = dynamic_cast<const LBFGSOptions &>(param_groups_[0].options());
        TORCH_CHECK(!o.line_search_fn() || *o.line_search_fn() == "strong_wolfe", "only 'strong_wolfe' is supported, but got ", o.line_search_fn().value_or(""));
        std::unique_ptr<OptimizerParamState> &kept = state_[params().at(0).get()];
        if (!kept) kept = empty_state();
        auto &s = dynamic_cast<LBFGSParamState &>(*kept);
        Tensor first = loss_of(closure);
        double loss = number(first);
        int64_t evaluations = 1, most = o.max_eval().value_or(o.max_iter() * 5 / 4);
        ++s.func_evals();
        Tensor grad = flat_grad();
        bool optimal = largest(grad) <= o.tolerance_grad();
        for (int64_t iteration = 1; !optimal && iteration <= o.max_iter(); ++iteration) {
            if (++s.n_iter() == 1) s.d(grad.neg()).H_diag(at::tensor(1)).old_dirs({}).old_stps({}).ro({});
            else turn(s, grad, static_cast<size_t>(o.history_size()));
            s.prev_flat_grad(grad.clone()).prev_loss(loss);
            s.t(s.n_iter() == 1 ? std::min(1., 1. / number(grad.abs().sum())) * o.lr() : o.lr());
            double slope = number(grad.dot(s.d()));
            if (slope > -o.tolerance_change()) break;
            int64_t before = evaluations;
            if (o.line_search_fn()) {
                std::vector<Tensor> from;
                for (const Tensor &x : params()) from.push_back(x.clone(at::MemoryFormat::Contiguous));
                Point found = strong_wolfe(closure, from, s.t(), s.d(), {0, loss, grad, slope}, o.tolerance_change(), evaluations);
                loss = found.loss, grad = found.grad, s.t(found.t);
                move(found.t, s.d());
                optimal = largest(grad) <= o.tolerance_grad();
            } else {
                move(s.t(), s.d());
                if (iteration != o.max_iter()) { /* the next step() evaluates what the last iteration led to */
                    loss = number(loss_of(closure));
                    grad = flat_grad();
                    optimal = largest(grad) <= o.tolerance_grad();
                    ++evaluations;
                }
            }
            s.func_evals(s.func_evals() + evaluations - before);
            if (evaluations >= most || largest(s.d().mul(s.t())) <= o.tolerance_change() || std::abs(loss - s.prev_loss()) < o.tolerance_change()) break;
        }
        return first;
    }
};

} // namespace torch::optim
#endif
