// plumb init: a commented config to start from.
#include "plumb/spec/presets.h"

#include <fmt/format.h>

#include "plumb/base/error.h"
#include "plumb/base/files.h"
#include "plumb/cli/flags.h"
#include "plumb/cli/say.h"
#include "plumb/model/decoder.h"

namespace plumb::cli {

int init_command(const Flags& f) {
  if (f.args.size() > 1) bad_input("name one preset: `plumb init chapter`");
  Config c = preset_config(f.args.empty() ? "chapter" : f.args.front());
  for (const std::string& s : f.set) set_value(c, s);
  if (f.json) {
    fmt::print("{}\n", config_to_json(c).dump());
    return 0;
  }
  std::string text =
      "# plumb train THIS_FILE.  Keys that are comments have their defaults.\n# Presets: `plumb init NAME`, "
      "with\n";
  for (const Preset& p : presets()) text += fmt::format("#   {:<8} {}\n", p.name, p.about);
  text += "\n" + dump_toml(c, true, known_names(Components{}));
  if (f.out.empty()) {
    fmt::print("{}", text);
    return 0;
  }
  std::error_code ignored;
  if (std::filesystem::exists(f.out, ignored))
    bad_input("{} is there already; name another file with --out", f.out);
  write_file_atomic(f.out, text);
  if (f.quiet) return 0;
  if (const std::string& corpus = c.data.corpus;
      corpus.ends_with(".txt") && !std::filesystem::exists(corpus, ignored))
    say("wrote {}; set data.corpus in it to a text of yours, then `plumb train {}`\n", f.out, f.out);
  else
    say("wrote {}; now `plumb train {}`\n", f.out, f.out);
  return 0;
}

}  // namespace plumb::cli
