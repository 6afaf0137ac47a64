#include "plumb/study/held_out.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "plumb/base/error.h"
#include "plumb/model/decoder.h"

namespace plumb {

namespace {

// Of a model that is the same in training (its dropout is out already) the faster products of training are
// taken: those of evaluation give the same bits for any number of rows, which nobody needs here.
Mode mode_of(const Patient& p, const DecoderSpec& s) {
  const bool same = s.norm != "batch" && s.flaws.faults.empty();
  return same || p.faults.evaluate_in_training_mode ? Mode::train : Mode::eval;
}

}  // namespace

double ColumnStats::rms() const {
  return std::sqrt(std::accumulate(mean_square.begin(), mean_square.end(), 0.0) /
                   static_cast<double>(mean_square.size()));
}

/// Replaces, and adds up.
class HeldOut::Watcher final : public Hook<float> {
 public:
  Watcher(std::int64_t block, std::int64_t ignore, std::set<std::string> points)
      : points_(std::move(points)), block_(block), ignore_(ignore) {}

  bool wants(std::string_view point, Dir dir) const override {
    return dir == Dir::forward && (point == "loss.token" || points_.contains(std::string(point)));
  }
  bool rewrites() const override { return true; }
  void begin(int n_shard) override {
    kept_.assign(static_cast<std::size_t>(n_shard), {});
    sums_.assign(static_cast<std::size_t>(n_shard), {});
  }

  void at(std::string_view point, Dir, View<float> v, int shard) override {
    const std::int64_t first = shard * shard_rows;  // tokens before this shard
    if (point == "loss.token") {
      for (std::int64_t i = 0; i < v.rows; ++i)
        losses[static_cast<std::size_t>((first + i) / block_)] += static_cast<double>(*v.row(i));
      return;
    }
    for (const Replace& r : replace) {
      if (!r.from.empty() && point == r.from) keep(v, shard);
      if (point == r.point) r.from.empty() ? fill(r, v) : put_kept(v, shard);
    }
    if (looks) add_up(std::string(point), v, first, shard);
  }

  void merge(int) override {
    if (!looks) return;
    for (const auto& shard : sums_)
      for (const auto& [point, sum] : shard) {
        Sums& all = total[point];
        all.n += sum.n;
        each_list(all, sum);
      }
  }

  struct Sums {
    double n = 0;
    std::vector<double> sum, abs, square, most;
  };
  std::span<const Replace> replace = {};
  bool looks = false;
  std::int64_t shard_rows = 0;
  std::span<const std::int32_t> targets = {};  // of the call
  std::vector<double> losses;                  // by sequence of the call
  std::map<std::string, Sums> total;

 private:
  static void fill(const Replace& r, View<float> v) {
    const std::int64_t n = r.n > 0 ? r.n : v.cols;
    for (std::int64_t i = 0; i < v.rows; ++i)
      for (std::int64_t j = r.first; j < r.first + n; ++j)
        v.row(i)[j] = r.by.empty() ? 0.0F : static_cast<float>(r.by[static_cast<std::size_t>(j)]);
  }

  void keep(View<float> v, int shard) {
    Grid<float>& g = kept_[static_cast<std::size_t>(shard)];
    g = {v.rows, v.cols, std::vector<float>(static_cast<std::size_t>(v.size()))};
    for (std::int64_t i = 0; i < v.rows; ++i) std::copy_n(v.row(i), v.cols, g.data.data() + i * v.cols);
  }

  void put_kept(View<float> v, int shard) {
    const Grid<float>& g = kept_[static_cast<std::size_t>(shard)];
    const std::int64_t lanes = g.rows / v.rows;
    for (std::int64_t i = 0; i < v.rows; ++i)
      for (std::int64_t j = 0; j < v.cols; ++j) {
        float sum = g.data[static_cast<std::size_t>(i * lanes * v.cols + j)];
        for (std::int64_t k = 1; k < lanes; ++k)
          sum += g.data[static_cast<std::size_t>((i * lanes + k) * v.cols + j)];
        v.row(i)[j] = sum;
      }
  }

  void add_up(const std::string& point, View<float> v, std::int64_t first, int shard) {
    Sums& s = sums_[static_cast<std::size_t>(shard)][point];
    for (auto* list : {&s.sum, &s.abs, &s.square}) list->assign(static_cast<std::size_t>(v.cols), 0);
    s.most.assign(static_cast<std::size_t>(v.cols), -HUGE_VAL);
    const std::int64_t tokens = std::min(shard_rows, static_cast<std::int64_t>(targets.size()) - first);
    const std::int64_t lanes = v.rows / tokens;
    for (std::int64_t i = 0; i < v.rows; ++i) {
      if (targets[static_cast<std::size_t>(first + i / lanes)] == ignore_) continue;
      ++s.n;
      for (std::int64_t j = 0; j < v.cols; ++j) {
        const auto value = static_cast<double>(v.row(i)[j]);
        const auto c = static_cast<std::size_t>(j);
        s.sum[c] += value, s.abs[c] += std::abs(value), s.square[c] += value * value;
        s.most[c] = std::max(s.most[c], value);
      }
    }
  }

  static void each_list(Sums& to, const Sums& from) {
    for (const auto list : {&Sums::sum, &Sums::abs, &Sums::square}) {
      (to.*list).resize((from.*list).size());
      for (std::size_t c = 0; c < (from.*list).size(); ++c) (to.*list)[c] += (from.*list)[c];
    }
    to.most.resize(from.most.size(), -HUGE_VAL);
    for (std::size_t c = 0; c < from.most.size(); ++c) to.most[c] = std::max(to.most[c], from.most[c]);
  }

  std::set<std::string> points_;
  std::int64_t block_, ignore_;
  std::vector<Grid<float>> kept_;                  // by shard, of the one replacement that copies
  std::vector<std::map<std::string, Sums>> sums_;  // by shard
};

HeldOut::HeldOut(Patient& p, const DecoderSpec& spec, std::int64_t n, const std::set<std::string>& points,
                 ThreadPool& pool)
    : patient_(p),
      spec_(spec),
      batch_(std::max<std::int64_t>(1, 4096 / p.block())),
      pool_(pool),
      watcher_(std::make_unique<Watcher>(p.block(), p.spec.ignore_index, points)),
      hooks_{watcher_.get()} {
  const std::int64_t rows = p.feed.val_rows(), block = p.block();
  n = std::min(n, rows);
  batch_ = std::min(batch_, n);
  const std::int64_t calls = (n + batch_ - 1) / batch_;
  x_.resize(static_cast<std::size_t>(calls * batch_ * block)), y_.resize(x_.size());
  for (std::int64_t i = 0; i < calls * batch_; ++i) {
    const auto at = static_cast<std::size_t>(i * block), size = static_cast<std::size_t>(block);
    // A row past the last is all padding.
    p.feed.fill_validation(i < n ? i * rows / n : rows, std::span(x_).subspan(at, size),
                           std::span(y_).subspan(at, size));
    if (i < n)
      targets_.push_back(static_cast<double>(std::ranges::count_if(
          std::span(y_).subspan(at, size), [&](std::int32_t t) { return t != p.spec.ignore_index; })));
  }
  if (n_target() == 0)
    bad_input("no target stands in {} sequences of the validation split; use a longer text", n);
  plan_ = std::make_unique<Plan<float>>(
      make_plan<float>(spec_, p.components, p.store,
                       {.mode = mode_of(p, spec_), .batch = batch_, .block = block}, pool, hooks_));
  watcher_->shard_rows = plan_->schedule().sequences * block;
}

HeldOut::~HeldOut() = default;

double HeldOut::n_target() const { return std::accumulate(targets_.begin(), targets_.end(), 0.0); }

bool HeldOut::has(const std::string& point) const {
  return std::ranges::any_of(plan_->graph().values, [&](const ValueInfo& v) {
    return std::ranges::find(v.points, point) != v.points.end();
  });
}

std::vector<double> HeldOut::losses(std::span<const Replace> replace) {
  watcher_->replace = replace;
  std::vector<double> sums;
  const auto size = static_cast<std::size_t>(batch_ * patient_.block());
  for (std::size_t at = 0; at < x_.size(); at += size) {
    const std::span<const std::int32_t> y = std::span(y_).subspan(at, size);
    watcher_->targets = y;
    watcher_->losses.assign(static_cast<std::size_t>(batch_), 0);
    plan_->loss(std::span(x_).subspan(at, size), y, {0, 0});
    sums.insert(sums.end(), watcher_->losses.begin(), watcher_->losses.end());
  }
  watcher_->replace = {};
  sums.resize(targets_.size());
  return sums;
}

double HeldOut::mean(std::span<const double> sums) const {
  return std::accumulate(sums.begin(), sums.end(), 0.0) / n_target();
}

std::map<std::string, ColumnStats> HeldOut::look() {
  watcher_->looks = true;
  losses();
  watcher_->looks = false;
  std::map<std::string, ColumnStats> seen;
  for (auto& [point, s] : watcher_->total) {
    for (auto* list : {&s.sum, &s.abs, &s.square})
      for (double& v : *list) v /= s.n;
    seen[point] = {std::move(s.sum), std::move(s.abs), std::move(s.square), std::move(s.most)};
  }
  watcher_->total.clear();
  return seen;
}

std::vector<double> HeldOut::gradient() {
  DecoderSpec plain = spec_;
  plain.ffn.balance_loss = plain.ffn.router_z_loss = 0;
  auto plan = make_plan<float>(plain, patient_.components, patient_.store,
                               {.mode = Mode::train, .batch = batch_, .block = patient_.block()}, pool_);
  const auto size = static_cast<std::size_t>(batch_ * patient_.block());
  std::vector<double> sum;
  for (std::size_t at = 0; at < x_.size(); at += size) {
    const LossResult l =
        plan.loss_and_grad(std::span(x_).subspan(at, size), std::span(y_).subspan(at, size), {0, 0});
    const std::span<const float> g = plan.grads();
    sum.resize(g.size());
    for (std::size_t i = 0; i < g.size(); ++i)
      sum[i] += static_cast<double>(g[i]) * static_cast<double>(l.tokens) / n_target();
  }
  return sum;
}

}  // namespace plumb
