#include "plumb/interop/text_log.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

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
  if (error == std::errc::result_out_of_range) return std::numeric_limits<double>::infinity();
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

// The scalars of one logged object; false when it has no step.
bool take_object(const Json& j, std::vector<Scalar>& out) {
  std::vector<std::pair<std::string, double>> all;
  flatten(j, "", all);
  const auto found = std::ranges::find_if(all, [](const auto& v) { return metric_of(v.first) == "step"; });
  if (found == all.end()) return false;
  const auto step = step_of(found->second);
  if (!step) return false;
  for (const auto& [name, value] : all)
    if (metric_of(name) != "step") out.push_back({*step, name, value});
  return true;
}

std::string without_step(std::size_t n, std::string_view name) {
  return n == 0
             ? std::string()
             : fmt::format("{} line{} of {} without a step (\"step\", \"global_step\", \"iter\") {} left out",
                           n, n == 1 ? "" : "s", name, n == 1 ? "was" : "were");
}

}  // namespace

std::vector<Scalar> read_csv_log(std::string_view text, std::string_view name, std::string& warning) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  CsvRows rows(text, separator_of(text.substr(0, text.find('\n'))));
  Row header;
  if (!rows.next(header)) bad_input("{} is empty; name a log with a header line and a row a step", name);
  const auto& columns = header.cells;
  std::vector<std::string> metrics;
  for (const std::string& c : columns) metrics.push_back(metric_of(trimmed(c)));
  const auto step_column = std::ranges::find(metrics, "step") - metrics.begin();
  if (step_column == std::ssize(metrics))
    bad_input("{} has no column for the step; call one \"step\" (or global_step, iter, iteration)", name);

  std::vector<Scalar> out;
  for (Row row; rows.next(row);) {
    if (row.cells.size() < columns.size() && !row.ended) {
      warning = fmt::format("the last row of {} (line {}) is cut off and was left out", name, row.line);
      break;
    }
    if (row.cells.size() != columns.size())
      bad_input("{}:{}: the row has {} cells, its header {}; correct that line", name, row.line,
                row.cells.size(), columns.size());
    const std::string& step_cell = row.cells[static_cast<std::size_t>(step_column)];
    const auto step_number = number_of(step_cell);
    const auto step = step_number ? step_of(*step_number) : std::nullopt;
    if (!step) bad_input("{}:{}: '{}' is no step; write a whole number from 0", name, row.line, step_cell);
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (metrics[i] == "step" || trimmed(row.cells[i]).empty()) continue;
      if (const auto v = number_of(row.cells[i]))
        out.push_back({*step, std::string(trimmed(columns[i])), *v});
      else if (metrics[i] == "loss")
        bad_input("{}:{}: the loss '{}' is no number; correct that line", name, row.line, row.cells[i]);
    }
  }
  return out;
}

std::vector<Scalar> read_json_log(std::string_view text, std::string_view name, std::string& warning) {
  std::vector<Scalar> out;
  std::size_t left_out = 0;
  // trainer_state.json is one object over many lines.
  if (text.find("\"log_history\"") != std::string_view::npos) {
    const Json state = Json::parse(with_quoted_constants(text), name);
    for (const Json& entry : state.at("log_history", name).as_array(fmt::format("{}: log_history", name)))
      left_out += !entry.is_object() || !take_object(entry, out);
    warning = without_step(left_out, name);
    return out;
  }
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = trimmed(text.substr(at, end - at));
    ++number;
    at = end + 1;
    if (line.empty()) continue;
    Json row;
    try {
      row = Json::parse(with_quoted_constants(line), fmt::format("{}:{}", name, number));
    } catch (const Error&) {
      if (end < text.size()) throw;
      warning = fmt::format("the last row of {} (line {}) is cut off and was left out", name, number);
      return out;
    }
    left_out += !row.is_object() || !take_object(row, out);
  }
  warning = without_step(left_out, name);
  return out;
}

}  // namespace plumb
