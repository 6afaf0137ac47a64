// plumb profile: the residual stream of a model, layer by layer, as a small picture or JSON.
#include "plumb/study/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plumb/base/error.h"
#include "plumb/base/wrap.h"
#include "plumb/cli/flags.h"
#include "plumb/cli/say.h"
#include "plumb/report/terminal_plot.h"

namespace plumb::cli {
namespace {
double at(const std::vector<double>* v, std::size_t i) { return v && i < v->size() ? (*v)[i] : std::nan(""); }

double scalar(const StepRow& row, std::string_view name) {
  const double* v = row.find(name);
  return v ? *v : std::nan("");
}

struct Columns {
  const std::vector<double>*act, *grad, *entropy, *norm_in;
  explicit Columns(const StepRow& r)
      : act(r.find_layers("act_std")),
        grad(r.find_layers("grad_std")),
        entropy(r.find_layers("attn_entropy")),
        norm_in(r.find_layers("norm_in_std")) {}
  double act_ratio() const { return act->back() / act->front(); }
  double grad_ratio() const { return grad->front() / grad->back(); }
};

// "–": there is no such number.
std::string words(fmt::format_string<double&> how, double v) {
  return std::isnan(v) ? "–" : fmt::format(how, v);
}

Json number(double v) { return std::isnan(v) ? Json() : Json(v); }

Json answer(const Profile& p, const std::vector<std::string>& faults) {
  const Columns c(p.row);
  Json j = Json::object(), layers = Json::array();
  for (std::size_t i = 0; i < c.act->size(); ++i) {
    Json l = Json::object();
    l["layer"] = static_cast<std::int64_t>(i);
    l["act_std"] = at(c.act, i);
    l["grad_std"] = at(c.grad, i);
    l["predicted_act_std"] = number(p.predicted_act_std[i]);
    l["attn_entropy"] = number(at(c.entropy, i));
    l["norm_in_std"] = number(at(c.norm_in, i));
    layers.push_back(l);
  }
  if (!faults.empty()) j["faults"] = Json(faults);
  j["step"] = p.step;
  j["loss"] = p.loss;
  j["non_finite"] = p.non_finite.empty() ? Json() : Json(p.non_finite);
  j["layers"] = layers;
  j["act_last_over_first"] = number(c.act_ratio());
  j["grad_first_over_last"] = number(c.grad_ratio());
  j["logit_std"] = number(scalar(p.row, "logit_std"));
  j["adjacent_kl"] = number(scalar(p.row, "adjacent_kl"));
  return j;
}

void print(const Profile& p) {
  const Columns c(p.row);
  auto most = [](const std::vector<double>& v) { return *std::ranges::max_element(v); };
  const double act = most(*c.act), grad = most(*c.grad);
  fmt::print("step {}: loss {} on one batch (ln V = {:.4f})\n\n", p.step, number_text(p.loss, "{:.4f}"),
             p.uniform);
  fmt::print("{:>5}  {:<32} {:>9}  {:<32} {:>8} {:>9}\n", "layer", "activation std after the block",
             "theory*", "gradient std at the same place", "entropy", "norm in");
  for (std::size_t i = 0; i < c.act->size(); ++i)
    fmt::print("{:>5}  {} {:>11} {:>9}  {} {:>11} {:>8} {:>9}\n", i, terminal_bar((*c.act)[i], act, 20),
               number_text((*c.act)[i], "{:.4g}"), words("{:.4g}", p.predicted_act_std[i]),
               terminal_bar((*c.grad)[i], grad, 20), number_text((*c.grad)[i], "{:.3g}"),
               words("{:.3f}", at(c.entropy, i)), number_text(at(c.norm_in, i), "{:.4g}"));
  fmt::print("\nactivation last / first {}, gradient first / last {}, logit std {}, adjacent KL {}\n",
             words("{:.3g}", c.act_ratio()), words("{:.3g}", c.grad_ratio()),
             words("{:.4g}", scalar(p.row, "logit_std")), words("{:.3g}", scalar(p.row, "adjacent_kl")));
  fmt::print("* at init, for independent tokens and uniform attention; entropy is H / ln(visible keys)\n");
}

}  // namespace

int profile_command(const Flags& f) {
  if (f.args.size() > 1) bad_input("name one config, run or checkpoint: `plumb profile runs/…`");
  const std::string what = f.args.empty() ? "" : f.args.front();
  note_unread(f, "profile",
              {"train.batch_size", "train.seed", "train.threads", "train.precision", "train.norm_reduce"});
  const auto [config, checkpoint] = subject_of(what, f, "profile");
  note_faults(config, f.quiet);
  const Profile p = profile(config, checkpoint, Components{}, open_corpus(config.data.corpus, f.quiet));
  if (!p.non_finite.empty())
    say("note: the loss is not finite; the first tensor that is not is {}\n", p.non_finite);
  if (f.json)
    fmt::print("{}\n", answer(p, config.fault.inject).dump());
  else
    print(p);
  return 0;
}

}  // namespace plumb::cli
