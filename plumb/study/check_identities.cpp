// Identities of the parts, each measured on random numbers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "plumb/base/rng.h"
#include "plumb/base/text.h"
#include "plumb/model/decoder.h"
#include "plumb/study/check.h"
#include "plumb/study/component_run.h"
#include "plumb/study/sight.h"

namespace plumb {
namespace {

using Numbers = Grid<double>;

Numbers normal(std::string_view name, std::int64_t rows, std::int64_t cols) {
  Numbers g{rows, cols, std::vector<double>(static_cast<std::size_t>(rows * cols))};
  stream(1, "check/" + std::string(name)).fill_normal(0, 1, std::span(g.data));
  return g;
}

double apart(const Numbers& a, const Numbers& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.data.size(); ++i) worst = std::max(worst, std::abs(a.data[i] - b.data[i]));
  return worst;
}

Numbers mapped(Numbers x, double times, double plus) {
  for (double& v : x.data) v = v * times + plus;
  return x;
}

Check equal(std::string id, std::string name, double value, double limit = 1e-10) {
  return {std::move(id), std::move(name), value, fmt::format("at most {:g}", limit), value <= limit};
}

DecoderSpec small() {
  DecoderSpec s;
  s.n_layer = 2, s.d_model = 8, s.n_head = 2, s.d_head = 4, s.d_ff = 12, s.block_size = 6, s.vocab_size = 11;
  s.norm_groups = 2, s.ffn.n_expert = 3;
  return s;
}

// Away from every special value: what starts at 0 or 1 would hide what a part does.
ParamStore<double> stirred(const DecoderSpec& s, const Components& c) {
  ParamStore<double> store(decoder_layout<double>(s, c), 1);
  for (const ParamInfo& p : store.layout().params) {
    const View<double> v = store.view(p);
    const Stream draw = stream(1, "check/" + p.spec.name);
    for (std::int64_t i = 0; i < v.size(); ++i) v.data[i] += 0.3 * draw.normal(0, 0, static_cast<std::uint64_t>(i));
  }
  return store;
}

constexpr std::int32_t tokens[] = {1, 4, 9, 4, 2, 7};

// Why `s` cannot be built; empty: it can.
bool can_be_built(const DecoderSpec& s, const Components& c) {
  try {
    build_decoder<double>(s, c, Mode::train, s.block_size);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Kinds of attention, as settings.
struct Kind {
  const char* name;
  void (*set)(DecoderSpec&);
};
constexpr Kind kinds[] = {
    {"mha", [](DecoderSpec&) {}},
    {"mqa", [](DecoderSpec& s) { s.n_kv_head = 1; }},
    {"window", [](DecoderSpec& s) { s.attention.window = 3; }},
    {"soft cap", [](DecoderSpec& s) { s.attention.softcap = 2; }},
    {"l2 norm", [](DecoderSpec& s) { s.attention.qk_norm = "l2", s.attention.scale = "none"; }},
    {"rms norm", [](DecoderSpec& s) { s.attention.qk_norm = "rms"; }},
    {"input as keys", [](DecoderSpec& s) { s.attention.qk_projection = false; }},
};

// f(spec, name) for every kind of attention with every position code and norm that goes with it.
template <class F>
void each_attention(const Components& c, const F& f) {
  for (const Kind& k : kinds)
    for (const auto& position : c.position)
      for (const auto& norm : c.norm) {
        DecoderSpec s = small();
        s.position = position.name, s.norm = norm.name, s.final_norm = norm.name != "none";
        k.set(s);
        if (can_be_built(s, c)) f(s, fmt::format("{}, {}, {}", k.name, position.name, norm.name));
      }
}

}  // namespace

// What re-centring and re-scaling are: Zhang & Sennrich 2019, arXiv 1910.07467, table 1.
std::vector<Check> check_norm_responses(const Components& c) {
  struct Known {
    std::string_view norm;
    bool shift, scale;  // does y stay when x is shifted, when it is scaled?
  };
  constexpr Known known[] = {{"layer", true, true}, {"rms", false, true},   {"center", true, false}, {"batch", true, true},
                             {"group", true, true}, {"instance", true, true}, {"dyt", false, false},   {"derf", false, false},
                             {"none", false, false}};
  const Numbers x = normal("norm input", 6, 8);
  std::vector<Check> all;
  for (const auto& e : c.norm) {
    DecoderSpec s = small();
    s.norm = e.name, s.norm_eps = 0;
    const auto norm = choose(c.norm, "norm", e.name, s).make<double>(s);
    const auto of = [&](const Numbers& in) {
      return run_component<double>([&](Builder<double>& b, Value v) { return norm->build(b, v, "norm", 0); }, in, 1, {}).y;
    };
    const Numbers y = of(x);
    const double shift = apart(of(mapped(x, 1, 3)), y), scale = apart(of(mapped(x, 2, 0)), y);
    const auto k = std::ranges::find(known, e.name, &Known::norm);
    for (const bool is_shift : {true, false}) {
      const double value = is_shift ? shift : scale;
      Check one{fmt::format("norms.{}.{}", e.name, is_shift ? "shift" : "scale"),
                fmt::format("{} of {} and of x: largest |difference|", e.name, is_shift ? "x + 3" : "2 x"), value, "", true};
      if (k == std::end(known)) {
        one.expected = "nothing is known of this norm";
      } else if (is_shift ? k->shift : k->scale) {
        one.expected = "at most 1e-10", one.pass = value <= 1e-10;
      } else {
        one.expected = "above 0.01", one.pass = value > 0.01;
      }
      all.push_back(std::move(one));
    }
  }
  return all;
}

// On (B, C) one group is LayerNorm, and a group a channel leaves nothing: each value is its own mean.
std::vector<Check> check_group_norm(const Components& c) {
  const Numbers x = normal("group input", 5, 8);  // five samples of one position
  const auto of = [&](const char* name, std::int64_t groups) {
    DecoderSpec s = small();
    s.norm = name, s.norm_groups = groups;
    const auto norm = choose(c.norm, "norm", name, s).make<double>(s);
    return run_component<double>([&](Builder<double>& b, Value v) { return norm->build(b, v, "norm", 0); }, x, 5, {}).y;
  };
  return {equal("group_norm.one", "one group against LayerNorm", apart(of("group", 1), of("layer", 1))),
          equal("group_norm.all", "a group a channel: largest |y|", apart(of("group", 8), Numbers{5, 8, std::vector<double>(40)}))};
}

std::vector<Check> check_rope(const Components& c) {
  constexpr std::int64_t d = 8;
  DecoderSpec s = small();
  s.d_head = d;
  const auto turned = [&](const Numbers& x, const std::string& layout, std::int64_t position) {
    s.rope.layout = layout;
    Numbers y{1, d, std::vector<double>(d)};
    const auto rope = choose(c.position, "position", "rope", s).make<double>(s)->rotation(4);
    rope->turn({x.data.data(), 1, d, d}, {{y.data.data(), 1, d, d}, true}, position, position + 1, false);
    return y;
  };
  const auto dot = [](const Numbers& a, const Numbers& b) {
    return std::inner_product(a.data.begin(), a.data.end(), b.data.begin(), 0.0);
  };
  const Numbers q = normal("rope q", 1, d), k = normal("rope k", 1, d);
  double moved = 0, lengths = 0;
  for (const char* layout : {"half", "interleaved"})
    for (const auto& [m, n] : {std::pair{5, 2}, {9, 9}, {3, 0}})
      for (const int by : {1, 7, 1000}) {
        const double here = dot(turned(q, layout, m), turned(k, layout, n));
        moved = std::max(moved, std::abs(dot(turned(q, layout, m + by), turned(k, layout, n + by)) - here));
        lengths = std::max(lengths, std::abs(dot(turned(q, layout, m), turned(q, layout, m)) - dot(q, q)));
      }
  // Half's column i is interleaved's 2i, i + d/2 its 2i + 1.
  const auto interleaved = [&](const Numbers& half) {
    Numbers y = half;
    for (std::size_t i = 0; i < d / 2; ++i) y.data[2 * i] = half.data[i], y.data[2 * i + 1] = half.data[i + d / 2];
    return y;
  };
  double permuted = 0;
  for (const int at : {1, 3, 40})
    permuted = std::max(permuted, apart(interleaved(turned(q, "half", at)), turned(interleaved(q), "interleaved", at)));
  return {equal("rope.relative", "q.k with both positions shifted by 1, 7, 1000: largest |difference|", moved),
          equal("rope.length", "|q|^2 before and after: largest |difference|", lengths),
          equal("rope.permutation", "half and interleaved, columns permuted: largest |difference|", permuted)};
}

std::vector<Check> check_causality(const Components& c) {
  int tried = 0;
  std::vector<std::string> wrong;
  each_attention(c, [&](const DecoderSpec& s, const std::string& name) {
    ++tried;
    ParamStore<double> store = stirred(s, c);
    const Sight seen = sight_of(s, c, store, tokens);
    if (!seen.own || seen.earlier != seen.said) wrong.push_back(name);
  });
  return {{"causality", fmt::format("models whose logits depend on later tokens though no part says so, of {}{}", tried,
                                    wrong.empty() ? "" : ": " + join(wrong, "; ")),
           static_cast<double>(wrong.size()), "0", wrong.empty() && tried > 0}};
}

std::vector<Check> check_caches(const Components& c) {
  int tried = 0, refused = 0;
  double worst = 0;
  std::string where;
  const auto look = [&](const DecoderSpec& s, const std::string& name) {
    ParamStore<double> store = stirred(s, c);
    const CacheCheck r = check_cache(s, c, store, tokens);
    if (!r.refused.empty() && r.may_refuse) {
      ++refused;
      return;
    }
    ++tried;
    const double off = r.refused.empty() ? r.worst : INFINITY;
    if (!(off <= worst)) worst = off, where = name;
  };
  each_attention(c, look);
  DecoderSpec s = small();  // of one layer: deeper, what is kept was made of states of a shorter sequence
  s.n_layer = 1, s.position = "rope", s.rope.scaling = "dynamic_ntk", s.rope.original_block_size = 3;
  look(s, "dynamic NTK");
  return {equal("cache",
                fmt::format("logits one token at a time and all at once, of {} models ({} whose norms see the whole sequence are refused): "
                            "largest |difference|{}",
                            tried, refused, worst > 1e-10 ? ", of " + where : ""),
                worst)};
}

// Without a position code and a mask attention is a function of a set.
std::vector<Check> check_permutation(const Components& c) {
  DecoderSpec s = small();
  s.position = "none", s.flaws.mask_ahead = s.block_size;
  ParamStore<double> store = stirred(s, c);
  const auto rows = [&](std::span<const std::int32_t> x) { return logits_of(s, c, store, x); };
  const std::size_t order[] = {3, 0, 5, 1, 4, 2};
  std::vector<std::int32_t> permuted;
  for (const std::size_t i : order) permuted.push_back(tokens[i]);
  const std::vector<double> a = rows(tokens), b = rows(permuted);
  double worst = 0;
  for (std::size_t i = 0; i < 6; ++i)
    for (std::size_t j = 0; j < 11; ++j) worst = std::max(worst, std::abs(b[i * 11 + j] - a[order[i] * 11 + j]));
  s.flaws.mask_ahead = 0;
  const std::vector<double> masked = rows(tokens), moved = rows(permuted);
  double told = 0;
  for (std::size_t j = 0; j < 11; ++j) told = std::max(told, std::abs(moved[5 * 11 + j] - masked[order[5] * 11 + j]));
  return {equal("permutation", "logits of permuted tokens, permuted back: largest |difference|", worst),
          {"permutation.mask", "the same under the causal mask, for the last token: it tells order", told, "above 0.01", told > 0.01}};
}

std::vector<Check> check_products(const Components&) {
  // The gradient at the start of a chain of factors, d y / d x of one number.
  const auto gradient = [&](const std::vector<double>& factors, bool residual) {
    const auto build = [&](Builder<double>& b, Value x) {
      for (std::size_t l = 0; l < factors.size(); ++l) {
        const std::string name = "f" + std::to_string(l);
        const Value f = scaled(b, factors[l], x, name);
        x = residual ? scaled_sum(b, 1, x, 1, f, name + ".add") : f;
      }
      return x;
    };
    return run_component<double>(build, {1, 1, {0.7}}, 1, {1, 1, {1}}).grads.at("x").data[0];
  };
  std::vector<Check> all;
  for (const double g : {0.9, 1.0, 1.2}) {
    const double value = gradient(std::vector<double>(48, g), false), want = std::pow(g, 48);
    all.push_back({fmt::format("products.{:g}", g), fmt::format("gradient through 48 factors of {:g}", g), value, fmt::format("{:.4g}", want),
                   std::abs(value - want) <= 1e-12 * want});
  }
  all.push_back(equal("products.cancel", "x + F(x) with F = -x: |gradient|", std::abs(gradient({-1}, true)), 0));
  // Answer 7: the product of (1 + a_l) is the sum over all sets of blocks of the product of theirs; 1 is the identity path.
  const std::vector<double> a{0.3, -0.2, 0.5, 0.1, -0.4};
  double sum = 0;
  for (unsigned set = 0; set < 1u << a.size(); ++set) {
    double path = 1;
    for (std::size_t l = 0; l < a.size(); ++l)
      if (set >> l & 1u) path *= a[l];
    sum += path;
  }
  all.push_back(equal("products.expansion", "gradient of five residual blocks against the sum over their 32 paths",
                      std::abs(gradient(a, true) - sum), 1e-14));
  return all;
}

// Output = input, Jacobian = I: the stream and its gradient pass all blocks bit for bit.
std::vector<Check> check_identity_starts(const Components& c) {
  struct Ends final : Hook<double> {
    std::vector<double> in, out, din, dout;
    bool wants(std::string_view p, Dir) const override { return p == "blocks.0.in" || p == "blocks.1.out"; }
    void at(std::string_view p, Dir dir, View<double> v, int) override {
      auto& to = p == "blocks.0.in" ? dir == Dir::forward ? in : din : dir == Dir::forward ? out : dout;
      to.assign(v.data, v.data + v.size());
    }
  };
  std::vector<Check> all;
  const auto look = [&](const char* id, const char* name, const DecoderSpec& s) {
    Ends ends;
    Hook<double>* hooks[] = {&ends};
    ParamStore<double> store(decoder_layout<double>(s, c), 1);
    ThreadPool pool(1);
    auto plan = make_plan<double>(s, c, store, {.batch = 1, .block = s.block_size}, pool, hooks);
    plan.loss_and_grad(tokens, tokens);
    double worst = 0;
    for (std::size_t i = 0; i < ends.in.size(); ++i)
      worst = std::max({worst, std::abs(ends.out[i] - ends.in[i]), std::abs(ends.din[i] - ends.dout[i])});
    const bool seen = !ends.din.empty() && std::ranges::any_of(ends.din, [](double g) { return g != 0; });
    all.push_back({id, fmt::format("{}: stream and gradient before and behind all blocks: largest |difference|", name), worst, "0 exactly",
                   seen && worst == 0});
  };
  DecoderSpec s = small();
  s.norm = "none", s.final_norm = false, s.residual = "rezero";
  look("identity.rezero", "ReZero", s);
  s = small(), s.residual = "skip_init";
  look("identity.skip_init", "SkipInit", s);
  s = small(), s.init.scheme = "zero_last";
  look("identity.zero_last", "zero-initialised last layers", s);
  return all;
}

}  // namespace plumb
