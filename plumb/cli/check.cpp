// plumb check: the invariants and identities, measured.
#include "plumb/study/check.h"

#include <fmt/format.h>

#include <algorithm>

#include "plumb/base/clock.h"
#include "plumb/base/error.h"
#include "plumb/base/text.h"
#include "plumb/base/wrap.h"
#include "plumb/cli/flags.h"
#include "plumb/cli/live.h"
#include "plumb/cli/say.h"

namespace plumb::cli {
namespace {

void print_row(const Check& c) {
  const std::string label = fmt::format("  {}  {:<11} {:<16} ", c.pass ? "ok  " : "FAIL",
                                        number_text(c.value, "{:.4g}"), c.expected);
  fmt::print("{}\n",
             wrapped_behind(label, c.name + (c.published.empty() ? "" : "; published: " + c.published),
                            terminal_width()));
}

}  // namespace

int check_command(const Flags& f) {
  const Components c;
  std::vector<std::string> known;
  for (const CheckGroup& g : check_groups()) known.emplace_back(g.name);
  for (const std::string& name : f.args)
    if (std::ranges::find(known, name) == known.end()) bad_input("{}", unknown_name("check", name, known));
  std::vector<Check> all;
  int failed = 0;
  for (const CheckGroup& g : check_groups()) {
    if (!f.args.empty() && std::ranges::find(f.args, g.name) == f.args.end()) continue;
    if (!f.json) fmt::print("{}\n", wrapped_behind(fmt::format("{}: ", g.name), g.about, terminal_width()));
    for (Check& check : g.run(c)) {
      failed += check.pass ? 0 : 1;
      if (!f.json) print_row(check);
      all.push_back(std::move(check));
    }
    std::fflush(stdout);
  }
  if (f.json)
    fmt::print("{}\n", checks_json(all).dump());
  else
    fmt::print("{} checks, {} failed\n", all.size(), failed);
  return failed ? 1 : 0;
}

}  // namespace plumb::cli
