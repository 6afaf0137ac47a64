#include "plumb/interop/text_log.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <unordered_map>
#include <vector>

#include "plumb/base/error.h"

namespace plumb {
namespace {

std::string_view trimmed(std::string_view s) {
  const std::size_t first = s.find_first_not_of(" \t\r"), last = s.find_last_not_of(" \t\r");
  return first == std::string_view::npos ? std::string_view() : s.substr(first, last - first + 1);
}

// Whole text as a number; "nan", "inf", "-Infinity" in any case too.
std::optional<double> number_of(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  double v = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (end != text.data() + text.size() || text.empty()) return {};
  // Too large or too small for a double: strtod says which.
  if (error == std::errc::result_out_of_range) return std::strtod(std::string(text).c_str(), nullptr);
  return error == std::errc() ? std::optional(v) : std::nullopt;
}

std::optional<std::int64_t> step_of(double v) {
  if (!(v >= 0 && v < 9e15) || v != std::floor(v)) return {};
  return static_cast<std::int64_t>(v);
}

struct Row {
  std::vector<std::string> cells;
  std::size_t line = 0;  // from 1
  bool ended = true;     // a newline follows
  bool quoted = false;   // it ends inside quotes
};

// RFC 4180: a quoted cell may hold separators, newlines and "" for a quote.
class CsvRows {
 public:
  CsvRows(std::string_view text, char separator) : text_(text), separator_(separator) {}
  bool next(Row& row) {
    row = {};
    while (at_ < text_.size() && (text_[at_] == '\n' || text_[at_] == '\r')) line_ += text_[at_++] == '\n';
    if (at_ >= text_.size()) return false;
    row.line = line_;
    std::string cell;
    bool quoted = false;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n') ++line_;
      if (c == '"' && quoted && at_ + 1 < text_.size() && text_[at_ + 1] == '"') {
        cell += text_[++at_];
      } else if (c == '"' && (quoted || cell.empty())) {
        quoted = !quoted;
      } else if (c == separator_ && !quoted) {
        row.cells.push_back(std::move(cell));
        cell.clear();
      } else if (c == '\n' && !quoted) {
        break;
      } else {
        cell += c;
      }
    }
    row.ended = at_ < text_.size();
    row.quoted = quoted;
    ++at_;
    row.cells.push_back(std::move(cell));
    return true;
  }

 private:
  std::string_view text_;
  char separator_;
  std::size_t at_ = 0, line_ = 1;
};

char separator_of(std::string_view header) {
  char best = ',';
  for (const char c : {';', '\t'})
    if (std::ranges::count(header, c) > std::ranges::count(header, best)) best = c;
  return best;
}

// Python's json writes NaN, Infinity and -Infinity as bare words: quoted, so that they are JSON.
std::string with_quoted_constants(std::string_view line) {
  std::string out;
  bool in_string = false;
  for (std::size_t i = 0; i < line.size();) {
    if (line[i] == '"') in_string = !in_string;
    std::string_view word;
    if (!in_string)
      for (const std::string_view w : {"NaN", "-Infinity", "Infinity"})
        if (line.substr(i).starts_with(w)) word = w;
    if (!word.empty()) {
      out += '"';
      out += word;
      out += '"';
      i += word.size();
      continue;
    }
    if (in_string && line[i] == '\\' && i + 1 < line.size()) out += line[i++];
    out += line[i++];
  }
  return out;
}

void flatten(const Json& j, const std::string& prefix, std::vector<std::pair<std::string, double>>& out) {
  for (const auto& [key, value] : j.as_object(prefix)) {
    const std::string name = prefix.empty() ? key : prefix + "/" + key;
    if (value.is_object())
      flatten(value, name, out);
    else if (value.is_number())
      out.emplace_back(name, value.as_double(name));
    else if (value.is_string())
      if (const auto v = number_of(value.as_string(name))) out.emplace_back(name, *v);
  }
}

// Adds JSON objects, and counts those without a step.
class Objects {
 public:
  Objects(ScalarLog& log, std::string_view name) : log_(log), name_(name) {}
  void take(const Json& j) {
    std::vector<std::pair<std::string, double>> all;
    if (j.is_object()) flatten(j, "", all);
    const auto found = std::ranges::find_if(all, [&](const auto& v) { return is_step(v.first); });
    const auto step = found == all.end() ? std::nullopt : step_of(found->second);
    if (!step) {
      ++left_out_;
      return;
    }
    for (const auto& [name, value] : all)
      if (!is_step(name)) log_.add(*step, log_.id(name), value);
  }
  void close() {
    if (left_out_ > 0)
      log_.warn(
          fmt::format("{} object{} of {} without a step (\"step\", \"global_step\", \"iter\") {} left out",
                      left_out_, left_out_ == 1 ? "" : "s", name_, left_out_ == 1 ? "was" : "were"));
  }

 private:
  bool is_step(const std::string& name) {
    const auto [found, fresh] = steps_.try_emplace(name, false);
    if (fresh) found->second = metric_of(name) == "step";
    return found->second;
  }
  ScalarLog& log_;
  std::string_view name_;
  std::unordered_map<std::string, bool> steps_;
  std::size_t left_out_ = 0;
};

std::optional<Json> parsed(std::string_view text, std::string_view name) {
  try {
    return Json::parse(with_quoted_constants(text), name);
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

void read_csv_log(std::string_view text, std::string_view name, ScalarLog& log) {
  CsvRows rows(text, separator_of(text.substr(0, text.find('\n'))));
  Row header;
  if (!rows.next(header)) bad_input("{} is empty; name a log with a header line and a row a step", name);
  const std::size_t n = header.cells.size();
  std::vector<std::size_t> ids(n);
  std::vector<std::string> metrics(n);
  for (std::size_t i = 0; i < n; ++i) metrics[i] = metric_of(trimmed(header.cells[i]));
  const auto step_column = static_cast<std::size_t>(std::ranges::find(metrics, "step") - metrics.begin());
  if (step_column == n)
    bad_input("{} has no column for the step; call one \"step\" (or global_step, iter, iteration)", name);
  for (std::size_t i = 0; i < n; ++i)
    if (i != step_column && !metrics[i].empty()) ids[i] = log.id(trimmed(header.cells[i]));

  for (Row row; rows.next(row);) {
    const auto cut_off = [&] {
      log.warn(fmt::format("the last row of {} (line {}) is cut off and was left out", name, row.line));
    };
    if (row.quoted && std::ranges::any_of(row.cells.back(), [](char c) { return c == '\n'; }))
      bad_input("{}:{}: a quote in this row never ends; correct that line", name, row.line);
    if (row.cells.size() < n && !row.ended) return cut_off();
    if (row.cells.size() != n)
      bad_input("{}:{}: the row has {} cells, its header {}; correct that line", name, row.line,
                row.cells.size(), n);
    if (!row.ended && !trimmed(row.cells.back()).empty() && !number_of(row.cells.back())) return cut_off();
    const auto step_number = number_of(row.cells[step_column]);
    const auto step = step_number ? step_of(*step_number) : std::nullopt;
    if (!step)
      bad_input("{}:{}: '{}' is no step; write a whole number from 0", name, row.line,
                row.cells[step_column]);
    for (std::size_t i = 0; i < n; ++i) {
      if (i == step_column || metrics[i].empty() || trimmed(row.cells[i]).empty()) continue;
      if (const auto v = number_of(row.cells[i]))
        log.add(*step, ids[i], *v);
      else if (metrics[i] == "loss")
        bad_input("{}:{}: the loss '{}' is no number; correct that line", name, row.line, row.cells[i]);
    }
  }
}

void read_json_log(std::string_view text, std::string_view name, ScalarLog& log) {
  Objects objects(log, name);
  const std::string_view first_line = trimmed(text.substr(0, text.find('\n')));
  const bool lines = first_line.starts_with('{') && parsed(first_line, name) &&
                     text.find_first_not_of(" \t\r\n", first_line.size()) != std::string_view::npos;
  if (!lines) {
    // One value over the whole text: an array, or trainer_state.json; a lone object is a log of one line.
    if (const auto whole = parsed(text, name)) {
      const Json* history = whole->find("log_history");
      if (history || whole->is_array()) {
        for (const Json& entry : (history ? *history : *whole).as_array(std::string(name) + ": log_history"))
          if (!history || !entry.find("train_runtime")) objects.take(entry);
        return objects.close();
      }
    }
  }
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = trimmed(text.substr(at, end - at));
    ++number;
    at = end + 1;
    if (line.empty()) continue;
    const std::string place = fmt::format("{}:{}", name, number);
    if (const auto row = parsed(line, place)) {
      objects.take(*row);
    } else if (end < text.size()) {
      Json::parse(with_quoted_constants(line), place);  // throws, and says why
    } else {
      log.warn(fmt::format("the last row of {} (line {}) is cut off and was left out", name, number));
    }
  }
  objects.close();
}

}  // namespace plumb
