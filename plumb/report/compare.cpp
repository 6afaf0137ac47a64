#include "plumb/report/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <unordered_map>

#include "plumb/base/wrap.h"
#include "plumb/report/terminal_plot.h"
#include "plumb/trace/recent_loss.h"

namespace plumb {
namespace {

void flatten(const Json& j, const std::string& prefix,
             std::vector<std::pair<std::string, std::string>>& out) {
  if (!j.is_object()) {
    out.emplace_back(prefix, j.is_string() ? j.as_string(prefix) : j.dump());
    return;
  }
  for (const auto& [key, value] : j.as_object(prefix))
    flatten(value, prefix.empty() ? key : prefix + "." + key, out);
}

struct Last {
  std::string metric;
  double value = 0;
  std::int64_t step = 0;
};

// In order of first appearance.
std::vector<Last> last_of(const Trace& t) {
  std::vector<Last> all;
  std::unordered_map<std::string, std::size_t> places;
  RecentLoss recent;
  for (const StepRow& row : t.steps) {
    auto set = [&](const std::string& name, double v) {
      const auto [known, fresh] = places.try_emplace(name, all.size());
      if (fresh) all.push_back({name});
      all[known->second].value = v, all[known->second].step = row.step;
    };
    for (const auto& [name, v] : row.values)
      if (name != "lr" && name != "tokens") set(name, v);
    if (const double* l = row.find("loss")) {
      recent.add(*l);
      set("train_loss", recent.mean());
    }
    for (const auto& [name, v] : row.layers) {
      if (v.empty()) continue;
      double mean = 0;
      for (double x : v) mean += x / static_cast<double>(v.size());
      set(name + " first block", v.front());
      set(name + " last block", v.back());
      set(name + " mean", mean);
    }
  }
  return all;
}

// Means over about `n` pieces of the curve, so that a letter is not a cloud; up to the first loss that is not
// finite, which would make a hole of its piece.
Series loss_curve(const NamedTrace& t, std::size_t n) {
  std::vector<std::pair<double, double>> all;
  Series s{t.name, {}};
  for (const StepRow& row : t.trace.steps) {
    const double* l = row.find("loss");
    if (!l) continue;
    if (!std::isfinite(*l)) {
      s.broke = static_cast<double>(row.step);
      break;
    }
    all.emplace_back(static_cast<double>(row.step), *l);
  }
  const std::size_t piece = std::max<std::size_t>(1, all.size() / n);
  for (std::size_t i = 0; i < all.size(); i += piece) {
    const std::size_t end = std::min(all.size(), i + piece);
    double x = 0, y = 0;
    for (std::size_t k = i; k < end; ++k) x += all[k].first, y += all[k].second;
    const auto count = static_cast<double>(end - i);
    s.points.emplace_back(x / count, y / count);
  }
  return s;
}

// "–": there is none; with its step where the runs' steps are not the same.
std::string cell_of(const Measured& m, std::size_t run) {
  if (m.steps[run] < 0) return "–";
  const bool apart = std::ranges::any_of(m.steps, [&](auto s) { return s >= 0 && s != m.steps[run]; });
  return number_text(m.values[run], "{:.4g}") + (apart ? fmt::format(" @{}", m.steps[run]) : "");
}

}  // namespace

std::vector<Difference> config_differences(const std::vector<NamedTrace>& traces) {
  std::vector<std::string> keys;
  std::vector<std::map<std::string, std::string>> values;
  for (const NamedTrace& t : traces) {
    std::vector<std::pair<std::string, std::string>> flat;
    if (t.trace.header.config.is_object()) flatten(t.trace.header.config, "", flat);
    for (const auto& [key, text] : flat)
      if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
    values.emplace_back(flat.begin(), flat.end());
  }
  std::vector<Difference> all;
  for (const std::string& key : keys) {
    Difference d{key, {}};
    std::set<std::string> known;
    for (const auto& v : values) {
      d.values.push_back(v.empty() ? "?" : v.contains(key) ? v.at(key) : "–");
      if (!v.empty()) known.insert(d.values.back());
    }
    if (known.size() > 1) all.push_back(d);
  }
  return all;
}

std::vector<Measured> last_values(const std::vector<NamedTrace>& traces) {
  std::vector<Measured> all;
  std::unordered_map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < traces.size(); ++i)
    for (const auto& [metric, v, step] : last_of(traces[i].trace)) {
      const auto [known, fresh] = places.try_emplace(metric, all.size());
      if (fresh)
        all.push_back({metric, std::vector<double>(traces.size(), std::nan("")),
                       std::vector<std::int64_t>(traces.size(), -1)});
      all[known->second].values[i] = v, all[known->second].steps[i] = step;
    }
  // What is asked first stands first.
  std::ranges::stable_sort(all, {}, [](const Measured& m) {
    return m.metric == "val_loss" ? 0 : m.metric == "train_loss" ? 1 : m.metric == "loss" ? 2 : 3;
  });
  return all;
}

std::string compare_text(const std::vector<NamedTrace>& traces, std::size_t width) {
  std::vector<Series> curves;
  for (const NamedTrace& t : traces) curves.push_back(loss_curve(t, width));
  std::string out = "training loss, nats a token, by step\n" + terminal_plot(curves, width) + "\n";
  const auto measured = last_values(traces);
  std::size_t cell = 12;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    cell = std::max(cell, display_width(traces[i].name) + 2);
    for (const Measured& m : measured) cell = std::max(cell, display_width(cell_of(m, i)) + 2);
  }
  auto row = [&](const std::string& what, const std::vector<std::string>& cells) {
    out += fmt::format("{:<28}", what);
    for (const std::string& c : cells) out += fmt::format("{:>{}}", c, cell);
    out += '\n';
  };
  std::vector<std::string> names;
  for (const NamedTrace& t : traces) names.push_back(t.name);
  row("last measured", names);
  for (const Measured& m : measured) {
    std::vector<std::string> cells;
    for (std::size_t i = 0; i < traces.size(); ++i) cells.push_back(cell_of(m, i));
    row(m.metric, cells);
  }
  out +=
      "train_loss is the mean of the last 50 losses; a value is the last that its run measured, @ the step "
      "where "
      "runs differ in it\n\n";
  const auto differences = config_differences(traces);
  const auto with_config =
      std::ranges::count_if(traces, [](const NamedTrace& t) { return t.trace.header.config.is_object(); });
  if (differences.empty())
    out +=
        with_config < 2 ? "fewer than two of them have a config to compare\n" : "the configs are the same\n";
  if (!differences.empty()) row("differs in the config", names);
  for (const Difference& d : differences) row(d.key, d.values);
  return out;
}

Json compare_json(const std::vector<NamedTrace>& traces) {
  Json j = Json::object(), names = Json::array(), last = Json::object(), at = Json::object(),
       config = Json::object();
  for (const NamedTrace& t : traces) names.push_back(t.name);
  for (const Measured& m : last_values(traces)) last[m.metric] = Json(m.values), at[m.metric] = Json(m.steps);
  for (const Difference& d : config_differences(traces)) config[d.key] = Json(d.values);
  j["runs"] = names;
  j["last"] = last;
  j["last_step"] = at;
  j["config"] = config;
  return j;
}

}  // namespace plumb
