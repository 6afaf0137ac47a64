// plumb eval: validation loss, also past the training length, and by position.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "plumb/base/error.h"
#include "plumb/base/json.h"
#include "plumb/cli/flags.h"
#include "plumb/cli/live.h"
#include "plumb/cli/say.h"
#include "plumb/report/terminal_plot.h"
#include "plumb/train/opened.h"
#include "plumb/train/validation.h"

namespace plumb::cli {
namespace {

std::vector<std::int64_t> sizes_of(const std::string& list, std::int64_t usual) {
  if (list.empty()) return {usual};
  std::vector<std::int64_t> sizes;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t comma = std::min(list.find(',', at), list.size());
    std::int64_t n = 0;
    const auto [end, error] = std::from_chars(list.data() + at, list.data() + comma, n);
    if (error != std::errc() || end != list.data() + comma || n < 1 || n > (1 << 20))
      bad_input(
          "--block-sizes '{}' is no list of whole numbers from 1 to 1048576; write for example --block-sizes "
          "64,128,256",
          list);
    sizes.push_back(n);
    at = comma + 1;
  }
  return sizes;
}

}  // namespace

int eval_command(const Flags& f) {
  if (f.args.size() != 1) bad_input("name one run or checkpoint: `plumb eval runs/… --block-sizes 64,128`");
  Opened run = open_run(f.args.front(), Components{});
  const Config config = config_of_run(run.info.config, f.set);
  note_unread(f, "eval", {"train.threads"});
  const auto sizes = sizes_of(f.block_sizes, run.info.spec.block_size);
  note_faults(config, f.quiet);
  const Mode mode =
      run_faults(config, Components{}.fault).evaluate_in_training_mode ? Mode::train : Mode::eval;
  const Corpus corpus = open_corpus(config.data.corpus, f.quiet);
  if (!run.info.corpus_sha256.empty() && corpus.sha256 != run.info.corpus_sha256 && !f.quiet)
    say("note: this is not the text that the run was trained on\n");
  ThreadPool pool(static_cast<int>(config.train.threads));
  Json j = Json::object(), rows = Json::array();
  std::vector<Series> curves;
  const auto feed_of = [&](std::int64_t block) {
    return std::make_unique<Feed>(config.data, corpus, block,
                                  static_cast<std::int32_t>(run.info.spec.ignore_index), 0, run.tokenizer,
                                  run_faults(config, Components{}.fault));
  };
  const std::int64_t longest =
      f.block_sizes.empty() ? 0 : feed_of(run.info.spec.block_size)->longest_val_row();
  for (const std::int64_t block : sizes)
    if (!f.block_sizes.empty() && block > longest)
      bad_input(
          "--block-sizes has {}, but no row of the validation split has more than {} targets; take shorter "
          "blocks or a longer text",
          block, longest);
  for (const std::int64_t block : sizes) {
    const auto made = feed_of(block);
    const Feed& feed = *made;
    Validation validation(run.info.spec, Components{}, run.store, feed, pool, mode);
    std::vector<double> by_position;
    Progress progress(fmt::format("block {}", block), f.quiet);
    const double loss = validation.loss(by_position, [&](double share) { progress.at(share); });
    progress.close();
    if (!std::isfinite(loss))
      fail("the validation loss is not finite{}; take an earlier checkpoint", validation.first_non_finite());
    if (rows.size() == 0) j["baselines"] = baselines_json(feed.baselines());
    Json row = Json::object();
    row["block_size"] = block;
    row["loss"] = loss;
    row["targets"] = feed.val_targets();
    row["floor"] = feed.floor() ? Json(*feed.floor()) : Json();
    Json at_position = Json::array();  // null: no target stands there
    for (const double l : by_position) at_position.push_back(std::isnan(l) ? Json() : Json(l));
    row["by_position"] = at_position;
    rows.push_back(row);
    Series s{fmt::format("block {}", block), {}};
    for (std::size_t t = 0; t < by_position.size(); ++t)
      if (!std::isnan(by_position[t])) s.points.emplace_back(static_cast<double>(t), by_position[t]);
    curves.push_back(std::move(s));
    if (!f.json)
      fmt::print("block {:>5}: validation loss {:.4f} nats over {} targets ({}){}\n", block, loss,
                 feed.val_targets(), baseline_crossed(loss, feed.baselines(), feed.floor()),
                 block > run.info.spec.block_size ? "  past the training length" : "");
  }
  if (f.json) {
    j["run"] = f.args.front();
    if (!config.fault.inject.empty()) j["faults"] = Json(config.fault.inject);
    j["step"] = run.info.step;
    j["block_sizes"] = rows;
    fmt::print("{}\n", j.dump());
  } else {
    fmt::print("\nloss by position in the block\n{}", terminal_plot(curves, plot_width()));
  }
  return 0;
}

}  // namespace plumb::cli
