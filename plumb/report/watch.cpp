#include "plumb/report/watch.h"

#include <algorithm>

namespace plumb {
namespace {

constexpr std::int64_t first_look = 25;
// A look reads every row. So far apart they stay in proportion to the run, and past so many rows, some ten megabytes, the end of
// the run is soon enough.
constexpr std::size_t rows_a_step = 10, most_rows = 50'000;

bool among(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

Watch::Watch(std::function<Trace()> begun, std::int64_t every)
    : begun_(std::move(begun)), every_(every > 0 ? every : first_look), next_(first_look) {}

std::vector<Finding> Watch::add(const StepRow& row) {
  std::vector<Finding> fresh;
  if (trace_.steps.size() >= most_rows) return fresh;
  if (open_) trace_.steps.push_back(row);
  if (row.step < next_ || !row.find("loss")) return fresh;
  if (!open_) trace_ = begun_();
  open_ = true;
  next_ = row.step + std::max(every_, static_cast<std::int64_t>(trace_.steps.size() / rows_a_step));
  std::vector<std::string> now;
  for (Finding& f : diagnose(trace_, table_).findings) {
    now.push_back(f.cause);
    if (!among(seen_, f.cause) || among(told_, f.cause)) continue;
    told_.push_back(f.cause);
    fresh.push_back(std::move(f));
  }
  seen_ = std::move(now);
  return fresh;
}

}  // namespace plumb
