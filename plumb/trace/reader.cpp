#include "plumb/trace/reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "plumb/base/error.h"
#include "plumb/base/files.h"

namespace plumb {
namespace {

constexpr std::string_view crc_mark = ",\"crc\":\"";
constexpr std::size_t crc_tail = crc_mark.size() + 8 + 2;  // eight digits, a quote and a brace

struct Line {
  std::string_view text;
  std::size_t number;  // from 1
  std::size_t begin;   // offset of its first byte
  bool ended;          // a newline follows
};

// Calls each(Line) for every line that is not empty.
template <class Each>
void each_line(std::string_view text, Each each) {
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    ++number;
    if (end > at) each(Line{text.substr(at, end - at), number, at, end < text.size()});
    at = end + 1;
  }
}

std::string place_of(std::string_view name, const Line& line) {
  return fmt::format("{}:{}", name, line.number);
}

void check_crc(std::string_view name, const Line& line) {
  if (line.text.size() < crc_tail) return;
  const std::size_t at = line.text.size() - crc_tail;
  if (line.text.substr(at, crc_mark.size()) != crc_mark) return;
  const std::string wanted = fmt::format("{:08x}", crc32(line.text.substr(0, at)));
  if (line.text.substr(at + crc_mark.size(), 8) != wanted)
    bad_input(
        "{}: the row's checksum is {}, but its bytes give {}; the trace was altered or damaged, get it again",
        place_of(name, line), line.text.substr(at + crc_mark.size(), 8), wanted);
}

TraceHeader read_header(std::string_view name, const Line& line) {
  const std::string place = place_of(name, line);
  std::optional<Json> row;
  try {
    row = Json::parse(line.text, place);
  } catch (const Error&) {
    row.reset();
  }
  const Json* schema = row ? row->find("schema") : nullptr;
  if (schema == nullptr || !schema->is_string())
    bad_input("{} is no plumb trace: its first row has no \"schema\"; check that it is the right file", name);
  if (schema->as_string(place) != trace_schema)
    bad_input(
        "{} has schema \"{}\", but \"{}\" is read here; write it again or use the matching version of plumb",
        place, schema->as_string(place), trace_schema);
  check_crc(name, line);
  TraceHeader header;
  header.producer = row->at("producer", place).as_string(place + ": producer");
  if (const Json* config = row->find("config")) header.config = *config;
  return header;
}

StepRow read_step(const Json& row, const std::string& place) {
  StepRow step;
  step.step = row.at("step", place).as_int(place + ": step");
  for (const auto& [key, value] : row.as_object(place)) {
    if (key == "row" || key == "step" || key == "crc") continue;
    if (key != "layers") {
      if (value.is_number() || value.is_string())
        step.values.emplace_back(key, value.as_double(place + ": " + key));
      continue;
    }
    for (const auto& [name, items] : value.as_object(place + ": layers")) {
      std::vector<double> numbers;
      const std::string what = place + ": layers." + name;
      for (const Json& item : items.as_array(what)) numbers.push_back(item.as_double(what));
      step.layers.emplace_back(name, std::move(numbers));
    }
  }
  return step;
}

// Walks over all whole rows: header(Line, TraceHeader), then row(Line, Json, kind, place). Returns the
// warning.
template <class OnHeader, class OnRow>
std::string walk(std::string_view text, std::string_view name, OnHeader on_header, OnRow on_row) {
  bool first = true;
  std::string warning;
  each_line(text, [&](const Line& line) {
    if (first) {
      first = false;
      on_header(line, read_header(name, line));
      return;
    }
    const std::string place = place_of(name, line);
    Json row;
    try {
      row = Json::parse(line.text, place);
    } catch (const Error&) {
      if (line.ended) throw;
      warning = fmt::format("the last row ({}) is torn and was left out", place);
      return;
    }
    check_crc(name, line);
    on_row(line, row, row.at("row", place).as_string(place + ": row"), place);
  });
  if (first) bad_input("{} is empty and no plumb trace; check that it is the right file", name);
  return warning;
}

}  // namespace

const Json* Trace::fact(std::string_view name) const {
  const auto found =
      std::find_if(facts.rbegin(), facts.rend(), [&](const FactRow& f) { return f.name == name; });
  return found == facts.rend() ? nullptr : &found->value;
}

Trace parse_trace(std::string_view text, std::string_view name) {
  Trace trace;
  trace.warning = walk(
      text, name, [&](const Line&, TraceHeader header) { trace.header = std::move(header); },
      [&](const Line&, const Json& row, const std::string& kind, const std::string& place) {
        if (kind == "fact")
          trace.facts.push_back({row.at("name", place).as_string(place + ": name"), row.at("value", place)});
        else if (kind == "step")
          trace.steps.push_back(read_step(row, place));
      });
  return trace;
}

Trace read_trace(const std::filesystem::path& path) { return parse_trace(read_file(path), path.string()); }

std::vector<std::string_view> absent_metrics(const Trace& trace) {
  std::vector<std::string_view> absent;
  for (const Metric& m : trace_metrics)
    if (std::ranges::none_of(trace.steps, [&](const StepRow& row) {
          return m.per_layer ? row.find_layers(m.name) != nullptr : row.find(m.name) != nullptr;
        }))
      absent.push_back(m.name);
  return absent;
}

std::size_t trace_keep_bytes(std::string_view text, std::string_view name, std::int64_t from_step) {
  std::size_t keep = 0;
  bool past = false;
  const auto take = [&](const Line& line) {
    if (!past) keep = line.begin + line.text.size() + 1;
  };
  walk(
      text, name,
      [&](const Line& line, const TraceHeader&) {
        if (!line.ended)
          bad_input("{} ends in its first row, so nothing can be added to it; start the run anew", name);
        take(line);
      },
      [&](const Line& line, const Json& row, const std::string& kind, const std::string& place) {
        if (!line.ended) return;  // whole but for its newline: written again is safer than joined
        if (kind == "step") {
          const std::int64_t step = row.at("step", place).as_int(place + ": step");
          if (step > from_step || (step == from_step && row.find("val_loss") == nullptr)) past = true;
        }
        take(line);
      });
  return keep;
}

}  // namespace plumb
