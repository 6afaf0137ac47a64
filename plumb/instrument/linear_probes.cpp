// What a linear map can read from the stream: whether the token is a line end, what kind of character it
// is, and where in the sequence it stands.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>

#include "plumb/base/char_class.h"
#include "plumb/base/rng.h"
#include "plumb/base/text.h"
#include "plumb/base/wrap.h"
#include "plumb/instrument/instrument.h"
#include "plumb/study/audit.h"
#include "plumb/study/ridge.h"

namespace plumb {
namespace {

constexpr std::int64_t fit_least = 4096, fit_most = 32768, fit_per_feature = 16;
constexpr double ridges[] = {1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};
constexpr std::size_t n_char_class = char_class_names.size();

// Targets are columns: a task of several classes has one for each, a number has one.
enum ProbeTask : std::uint8_t {
  task_line_end,
  task_class,
  task_position,
  task_line_end_shuffled,
  task_class_shuffled,
  task_position_shuffled,
  task_class_by_token
};
constexpr std::array<std::size_t, 7> task_widths{2, n_char_class, 1, 2, n_char_class, 1, n_char_class};
constexpr std::size_t first_column(std::size_t task) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < task; ++i) at += task_widths[i];
  return at;
}
constexpr std::size_t n_column = first_column(task_widths.size());
constexpr bool answers_class(std::size_t task) { return task_widths[task] > 1; }

// The answers at one position: a class, or a number.
using ProbeAnswers = std::array<double, task_widths.size()>;

struct ProbeRow {
  std::int64_t at = 0;  // in its batch
  ProbeAnswers answers = {};
};
struct ProbeBatch {
  std::vector<std::int32_t> x;
  std::int64_t step = 0;
  std::vector<ProbeRow> rows;  // those that predict something
};

class ProbeLabels {
 public:
  explicit ProbeLabels(const Patient& p) : block_(p.block()) {
    const CharTokenizer& t = p.feed.tokenizer();
    for (std::int32_t id = 0; id < t.vocab_size(); ++id)
      class_.push_back(class_of(utf8_decode(t.decode({&id, 1}), "a token").front()));
    by_token_.resize(class_.size());
  }

  ProbeBatch batch(const Patient& p, std::vector<std::int32_t> x, const std::vector<std::int32_t>& y,
                   std::int64_t step) const {
    ProbeBatch b{.x = std::move(x), .step = step, .rows = {}};
    for (std::size_t i = 0; i < y.size(); ++i)
      if (y[i] != p.spec.ignore_index) b.rows.push_back({static_cast<std::int64_t>(i), answers(b.x[i], i)});
    return b;
  }

  // Every kind of token is given the class of some position that is drawn, whatever its own is.
  void deal(std::vector<ProbeBatch>& fit) {
    std::vector<double> classes;
    for (const ProbeBatch& b : fit)
      for (const ProbeRow& r : b.rows) classes.push_back(r.answers[task_class]);
    const Stream s = stream(0, "linear_probes.by_token");
    for (std::size_t id = 0; id < by_token_.size(); ++id)
      by_token_[id] = classes[s.below(classes.size(), 0, 0, id)];
  }
  void write_dealt(std::vector<ProbeBatch>& part) const {
    for (ProbeBatch& b : part)
      for (ProbeRow& r : b.rows)
        r.answers[task_class_by_token] =
            by_token_[static_cast<std::size_t>(b.x[static_cast<std::size_t>(r.at)])];
  }

  // The answers of a part, in another order of positions.
  static void shuffle(std::vector<ProbeBatch>& part, std::uint64_t seed) {
    std::vector<ProbeRow*> rows;
    for (ProbeBatch& b : part)
      for (ProbeRow& r : b.rows) rows.push_back(&r);
    const Stream s = stream(seed, "linear_probes.shuffled");
    for (std::size_t i = rows.size(); i-- > 1;) {
      const std::size_t j = s.below(i + 1, 0, 0, i);
      for (const ProbeTask task : {task_line_end_shuffled, task_class_shuffled, task_position_shuffled})
        std::swap(rows[i]->answers[task], rows[j]->answers[task]);
    }
  }

 private:
  ProbeAnswers answers(std::int32_t token, std::size_t i) const {
    const CharClass c = class_[static_cast<std::size_t>(token)];
    const double end = c == CharClass::line_end, which = static_cast<double>(c),
                 place =
                     static_cast<double>(static_cast<std::int64_t>(i) % block_) / static_cast<double>(block_);
    return {end, which, place, end, which, place, 0};
  }
  std::int64_t block_;
  std::vector<CharClass> class_;  // of a token
  std::vector<double> by_token_;  // that is dealt to it
};

struct ProbeData {
  std::vector<ProbeBatch> fit, held_out;
  static std::int64_t positions(const std::vector<ProbeBatch>& part) {
    std::int64_t n = 0;
    for (const ProbeBatch& b : part) n += std::ssize(b.rows);
    return n;
  }
};

// Fitted on training text, scored on the text that is kept for validation.
ProbeData probe_data(const Patient& p) {
  const std::int64_t wanted = std::clamp(fit_per_feature * p.spec.d_model, fit_least, fit_most);
  ProbeLabels labels(p);
  ProbeData d;
  std::vector<std::int32_t> x(p.x.size()), y(x.size());
  for (std::int64_t k = 0; k * p.rows() < wanted; ++k) {
    p.feed.fill(p.step + k, 0, x, y);
    d.fit.push_back(labels.batch(p, x, y, p.step + k));
  }
  for (std::int64_t row = 0; row < p.feed.val_rows() && row * p.block() < wanted / 2; row += p.sequences()) {
    p.feed.fill_validation(row, x, y);
    d.held_out.push_back(labels.batch(p, x, y, p.step));
  }
  labels.deal(d.fit);
  labels.write_dealt(d.fit);
  labels.write_dealt(d.held_out);
  ProbeLabels::shuffle(d.fit, 1);
  ProbeLabels::shuffle(d.held_out, 2);
  return d;
}

// f(point, stream at the position, row) for each point that is wanted.
template <class F>
void each_row(Patient& p, const ProbeBatch& b, const std::vector<std::string>& points, const F& f) {
  std::int64_t positions = 0;  // of a view
  std::vector<double> stream;
  p.watch(
      b.x,
      [&](std::string_view point, View<const float> v, std::int64_t first) {
        if (point == "embed") positions = v.rows;
        const auto found = std::ranges::find(points, point);
        if (found == points.end()) return;
        const std::int64_t lanes = v.rows / positions;  // rows of one position
        for (const ProbeRow& r : b.rows) {
          const std::int64_t row = r.at * lanes - first;
          if (row < 0 || row >= v.rows) continue;
          stream.clear();
          for (std::int64_t lane = 0; lane < lanes; ++lane)
            stream.insert(stream.end(), v.row(row + lane), v.row(row + lane) + v.cols);
          f(static_cast<std::size_t>(found - points.begin()), std::span<const double>(stream), r);
        }
      },
      b.step);
}

// Of one point. A fifth of the batches chooses the ridge.
struct ProbeSums {
  std::optional<LeastSquares> most, fifth;
};

struct ChosenFit {
  LinearFit fit;
  double ridge = 0;
};

class ProbeScore {
 public:
  void add(const LinearFit& f, std::size_t task, std::span<const double> stream, double answer) {
    ++n_;
    const std::size_t at = first_column(task);
    if (!answers_class(task)) {
      const double miss = answer - f.predict(stream, at);
      misses_ += miss * miss, sum_ += answer, squares_ += answer * answer;
      return;
    }
    std::size_t best = 0;
    double most = -HUGE_VAL;
    for (std::size_t c = 0; c < task_widths[task]; ++c)
      if (const double y = f.predict(stream, at + c); y > most) most = y, best = c;
    right_ += best == static_cast<std::size_t>(answer);
  }
  // Accuracy, or R squared.
  double value(std::size_t task) const {
    if (answers_class(task)) return right_ / n_;
    return 1 - misses_ / (squares_ - sum_ * sum_ / n_);
  }

 private:
  double n_ = 0, right_ = 0, misses_ = 0, sum_ = 0, squares_ = 0;
};

using ProbeFits = std::array<ChosenFit, task_widths.size()>;

ProbeFits probes_of(const ProbeSums& s, const InstrumentOptions& o) {
  std::vector<LinearFit> tries;
  LeastSquares all = *s.most;
  all.add(*s.fifth);
  for (const double ridge : ridges) {
    stop_if_asked(o);
    tries.push_back(s.most->fit(ridge));
  }
  std::map<double, LinearFit> refitted;
  ProbeFits probes;
  for (std::size_t task = 0; task < task_widths.size(); ++task) {
    std::array<double, std::size(ridges)> errors{};
    for (std::size_t i = 0; i < tries.size(); ++i)
      for (std::size_t c = 0; c < task_widths[task]; ++c)
        errors[i] += s.fifth->error(tries[i], first_column(task) + c);
    const double ridge = ridges[std::ranges::min_element(errors) - errors.begin()];
    if (!refitted.contains(ridge)) refitted.emplace(ridge, all.fit(ridge));
    probes[task] = {refitted.at(ridge), ridge};
  }
  return probes;
}

// The share of the held-out positions that have the most frequent answer.
double majority(const std::vector<ProbeBatch>& part, std::size_t task) {
  std::map<double, std::int64_t> counts;
  for (const ProbeBatch& b : part)
    for (const ProbeRow& r : b.rows) ++counts[r.answers[task]];
  std::int64_t most = 0;
  for (const auto& [answer, n] : counts) most = std::max(most, n);
  return static_cast<double>(most) / static_cast<double>(ProbeData::positions(part));
}

Reading report_probes(const ProbeData& d, const std::vector<std::string>& points,
                      const std::vector<ProbeFits>& fits,
                      const std::vector<std::array<ProbeScore, task_widths.size()>>& scores) {
  const std::size_t real[] = {task_line_end, task_class, task_position},
                    shuffled[] = {task_line_end_shuffled, task_class_shuffled, task_position_shuffled};
  constexpr std::string_view names[] = {"line_end", "class", "position"};
  Reading r{.text = "", .json = Json::object()};
  r.json["fitted_on"] = ProbeData::positions(d.fit), r.json["scored_on"] = ProbeData::positions(d.held_out);
  r.text = fmt::format("fitted on {} positions of training text, scored on {} of validation text\n",
                       ProbeData::positions(d.fit), ProbeData::positions(d.held_out));
  r.text += fmt::format("{:>9}  {:>8} {:>8}  {:>8} {:>8} {:>8}  {:>11} {:>8}\n", "", "line end", "shuffled",
                        "class", "shuffled", "by token", "position R2", "shuffled");
  const double ends = majority(d.held_out, task_line_end), classes = majority(d.held_out, task_class),
               dealt = majority(d.held_out, task_class_by_token);
  Json always = Json::object();
  always["line_end"] = ends, always["class"] = classes, always["class_by_token"] = dealt,
  always["position"] = 0.0;
  r.json["majority"] = always;
  r.text += fmt::format("{:>9}  {:>8.3f} {:>8}  {:>8.3f} {:>8} {:>8}  {:>11.3f} {:>8}\n", "majority", ends,
                        "", classes, "", number_text(dealt, "{:.3f}"), 0.0, "");
  Json rows = Json::array();
  for (std::size_t i = 0; i < points.size(); ++i) {
    Json row = Json::object();
    row["point"] = points[i];
    const auto value = [&](std::size_t task) { return scores[i][task].value(task); };
    for (std::size_t t = 0; t < std::size(names); ++t) {
      Json one = Json::object();
      one[answers_class(real[t]) ? "accuracy" : "r2"] = value(real[t]), one["shuffled"] = value(shuffled[t]);
      if (real[t] == task_class) one["by_token"] = value(task_class_by_token);
      one["ridge"] = fits[i][real[t]].ridge;
      row[names[t]] = one;
    }
    rows.push_back(row);
    const auto text = [&](std::size_t task) { return number_text(value(task), "{:.3f}"); };
    const std::string_view name = points[i];
    r.text += fmt::format("{:>9}  {:>8} {:>8}  {:>8} {:>8} {:>8}  {:>11} {:>8}\n",
                          name == "embed" ? name : name.substr(0, name.rfind('.')), text(task_line_end),
                          text(task_line_end_shuffled), text(task_class), text(task_class_shuffled),
                          text(task_class_by_token), text(task_position), text(task_position_shuffled));
  }
  r.json["points"] = rows;
  return r;
}

Reading linear_probes_read(Patient& p, const InstrumentOptions& o) {
  std::vector<std::string> points;
  if (o.layer < 0) points.emplace_back("embed");
  for (const std::int64_t layer : layers_of(p, o)) points.push_back(block_point(layer, ".out"));
  const ProbeData d = probe_data(p);
  std::vector<ProbeSums> sums(points.size());
  for (std::size_t k = 0; k < d.fit.size(); ++k) {
    stop_if_asked(o);
    each_row(p, d.fit[k], points, [&](std::size_t point, std::span<const double> stream, const ProbeRow& r) {
      ProbeSums& s = sums[point];
      const auto n = std::ssize(stream);
      if (!s.most) s.most.emplace(n, n_column), s.fifth.emplace(n, n_column);
      std::array<double, n_column> y{};
      for (std::size_t task = 0; task < task_widths.size(); ++task)
        if (answers_class(task))
          y[first_column(task) + static_cast<std::size_t>(r.answers[task])] = 1;
        else
          y[first_column(task)] = r.answers[task];
      (k % 5 == 4 ? s.fifth : s.most)->add(stream, y);
    });
  }
  std::vector<ProbeFits> probes;
  for (const ProbeSums& s : sums) probes.push_back(probes_of(s, o));
  std::vector<std::array<ProbeScore, task_widths.size()>> scores(points.size());
  for (const ProbeBatch& b : d.held_out) {
    stop_if_asked(o);
    each_row(p, b, points, [&](std::size_t point, std::span<const double> stream, const ProbeRow& r) {
      for (std::size_t task = 0; task < task_widths.size(); ++task)
        scores[point][task].add(probes[point][task].fit, task, stream, r.answers[task]);
    });
  }
  return report_probes(d, points, probes, scores);
}

}  // namespace

namespace entries::instrument {
extern constexpr InstrumentEntry linear_probes = {
    .name = "linear_probes",
    .measures =
        "what a linear map reads from the stream: is the token a line end, what kind of character is it, "
        "where does it stand",
    .how =
        "From the embedding and from the stream behind each block, by ridge regression in closed form: on "
        "one "
        "column a class, the largest is the answer (accuracy), or on the position (R2: 1 is exact, 0 as good "
        "as "
        "the mean). Fitted on training text, scored on validation text. Features have mean 0 and variance 1; "
        "the ridge is that of 1e-5, 1e-4 ... 1 with the least squared error on a fifth of the batches that "
        "the others were fitted without, and the fit is then made on all. Majority: always the most frequent "
        "answer. Shuffled: the same with answers in another order of positions; it must come out at the "
        "majority, or the probe reads what is not there. By token: every token has a class that was "
        "drawn for it, the control task of Hewitt & Liang 2019, arXiv 1909.03368, with a majority of its "
        "own; only what is read above it (their selectivity) is more than that tokens can be told apart. "
        "Alain & Bengio 2016, arXiv 1610.01644. "
        "That a probe can read something does not say that the model uses it.",
    .read = linear_probes_read,
};
}  // namespace entries::instrument

}  // namespace plumb
