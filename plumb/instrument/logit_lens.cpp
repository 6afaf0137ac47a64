// What the model would say if it stopped after a block: the stream there goes straight to the final norm and the head.
#include <fmt/format.h>

#include <algorithm>

#include "plumb/base/wrap.h"
#include "plumb/instrument/instrument.h"
#include "plumb/study/audit.h"

namespace plumb {
namespace {

// Share of the rows whose largest logit is the same in both.
double agreement(const Grid<float>& a, const Grid<float>& b) {
  std::int64_t same = 0;
  for (std::int64_t i = 0; i < a.rows; ++i) {
    const auto best = [&](const Grid<float>& g) {
      return std::ranges::max_element(row_of(g, i)) - row_of(g, i).begin();
    };
    same += best(a) == best(b);
  }
  return static_cast<double>(same) / static_cast<double>(a.rows);
}

Reading logit_lens_read(Patient& p, const InstrumentOptions& o) {
  const Seen whole = p.pass(Mode::eval);
  const std::string last = block_point(p.spec.n_layer - 1, ".out");
  Reading r{.text = fmt::format("{:>5}  {:>10}  {:>14}\n", "block", "loss", "same first"),
            .json = Json::object()};
  Json rows = Json::array();
  for (const std::int64_t layer : layers_of(p, o)) {
    stop_if_asked(o);
    const Grid<float>& stream = *whole.find(block_point(layer, ".out"));
    const Seen cut = p.pass(Mode::eval, [&](std::string_view point, View<float> v, std::int64_t first) {
      if (point != last) return;
      for (std::int64_t i = 0; i < v.rows; ++i) std::ranges::copy(row_of(stream, first + i), v.row(i));
    });
    const double loss = cut.loss.cross_entropy, same = agreement(*cut.find("logits"), *whole.find("logits"));
    Json row = Json::object();
    row["layer"] = layer, row["loss"] = loss, row["same_first"] = same;
    rows.push_back(row);
    r.text += fmt::format("{:>5}  {:>10}  {:>13.1f}%\n", layer, number_text(loss, "{:.4f}"), 100 * same);
  }
  r.json["layers"] = rows;
  return r;
}

}  // namespace

namespace entries::instrument {
extern constexpr InstrumentEntry logit_lens = {
    .name = "logit_lens",
    .measures =
        "the loss if the model stopped after each block, and how often its first choice is the final one",
    .how =
        "The stream behind a block takes the place of the stream behind the last block; the final norm and "
        "the head are "
        "the model's own (nostalgebraist 2020, \"interpreting GPT: the logit lens\"). A block after which "
        "the loss does not "
        "fall adds nothing that the head can read.",
    .read = logit_lens_read,
};
}  // namespace entries::instrument

}  // namespace plumb
