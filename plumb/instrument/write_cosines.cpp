// How the writes of the sub-layers lie to one another, and what that makes of the stream's size.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "plumb/base/wrap.h"
#include "plumb/instrument/instrument.h"
#include "plumb/kernel/measure.h"
#include "plumb/study/audit.h"

namespace plumb {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
// Of the stream's rms: what a sum in single or half precision may be off.
constexpr double largest_rounding = 0.01;

double std_of(const Grid<float>& g) {
  return moments(View<const float>{g.data.data(), g.rows, g.cols, g.cols}).std();
}

struct Written {
  std::string name;           // "3.ffn"
  Grid<float> value;          // what it adds to the stream
  double measured = unknown;  // std of the stream behind it
  double predicted = unknown, independent = unknown, equal = unknown;
  // Where a norm stands behind the addition: what it reads, sqrt(a^2 var(skip) + var(write)), and a.
  double sum = unknown, sum_predicted = unknown, skip_factor = unknown;
};

struct Writes {
  Grid<float> start;  // the stream before the first block
  std::vector<Written> all = {};
  bool normed = false;   // a norm stands behind each addition
  bool adds_up = false;  // the stream is the start and the sum of all before
  bool changes = false;  // not the writes, but the stream behind minus the stream before
};

Grid<float> difference(const Grid<float>& a, const Grid<float>& b) {
  Grid<float> d = a;
  for (std::size_t i = 0; i < d.data.size(); ++i) d.data[i] -= b.data[i];
  return d;
}

bool is_sum(const Grid<float>& after, const Grid<float>& before,
            const std::vector<const Grid<float>*>& writes) {
  Grid<float> rest = difference(after, before);
  for (const Grid<float>* w : writes) rest = difference(rest, *w);
  return rms(rest) <= largest_rounding * rms(after);
}

// The factor of the skip in what the norm reads is measured: 1 for a plain addition, alpha for DeepNorm.
// Where what is left of the sum is not the write (a gate scales it), the law is not said.
void add_sum(Written& w, const Grid<float>& skip, const Grid<float>& sum) {
  w.sum = std_of(sum);
  double along = 0, squares = 0;
  for (std::size_t i = 0; i < sum.data.size(); ++i) {
    const double x = skip.data[i];
    along += x * (static_cast<double>(sum.data[i]) - static_cast<double>(w.value.data[i])), squares += x * x;
  }
  const double factor = along / squares;
  Grid<float> scaled = skip;
  for (float& x : scaled.data) x = static_cast<float>(factor * static_cast<double>(x));
  // Held against the write, which beside the skip of a fresh Post-LN model is less than a hundredth.
  const Grid<float> rest = difference(difference(sum, scaled), w.value);
  if (!(rms(rest) <= largest_rounding * rms(w.value))) return;
  w.skip_factor = factor, w.sum_predicted = std::hypot(factor * std_of(skip), std_of(w.value));
}

Writes writes_of(const Patient& p, const Seen& s) {
  const auto placement = std::ranges::find(p.components.placement, p.spec.placement, &Placement::name);
  Writes w{.start = *s.find("blocks.0.in"), .normed = placement->after_add};
  bool plain = true, lanes = false;
  for (std::int64_t i = 0; i < p.spec.n_layer; ++i) {
    const auto at = [&](std::string_view end) { return s.find(block_point(i, end)); };
    const Grid<float>&in = *at(".in"), &out = *at(".out"), &attn = *at(".attn.write"),
          &ffn = *at(".ffn.write");
    const Grid<float>* mid = at(".mid");
    w.all.push_back(
        {.name = fmt::format("{}.attn", i), .value = attn, .measured = mid ? std_of(*mid) : unknown});
    w.all.push_back({.name = fmt::format("{}.ffn", i), .value = ffn, .measured = std_of(out)});
    lanes = lanes || in.cols != attn.cols;
    if (lanes) continue;
    if (w.normed) {
      const auto read = [&](Written& one, const std::string& sub) {
        const Grid<float>*skip = at(sub + ".skip"), *sum = at(sub + ".norm_in");
        if (skip && sum) add_sum(one, *skip, *sum);
      };
      read(w.all[w.all.size() - 2], ".attn"), read(w.all.back(), ".ffn");
    }
    plain = plain &&
            (mid ? is_sum(*mid, in, {&attn}) && is_sum(out, *mid, {&ffn}) : is_sum(out, in, {&attn, &ffn}));
  }
  w.adds_up = plain && !lanes;
  if (w.adds_up || w.normed || lanes || placement->parallel) return w;
  for (std::int64_t i = 0; i < p.spec.n_layer; ++i) {
    const Grid<float>& mid = *s.find(block_point(i, ".mid"));
    w.all[static_cast<std::size_t>(2 * i)].value = difference(mid, *s.find(block_point(i, ".in")));
    w.all[static_cast<std::size_t>(2 * i + 1)].value = difference(*s.find(block_point(i, ".out")), mid);
  }
  w.adds_up = w.changes = true;
  return w;
}

// Over all elements: the covariance, and the mean over rows of the cosine of two rows. Rows of zeros have
// none.
struct Pair {
  double covariance = 0, cosine = 0;
};
Pair compared(const Grid<float>& a, const Grid<float>& b) {
  const auto n = static_cast<double>(a.data.size());
  double sum_a = 0, sum_b = 0, sum = 0;
  Mean cosine;
  for (std::int64_t i = 0; i < a.rows; ++i) {
    const auto x = row_of(a, i), y = row_of(b, i);
    double xy = 0, xx = 0, yy = 0;
    for (std::size_t j = 0; j < x.size(); ++j) {
      const double u = x[j], v = y[j];
      sum_a += u, sum_b += v, xy += u * v, xx += u * u, yy += v * v;
    }
    sum += xy;
    if (xx > 0 && yy > 0) cosine.add(xy / std::sqrt(xx * yy));
  }
  return {sum / n - sum_a / n * (sum_b / n), cosine.value()};
}

// The std that the norm behind a sub-layer ("3.ffn") makes: the rms of its gain, and the spread of its bias.
double gain_behind(const Patient& p, const std::string& sublayer) {
  if (p.spec.norm != "layer" && p.spec.norm != "rms") return unknown;
  const std::string name = "blocks." + sublayer + ".norm.";
  double squares = 1, bias = 0;
  for (const ParamInfo& i : p.store.layout().params) {
    if (!i.spec.name.starts_with(name)) continue;
    const View<float> v = p.store.view(i);
    const double shift = i.spec.name.ends_with(".w") ? 1 : 0;
    double sum = 0, sum_squares = 0;
    for (std::int64_t r = 0; r < v.rows; ++r)
      for (std::int64_t c = 0; c < v.cols; ++c) {
        const double g = shift + static_cast<double>(v.row(r)[c]);
        sum += g, sum_squares += g * g;
      }
    const auto n = static_cast<double>(i.size());
    if (i.spec.role == Role::norm_gain)
      squares = sum_squares / n;
    else
      bias = sum_squares / n - sum / n * (sum / n);
  }
  return std::sqrt(squares + bias);
}

Reading write_cosines_read(Patient& p, const InstrumentOptions& o) {
  Writes w = writes_of(p, p.pass(Mode::eval));
  const std::size_t n = w.all.size();
  std::vector<std::vector<double>> cosine(n, std::vector<double>(n, 1)), covariance = cosine;
  const double start = std::pow(std_of(w.start), 2);
  const double first = (std::pow(std_of(w.all[0].value), 2) + std::pow(std_of(w.all[1].value), 2)) / 2;
  double predicted = start, independent = start;
  Mean mean, size;
  for (std::size_t i = 0; i < n; ++i) {
    stop_if_asked(o);
    for (std::size_t j = 0; j <= i; ++j) {
      const Pair pair = compared(w.all[i].value, w.all[j].value);
      cosine[i][j] = cosine[j][i] = pair.cosine, covariance[i][j] = pair.covariance;
      if (i == j) continue;
      mean.add(pair.cosine), size.add(std::abs(pair.cosine));
      predicted += 2 * pair.covariance;
    }
    independent += covariance[i][i];
    if (w.adds_up) {
      predicted += covariance[i][i] + 2 * compared(w.start, w.all[i].value).covariance;
      w.all[i].predicted = std::sqrt(predicted), w.all[i].independent = std::sqrt(independent);
      w.all[i].equal = std::sqrt(start + static_cast<double>(i + 1) * first);
    } else if (w.normed) {
      w.all[i].predicted = gain_behind(p, w.all[i].name);
    }
  }
  const double chance = 1 / std::sqrt(static_cast<double>(w.all[0].value.cols));
  const double chance_of_mean = chance / std::sqrt(static_cast<double>(w.all[0].value.rows));

  Reading r{.text = {}, .json = Json::object()};
  constexpr std::size_t label = 7, column = 4;
  if (label + column * (n - 1) <= o.width) {
    r.text += "cosines in hundredths\n";
    for (std::size_t i = 1; i < n; ++i) {
      r.text += fmt::format("{:>{}}", w.all[i].name, label);
      for (std::size_t j = 0; j < i; ++j)
        r.text += fmt::format("{:>{}}", number_text(100 * cosine[i][j], "{:.0f}"), column);
      r.text += '\n';
    }
  }
  r.text +=
      wrapped(fmt::format(
                  "mean cosine of two {} {}, mean size {}; of random directions of {} numbers one position "
                  "has a std of {:.3f}, the mean of {} of {:.2g}",
                  w.changes ? "changes of the stream" : "writes", number_text(mean.value(), "{:.3f}"),
                  number_text(size.value(), "{:.3f}"), w.all[0].value.cols, chance, w.all[0].value.rows,
                  chance_of_mean),
              o.width, 0) +
      "\n";
  r.text += w.adds_up ? fmt::format("{:>8}  {:>9}  {:>9}  {:>14}  {:>14}  {:>12}\n", "behind", "write",
                                    "stream", "covariances", "variances", "equal writes")
                      : fmt::format("{:>8}  {:>9}  {:>9}  {:>14}  {:>6}  {:>10}  {:>14}\n", "behind", "write",
                                    "stream", "norm's gain", "skip x", "norm reads", "variances");
  Json rows = Json::array(), matrix = Json::array();
  for (std::size_t i = 0; i < n; ++i) {
    const Written& one = w.all[i];
    const double write = std::sqrt(covariance[i][i]);
    const auto text = [](double v) { return number_text(v, "{:.4f}"); };
    r.text += fmt::format("{:>8}  {:>9}  {:>9}  {:>14}", one.name, text(write), text(one.measured),
                          text(one.predicted));
    if (w.adds_up) r.text += fmt::format("  {:>14}  {:>12}", text(one.independent), text(one.equal));
    if (!w.adds_up)
      r.text += fmt::format("  {:>6}  {:>10}  {:>14}", number_text(one.skip_factor, "{:.3f}"), text(one.sum),
                            text(one.sum_predicted));
    r.text += '\n';
    Json row = Json::object();
    row["behind"] = one.name, row["write_std"] = write, row["stream_std"] = one.measured;
    row["predicted"] = one.predicted, row["variances_alone"] = one.independent,
    row["equal_writes"] = one.equal;
    row["sum_std"] = one.sum, row["sum_predicted"] = one.sum_predicted, row["skip_factor"] = one.skip_factor;
    rows.push_back(row);
    matrix.push_back(Json(cosine[i]));
  }
  r.json["of"] = w.changes ? "change" : "write";
  r.json["law"] = w.adds_up ? "sum" : w.normed ? "norm" : "none";
  r.json["start_std"] = std::sqrt(start), r.json["mean_cosine"] = mean.value();
  r.json["mean_size"] = size.value(), r.json["chance"] = chance;
  r.json["chance_of_mean"] = chance_of_mean;
  r.json["rows"] = rows, r.json["cosines"] = matrix;
  return r;
}

}  // namespace

namespace entries::instrument {
extern constexpr InstrumentEntry write_cosines = {
    .name = "write_cosines",
    .measures =
        "how the writes of the sub-layers lie to one another, and the stream's std that follows from them",
    .how =
        "The mean over positions of the cosine of two writes at the same position; to be held against "
        "1/sqrt(d_model positions), the std of such a mean for random directions that differ at every "
        "position; "
        "at one position it is 1/sqrt(d_model), and so for directions that all positions share. The stream's "
        "variance is the sum of all variances and "
        "twice all "
        "covariances of the embedding and the writes, which is exact where a block only adds. With the "
        "variances alone one "
        "assumes that writes do not know of one another; with sqrt(v0 + k s^2), s^2 of the first block, that "
        "they are of one "
        "size too: the sqrt(L) law (De & Smith 2020, arXiv 2002.10444). Where these differ from the measured "
        "std, that is the "
        "assumption that fails. Where a gate stands before the addition, changes of the stream are taken for "
        "writes. Where a "
        "norm stands behind it, the std is the rms of its gain, whatever was written; the norm reads a x + f "
        "of "
        "variance a^2 var(x) + var(f) if the write does not know of the skip: 1 + var(f) for Post-LN, and "
        "DeepNorm's a is its alpha (Wang et al. 2022, arXiv 2203.00555).",
    .read = write_cosines_read,
};
}  // namespace entries::instrument

}  // namespace plumb
