#include "plumb/interop/weight_stats.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "plumb/base/error.h"
#include "plumb/base/median.h"
#include "plumb/base/threads.h"

namespace plumb {
namespace {

constexpr std::int64_t piece = std::int64_t{1} << 20;  // elements read at once
constexpr std::int64_t max_spectrum_elements = std::int64_t{1} << 23;
constexpr std::int64_t max_side = std::int64_t{1} << 22;  // a sum is kept for each input channel
constexpr std::size_t max_listed_channels = 20;
constexpr int max_threads = 4;

// Which part an output channel of a matrix belongs to: 0, or 0, 1, 2 for q, k, v.
class Split {
 public:
  Split(const Subject& s, const NamedTensor& t) {
    const bool known = s.q_width && s.kv_width && s.d_head && *s.d_head > 0;
    if (t.name.part != Part::qkv || !known) return;
    q_ = *s.q_width, kv_ = *s.kv_width, head_ = *s.d_head;
    const FusedLayout layout = s.arch ? s.arch->fused : FusedLayout::none;
    if (layout == FusedLayout::none || q_ % head_ != 0 || kv_ % head_ != 0 ||
        q_ + 2 * kv_ != s.out_of(*t.tensor))
      return;
    if (layout != FusedLayout::concat) groups_ = kv_ / head_;
    if (layout != FusedLayout::concat && (q_ / head_) % groups_ != 0) return;
    parts_ = 3;
  }
  int parts() const { return parts_; }
  int of(std::int64_t channel) const {
    if (parts_ == 1) return 0;
    const std::int64_t group = (q_ + 2 * kv_) / groups_, in_group = channel % group;
    if (in_group < q_ / groups_) return 0;
    return in_group < (q_ + kv_) / groups_ ? 1 : 2;
  }

 private:
  int parts_ = 1;
  std::int64_t q_ = 0, kv_ = 0, head_ = 1, groups_ = 1;
};

struct Sums {
  std::int64_t n = 0, non_finite = 0;
  double sum = 0, sum_of_squares = 0, max_abs = 0;
  std::vector<double> by_input;  // sums of squares
  std::vector<float> kept;       // all elements in the order read, when the spectrum is wanted

  void add(float v, std::size_t input) {
    if (!std::isfinite(v)) {
      ++non_finite;
      return;
    }
    const double d = v;
    ++n;
    sum += d;
    sum_of_squares += d * d;
    max_abs = std::max(max_abs, std::abs(d));
    by_input[input] += d * d;
  }
};

void find_outliers(MatrixStats& m, const std::vector<double>& by_input) {
  std::vector<double> norms;
  for (const double squares : by_input) norms.push_back(std::sqrt(squares));
  std::ranges::sort(norms);
  const double median = middle_of(norms);
  if (!(median > 0)) return;
  std::vector<std::int64_t> channels;
  for (std::size_t i = 0; i < by_input.size(); ++i) {
    const double ratio = std::sqrt(by_input[i]) / median;
    m.largest_channel = std::max(m.largest_channel, ratio);
    if (ratio > outlier_ratio) channels.push_back(static_cast<std::int64_t>(i));
  }
  m.n_outliers = static_cast<std::int64_t>(channels.size());
  std::ranges::sort(channels, [&](std::int64_t a, std::int64_t b) {
    return by_input[static_cast<std::size_t>(a)] > by_input[static_cast<std::size_t>(b)];
  });
  if (channels.size() > max_listed_channels) channels.resize(max_listed_channels);
  std::ranges::sort(channels);
  m.outlier_channels = std::move(channels);
}

void find_tail(MatrixStats& m, const Sums& sums, bool transposed) {
  if (sums.non_finite > 0) {
    m.no_tail = "it has values that are not finite";
    return;
  }
  // The eigenvalues of WᵀW and WWᵀ are the same but for zeros, so the order of storage does not matter.
  const TailSearch tail = fit_tail(transposed ? gram_eigenvalues(sums.kept, m.in, m.out)
                                              : gram_eigenvalues(sums.kept, m.out, m.in));
  m.tail = tail.fit;
  m.no_tail = tail.why_not;
}

// How a matrix is read: which axis holds the inputs, and whether its elements are kept for the spectrum.
struct Reading {
  SourceTensor tensor;  // in the order in which it is stored
  std::int64_t rows, cols, in;
  bool transposed, kept;

  Reading(const Subject& s, const NamedTensor& t, const WeightOptions& options)
      : tensor(in_stored_order(*t.tensor)),
        rows(tensor.shape[0]),
        cols(tensor.shape[1]),
        // GPT-2's Conv1D matrices are transposed, its embeddings are not.
        transposed((s.transposed && t.name.layer >= 0) != is_stored_transposed(*t.tensor)),
        kept(std::min(rows, cols) <= options.spectrum && rows * cols <= max_spectrum_elements) {
    in = transposed ? rows : cols;
  }
};

std::array<Sums, 3> read_sums(const Subject& s, const Split& split, const Reading& how) {
  std::array<Sums, 3> sums;
  for (int p = 0; p < split.parts(); ++p)
    sums[static_cast<std::size_t>(p)].by_input.resize(static_cast<std::size_t>(how.in));
  TensorReader reader(s.source);
  std::vector<float> values;
  const std::int64_t n = how.rows * how.cols;
  std::int64_t row = 0, col = 0;
  for (std::int64_t at = 0; at < n; at += piece) {
    values.resize(static_cast<std::size_t>(std::min(piece, n - at)));
    reader.read(how.tensor, static_cast<std::uint64_t>(at), values);
    for (const float v : values) {
      Sums& to = sums[static_cast<std::size_t>(split.of(how.transposed ? col : row))];
      to.add(v, static_cast<std::size_t>(how.transposed ? row : col));
      if (how.kept) to.kept.push_back(v);
      if (++col == how.cols) col = 0, ++row;
    }
  }
  return sums;
}

MatrixStats stats_of(const Sums& sums, const Reading& how, const WeightOptions& options) {
  MatrixStats m;
  m.in = how.in;
  m.out = (sums.n + sums.non_finite) / how.in;
  m.non_finite = sums.non_finite;
  m.max_abs = sums.max_abs;
  if (sums.n > 0) {
    const auto count = static_cast<double>(sums.n);
    m.mean = sums.sum / count;
    m.std = std::sqrt(std::max(0.0, sums.sum_of_squares / count - m.mean * m.mean));
    find_outliers(m, sums.by_input);
  }
  if (how.kept && m.n() > 0)
    find_tail(m, sums, how.transposed);
  else if (options.spectrum > 0)
    m.no_tail = fmt::format("it has {} x {} elements", m.out, m.in);
  return m;
}

std::vector<MatrixStats> measure_matrix(const Subject& s, const NamedTensor& t,
                                        const WeightOptions& options) {
  constexpr Part qkv[] = {Part::q, Part::k, Part::v};
  const Split split(s, t);
  const Reading how(s, t, options);
  std::array<Sums, 3> sums = read_sums(s, split, how);
  std::vector<MatrixStats> all;
  for (int p = 0; p < split.parts(); ++p) {
    Sums& one = sums[static_cast<std::size_t>(p)];
    MatrixStats m = stats_of(one, how, options);
    m.part = split.parts() == 1 ? t.name.part : qkv[p];
    m.layer = t.name.layer;
    m.tensor = t.tensor->name;
    one.kept = {};
    all.push_back(std::move(m));
  }
  return all;
}

NormStats measure_norm(const Subject& s, const NamedTensor& t) {
  std::vector<float> gain(static_cast<std::size_t>(t.tensor->size()));
  TensorReader(s.source).read(*t.tensor, 0, gain);
  NormStats n{.part = t.name.part, .layer = t.name.layer, .tensor = t.tensor->name};
  const bool plus_one = s.spec ? s.spec->norm_gain == "plus_one" : s.arch && s.arch->plus_one;
  const double shift = plus_one ? 1 : 0;
  for (const float v : gain) {
    if (!std::isfinite(v)) {
      ++n.non_finite;
      continue;
    }
    const double g = v + shift;
    n.min = n.finite == 0 ? g : std::min(n.min, g);
    n.max = n.finite == 0 ? g : std::max(n.max, g);
    n.mean += (g - n.mean) / static_cast<double>(++n.finite);
  }
  return n;
}

bool is_norm(Part p) {
  return p == Part::norm || p == Part::q_norm || p == Part::k_norm || p == Part::latent_norm ||
         p == Part::embed_norm || p == Part::final_norm;
}

bool is_weight(Part p) {
  return p <= Part::router || p == Part::token_embed || p == Part::pos_embed || p == Part::head ||
         p == Part::project_in || p == Part::project_out;
}

bool is_float(StoredType type) {
  return type == StoredType::f64 || type == StoredType::f32 || type == StoredType::f16 ||
         type == StoredType::bf16;
}

// The std that the code that made the model draws this matrix with, by the config.
std::optional<double> init_std_of(const Subject& s, const MatrixStats& m) {
  if (s.spec) {
    if (s.spec->init.scheme != "gpt2" && s.spec->init.scheme != "normal") return {};
    const bool scaled = s.spec->init.scheme == "gpt2" && s.spec->init.residual_scale && m.writes_to_stream();
    return s.spec->init.std / (scaled ? std::sqrt(2.0 * static_cast<double>(s.spec->n_layer)) : 1);
  }
  if (!s.arch || !s.config) return {};
  const double base = s.config.init_std() ? s.config.init_std()->value : 0.02;  // the default of all of them
  const bool scaled = s.arch->scaled_init && m.writes_to_stream() && s.n_layer.value_or(0) > 0;
  return base / (scaled ? std::sqrt(2.0 * static_cast<double>(*s.n_layer)) : 1);
}

}  // namespace

WeightStats measure_weights(const Subject& s, const WeightOptions& options) {
  WeightStats stats;
  std::vector<const NamedTensor*> matrices;
  std::int64_t unreadable = 0, codes = 0, odd = 0;
  for (const NamedTensor& t : s.map.tensors) {
    if (t.name.bias || (!is_norm(t.name.part) && !is_weight(t.name.part))) continue;
    if (!t.tensor->unread.empty()) continue;  // the reader has been warned
    if (!CheckpointSource::is_readable(*t.tensor))
      ++unreadable;
    else if (is_weight(t.name.part) && !is_float(t.tensor->type))
      ++codes;
    else if (is_norm(t.name.part) && t.tensor->shape.size() == 1 && t.tensor->shape[0] > 0 &&
             t.tensor->size() <= static_cast<std::uint64_t>(piece))
      stats.norms.push_back(measure_norm(s, t));
    else if (is_weight(t.name.part) && t.tensor->shape.size() == 2 && t.tensor->size() > 0 &&
             std::max(t.tensor->shape[0], t.tensor->shape[1]) <= max_side)
      matrices.push_back(&t);
    else
      ++odd;
  }
  if (unreadable > 0)
    stats.notes.push_back(fmt::format("{} tensors have 8-bit floats: listed, not measured.", unreadable));
  if (codes > 0)
    stats.notes.push_back(fmt::format(
        "{} matrices hold integers, which stand for weights by a rule of their own: listed, not measured.",
        codes));
  if (odd > 0)
    stats.notes.push_back(fmt::format(
        "{} tensors have dimensions that are not measured (not two, none, or one above 4 million).", odd));

  ThreadPool pool(0);
  const std::int64_t together = std::min(pool.size(), max_threads);
  const auto of = static_cast<std::int64_t>(matrices.size());
  for (std::int64_t first = 0; first < of; first += together) {
    if (options.progress && !options.progress(first, of))
      throw Error("interrupted; the answers need the whole checkpoint", 130);
    const std::int64_t n = std::min(together, of - first);
    std::vector<std::vector<MatrixStats>> measured(static_cast<std::size_t>(n));
    pool.run(n, [&](std::int64_t i) {
      measured[static_cast<std::size_t>(i)] =
          measure_matrix(s, *matrices[static_cast<std::size_t>(first + i)], options);
    });
    for (auto& some : measured)
      for (MatrixStats& m : some) {
        m.init_std = init_std_of(s, m);
        stats.matrices.push_back(std::move(m));
      }
  }
  return stats;
}

}  // namespace plumb
