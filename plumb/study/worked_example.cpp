// A few numbers through one component, by running it.
#include <algorithm>
#include <array>
#include <cmath>

#include "plumb/base/text.h"
#include "plumb/model/decoder.h"
#include "plumb/plan/graph.h"
#include "plumb/plan/plan.h"
#include "plumb/spec/from_config.h"
#include "plumb/study/component_run.h"
#include "plumb/study/explain.h"

namespace plumb {
namespace {

using Lines = std::vector<std::string>;
using Row = std::vector<double>;
using Numbers = Grid<double>;

// Four digits, no "-0".
std::string number(double x) {
  std::string s = fmt::format("{:.4g}", std::abs(x) < 1e-12 ? 0.0 : x);
  return s;
}
std::string numbers(const Row& row) {
  std::vector<std::string> all;
  for (const double x : row) all.push_back(number(x));
  return join(all, " ");
}
// Rows side by side: "2 4 6 8 | 1 0 -1 2".
std::string rows(const Numbers& g) {
  std::vector<std::string> all;
  for (std::int64_t i = 0; i < g.rows; ++i)
    all.push_back(numbers(Row(g.data.begin() + i * g.cols, g.data.begin() + (i + 1) * g.cols)));
  return join(all, " | ");
}
std::string line(std::string_view what, std::string_view text) { return fmt::format("{:<10}{}", what, text); }

DecoderSpec tiny() {
  DecoderSpec s;
  s.n_layer = 2, s.d_model = 4, s.n_head = s.n_kv_head = 1, s.d_head = 4, s.d_ff = 4, s.block_size = 4,
  s.vocab_size = 5;
  s.norm_groups = 2, s.ffn.bias = false;
  return s;
}

template <class Table>
auto made(const Table& table, const std::string& name, const DecoderSpec& s) {
  return std::ranges::find_if(table, [&](const auto& e) { return e.name == name; })->template make<double>(s);
}

Lines of_norm(const Components& c, const std::string& name) {
  const DecoderSpec s = tiny();
  const auto norm = made(c.norm, name, s);
  const Numbers x{2, 4, {2, 4, 6, 8, 1, 0, -1, 2}}, dy{2, 4, {1, 0, 0, 0, 0, 0, 0, 0}};
  const auto ran = run_component<double>(
      [&](Builder<double>& b, Value in) { return norm->build(b, in, "norm", 0); }, x, 1, dy);
  Lines all{"two positions of four features, gains 1, biases 0", line("x", rows(x)), line("y", rows(ran.y)),
            line("dy", rows(dy)), line("dx", rows(ran.grads.at("x")))};
  return all;
}

Lines of_weight(const Components& c, const std::string& name) {
  const DecoderSpec s = tiny();
  const auto rule = made(c.weight, name, s);
  const Numbers eye{3, 3, {1, 0, 0, 0, 1, 0, 0, 0, 1}}, w{2, 3, {1, 2, 3, 0, 2, -2}};
  Numbers ones{3, 2, {1, 0, 1, 0, 1, 0}};
  Rules<double> rules;
  rules.weight = [&](Builder<double>& b, Value v, const ParamSpec& p) { return rule->transform(b, v, p); };
  std::map<std::string, Numbers> start{{"w.weight", w}};
  if (name == "weight_norm") start["w.weight_g"] = {1, 2, {std::sqrt(14.0), std::sqrt(8.0)}};
  const auto ran = run_component<double>(
      [&](Builder<double>& b, Value x) {
        return b.linear(x, {.name = "w", .out = {'F', 2}});
      },
      eye, 1, ones, start, rules);
  Numbers used{2, 3, {}};
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t j = 0; j < 3; ++j) used.data.push_back(ran.y.data[j * 2 + i]);
  return {"two rows of three; the gradient is 1 on the first row as it is used", line("stored", rows(w)),
          line("used", rows(used)), line("dw", rows(ran.grads.at("w.weight")))};
}

Lines of_residual(const Components& c, const std::string& name) {
  DecoderSpec s = tiny();
  s.residual = name;
  Lines all{"the stream 1 2 of a stack of 2 layers; every branch writes half of what it reads"};
  std::vector<Numbers> seen;
  for (int writes = 0; writes <= 4; ++writes) {
    const auto build = [&](Builder<double>& b, Value x) {
      const auto fresh = made(c.residual, name, s);  // it may remember a layer's scalar
      b.expected_var(x, 2.5);
      Value stream = fresh->open(b, x);
      for (int w = 0; w < writes; ++w) {
        const Site at{w / 2, 2, w % 2 == 0 ? Sub::attention : Sub::ffn, w, 4};
        b.site(at);
        const auto in = fresh->enter(b, stream, at);
        stream = fresh->leave(b, in.shortcut, scaled(b, 0.5, in.branch, at.name() + ".half"), at);
      }
      b.site(std::nullopt);
      return fresh->close(b, stream);
    };
    seen.push_back(run_component<double>(build, {1, 2, {1, 2}}, 1, {}).y);
  }
  all.push_back(line("in", rows(seen[0])));
  for (std::size_t w : {1U, 2U, 4U})
    all.push_back(line(fmt::format("{} write{}", w, w > 1 ? "s" : ""), rows(seen[w])));
  return all;
}

Lines of_position(const Components& c, const std::string& name) {
  DecoderSpec s = tiny();
  s.n_head = s.n_kv_head = 2, s.d_head = 4, s.d_model = 8;
  const auto position = made(c.position, name, s);
  if (const auto turn = position->rotation(4, false)) {
    Numbers q{4, 4, {}}, y{4, 4, Row(16)};
    for (int t = 0; t < 4; ++t) q.data.insert(q.data.end(), {1, 1, 0, 0});
    turn->turn({q.data.data(), 4, 4, 4}, {{y.data.data(), 4, 4, 4}, true}, 0, 4, false);
    Lines all{"a head of four columns, the query 1 1 0 0 at positions 0 to 3"};
    for (std::int64_t t = 0; t < 4; ++t)
      all.push_back(
          line(fmt::format("at {}", t), numbers(Row(y.data.begin() + 4 * t, y.data.begin() + 4 * t + 4))));
    return all;
  }
  Builder<double> b({.init = [](const ParamSpec&, double) { return ParamRule{}; }}, Mode::train, {});
  const auto bias = position->bias(b);
  if (bias.rule) {
    const std::array<std::int64_t, 8> distances{0, 1, 2, 15, 16, 31, 64, 200};
    Numbers table{32, 2, Row(64)};
    for (std::size_t i = 0; i < 64; ++i) table.data[i] = static_cast<double>(i / 2);
    Lines all{bias.table ? "added to the score, two heads, when bucket i holds i"
                         : "added to the score, two heads"};
    std::vector<std::string> far;
    for (const std::int64_t d : distances) far.push_back(fmt::format("{}", d));
    all.push_back(line("distance", join(far, " ")));
    for (int h = 0; h < 2; ++h) {
      Row added;
      for (const std::int64_t d : distances) {
        double score = 0;
        bias.rule->add({&score, 1, 1, 1}, h, d, 0, {table.data.data(), 32, 2, 2});
        added.push_back(score);
      }
      all.push_back(line(fmt::format("head {}", h + 1), numbers(added)));
    }
    return all;
  }
  s = tiny();
  const auto embed = made(c.position, name, s);
  std::map<std::string, Numbers> start;
  if (name == "learned")
    start["pos.weight"] = {4, 4, {.1, .2, .3, .4, .5, .6, .7, .8, .9, 1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6}};
  const auto ran = run_component<double>([&](Builder<double>& in, Value x) { return embed->embed(in, x); },
                                         {4, 4, Row(16, 1.0)}, 1, {}, start);
  Lines all{start.empty() ? "four positions of the embedding 1 1 1 1"
                          : "four positions of the embedding 1 1 1 1, rows .1 .2 … 1.6"};
  for (std::int64_t t = 0; t < 4; ++t)
    all.push_back(line(fmt::format("at {}", t),
                       numbers(Row(ran.y.data.begin() + 4 * t, ran.y.data.begin() + 4 * t + 4))));
  return all;
}

Lines of_attention(const Components& c, const std::string& name) {
  DecoderSpec s = tiny();
  s.d_model = s.d_head = 2, s.block_size = 3;
  const auto attention = made(c.attention, name, s);
  const Numbers eye{2, 2, {1, 0, 0, 1}}, x{3, 2, {2, 0, 0, 2, 2, 2}}, dy{3, 2, {0, 0, 0, 0, 1, 0}};
  std::map<std::string, Numbers> start;
  for (const char* w : {"attn.q.weight", "attn.k.weight", "attn.v.weight", "attn.o.weight"}) start[w] = eye;
  const auto ran = run_component<double>(
      [&](Builder<double>& b, Value in) { return attention->build(b, in, "attn", 0, {}); }, x, 1, dy, start);
  return {"one head, three positions, all four matrices the identity; scores are x_i.x_j / sqrt 2",
          line("x", rows(x)), line("y", rows(ran.y)), line("dy", rows(dy)),
          line("dx", rows(ran.grads.at("x")))};
}

Lines of_ffn(const Components& c, const std::string& name) {
  DecoderSpec s = tiny();
  s.d_model = s.d_ff = 1, s.ffn.n_expert = 2, s.ffn.top_k = 1;
  const auto ffn = made(c.ffn, name, s);
  const Numbers x{5, 1, {-2, -1, 0, 1, 2}}, one{1, 1, {1}}, ones{5, 1, Row(5, 1.0)};
  // Every weight 1: what is there is found by building it.
  std::map<std::string, Numbers> start;
  Builder<double> b({.init = [](const ParamSpec&, double) { return ParamRule{}; }}, Mode::train, {});
  const Value in = b.param({.name = "x", .shape = {{'B'}, {'T', 5}, {'C', 1}}});
  (void)ffn->build(b, in, "ffn", 0);
  const GraphOf<double> graph = b.finish();
  for (const ParamInfo& p : graph.layout().params)
    if (p.spec.name != "x" && p.spec.role != Role::router) start[p.spec.name] = one;
  const auto ran = run_component<double>(
      [&](Builder<double>& build, Value v) { return ffn->build(build, v, "ffn", 0); }, x, 1, ones, start);
  const auto flat = [](Numbers g) {
    std::swap(g.rows, g.cols);
    return rows(g);
  };
  return {"one feature, one slot, every weight 1; dy = 1", line("x", flat(x)), line("y", flat(ran.y)),
          line("dx", flat(ran.grads.at("x")))};
}

Lines of_init(const Components& c, const std::string& name) {
  Config config;
  config.init.scheme = name;
  const DecoderSpec s = spec_from_config(config, 1200);
  Lines all{"the chapter's model: 12 layers, d_model 128, d_ff 256; standard deviations at the start"};
  const ParamLayout layout = decoder_layout<double>(s, c);
  for (const char* p : {"embed.weight", "blocks.0.attn.q.weight", "blocks.0.attn.o.weight",
                        "blocks.0.ffn.in.weight", "blocks.0.ffn.out.weight"}) {
    const ParamRule& rule = layout.find(p).rule;
    std::string text = number(std::sqrt(rule.variance()));
    if (rule.lr != 1) text += fmt::format(", Adam's learning rate times {}", number(rule.lr));
    all.push_back(fmt::format("{:<25}{}", p, text));
  }
  return all;
}

Lines of_optim(const Components& c, const std::string& name) {
  ParamLayout layout;
  ParamInfo w;
  w.spec = {.name = "w", .role = Role::q, .shape = {{'C', 2}, {'C', 2}}, .fan_in = 2, .fan_out = 2};
  layout.params.push_back(std::move(w));
  layout.n_param_elements = 4;
  ParamStore<double> store(layout, 0);
  const auto rule = std::ranges::find_if(c.optim, [&](const auto& e) {
                      return e.name == name;
                    })->make<double>(layout, {.weight_decay = 0, .grad_clip = 0}, 1);
  ThreadPool pool(1);
  Lines all{"a 2 x 2 matrix from 0, the gradient 1 0 | 0 0.1 at each step, learning rate 0.1, no decay"};
  Row grads;
  for (int step = 1; step <= 3; ++step) {
    grads = {1, 0, 0, 0.1};
    rule->update(store, grads, 1, {.lr = 0.1}, pool);
    const View<double> now = store.param("w");
    all.push_back(line(fmt::format("step {}", step),
                       rows({2, 2, {now.data[0], now.data[1], now.row(1)[0], now.row(1)[1]}})));
  }
  return all;
}

// The ops of the first block in order, as they are built.
Lines of_placement(const Components& c, const std::string& name) {
  DecoderSpec s = tiny();
  s.placement = name;
  const auto graph = build_decoder<double>(s, c, Mode::train, s.block_size);
  std::vector<std::string> kinds;
  for (const auto& n : graph.nodes)
    if (n.segment == 0) kinds.emplace_back(n.op->info().kind);
  return {"the ops of a block, in order", join(kinds, ", ")};
}

}  // namespace

std::vector<std::string> worked_example(const Components& c, const Explanation& x) {
  if (x.family == "norm") return of_norm(c, x.name);
  if (x.family == "weight") return of_weight(c, x.name);
  if (x.family == "residual") return of_residual(c, x.name);
  if (x.family == "position") return of_position(c, x.name);
  if (x.family == "attention") return of_attention(c, x.name);
  if (x.family == "ffn") return of_ffn(c, x.name);
  if (x.family == "init") return of_init(c, x.name);
  if (x.family == "optim") return of_optim(c, x.name);
  if (x.family == "placement") return of_placement(c, x.name);
  fail("[explain] no example is known for the family {}", x.family);
}

}  // namespace plumb
