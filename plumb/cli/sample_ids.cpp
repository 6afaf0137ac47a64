// plumb sample --ids: token ids in, token ids or logits out; for models without a tokenizer of ours.
#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "plumb/base/error.h"
#include "plumb/base/json.h"
#include "plumb/cli/flags.h"
#include "plumb/cli/interrupt.h"
#include "plumb/cli/say.h"
#include "plumb/interop/import.h"
#include "plumb/model/decoder.h"
#include "plumb/train/opened.h"
#include "plumb/train/sampler.h"

namespace plumb::cli {
namespace {

struct Model {
  DecoderSpec spec;
  ParamStore<float> store;
  std::int32_t never;  // not drawn
  std::vector<std::string> faults = {};
};

// A folder with a config.json is Hugging Face's; everything else is a run or a checkpoint of ours.
Model open_model(const std::string& what, bool quiet) {
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::path(what) / "config.json", ignored)) {
    Imported made = import_model(what, Components{});
    for (const std::string& w : made.warnings)
      if (!quiet) say("note: {}\n", w);
    return {made.spec, std::move(made.store), -1};
  }
  Opened run = open_run(what, Components{});
  note_faults(run.info.config, quiet);
  return {run.info.spec, std::move(run.store), CharTokenizer::unknown_id, run.info.config.fault.inject};
}

std::vector<std::int32_t> parse_ids(const std::string& text, std::int64_t vocab_size) {
  std::vector<std::int32_t> ids;
  for (const char *at = text.data(), *end = at + text.size();;) {
    std::int32_t id = -1;
    const auto [stop, bad] = std::from_chars(at, end, id);
    if (bad != std::errc() || (stop != end && *stop != ','))
      bad_input("--ids '{}' is no list of token ids; write for example --ids 5,3,9", text);
    if (id < 0 || id >= vocab_size)
      bad_input("--ids has {}; the model's ids are 0 to {}", id, vocab_size - 1);
    ids.push_back(id);
    if (stop == end) return ids;
    at = stop + 1;
  }
}

struct Rows final : Hook<float> {
  std::vector<std::vector<float>> rows;
  bool wants(std::string_view point, Dir dir) const override {
    return point == "logits" && dir == Dir::forward;
  }
  void at(std::string_view, Dir, View<float> v, int) override {
    for (std::int64_t i = 0; i < v.rows; ++i) rows.emplace_back(v.row(i), v.row(i) + v.cols);
  }
};

// Of one pass over all of the ids.
Json logits_of(Model& m, const std::vector<std::int32_t>& ids, bool& finite) {
  Rows logits;
  Hook<float>* hooks[] = {&logits};
  ThreadPool pool(0);
  const auto n = static_cast<std::int64_t>(ids.size());
  auto plan = make_plan<float>(m.spec, Components{}, m.store, {.mode = Mode::eval, .batch = 1, .block = n},
                               pool, hooks);
  plan.loss(ids, std::vector<std::int32_t>(ids.size(), static_cast<std::int32_t>(m.spec.ignore_index)));
  Json all = Json::array();
  for (const auto& row : logits.rows) {
    Json one = Json::array();
    for (const float x : row) one.push_back(static_cast<double>(x)), finite &= std::isfinite(x);
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace

std::int64_t tokens_wanted(const Flags& f, const DecoderSpec& spec, std::int64_t used) {
  const std::int64_t room = room_after(spec, used);
  const std::int64_t wanted = f.tokens > 0 ? f.tokens : room < 0 ? 200 : room;
  if (room >= 0 && (room == 0 || wanted > room))
    bad_input("learned positions end at block_size {}: after a prompt of {} tokens at most {} can follow; {}",
              spec.block_size, used, room, room == 0 ? "shorten the prompt" : "lower --tokens");
  return wanted;
}

int sample_ids(const Flags& f) {
  if (!f.prompt.empty()) bad_input("--ids and --prompt are two beginnings; give one");
  if (f.samples != 1) bad_input("--ids takes one sample; leave --samples out");
  Model m = open_model(f.args.front(), f.quiet);
  std::vector<std::int32_t> ids = parse_ids(f.ids, m.spec.vocab_size);
  Json j = Json::object();
  j["model"] = f.args.front();
  if (!m.faults.empty()) j["faults"] = Json(m.faults);
  if (f.logits) {
    bool finite = true;
    j["logits"] = logits_of(m, ids, finite);
    fmt::print("{}\n", j.dump());
    if (!finite)
      throw Error("the model's logits are not finite; `plumb inspect` says which weights are not", 4);
    return 0;
  }
  const auto used = static_cast<std::int64_t>(ids.size());
  const std::int64_t wanted = tokens_wanted(f, m.spec, used);
  CachedDecoder decoder(m.spec, Components{}, m.store, used + wanted);
  const Sampling how{f.temperature, f.top_k, static_cast<std::uint64_t>(f.seed), m.never};
  listen_for_interrupts();
  std::span<const float> logits;
  for (const std::int32_t id : ids) logits = decoder.next(id);
  for (std::int64_t i = 0; i < wanted && !interrupted(); ++i) {
    ids.push_back(draw(logits, how, 0, i));
    if (!f.json) fmt::print("{}{}", i ? "," : "", ids.back());
    if (i + 1 < wanted) logits = decoder.next(ids.back());
  }
  if (!f.json) {
    fmt::print("\n");
  } else {
    Json all = Json::array();
    for (const std::int32_t id : ids) all.push_back(id);
    j["ids"] = std::move(all);
    fmt::print("{}\n", j.dump());
  }
  return interrupted() ? 130 : 0;
}

}  // namespace plumb::cli
