#include "plumb/config/config.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "plumb/base/error.h"
#include "plumb/base/files.h"
#include "plumb/base/text.h"
#include "plumb/base/wrap.h"
#include "plumb/config/toml.h"

namespace plumb {
namespace {

constexpr std::uint64_t max_config_bytes = 1 << 20;

// The names of sections, in the table's order, each once.
std::vector<std::string> section_names() {
  std::vector<std::string> names;
  for (const auto& f : config_fields())
    if (names.empty() || names.back() != f.section) names.push_back(f.section);
  return names;
}

bool is_section(std::string_view path) {
  const auto& fields = config_fields();
  return std::any_of(fields.begin(), fields.end(), [&](const Field<Config>& f) { return f.section == path; });
}

std::string after_last_dot(std::string_view path) { return std::string(path.substr(path.rfind('.') + 1)); }

// The known key that `key` probably means: in its own section, or the same name in another, or the first in
// its section that has the word in it ("heads": n_head), or, of an unknown section, the nearest of all.
std::optional<std::string> nearest_key(std::string_view key) {
  const std::string section(key.substr(0, key.find('.') == std::string_view::npos ? 0 : key.rfind('.')));
  const std::string bare = after_last_dot(key);
  std::vector<std::string> here, all;
  for (const auto& f : config_fields()) {
    if (f.section == section) here.push_back(f.key);
    all.push_back(f.path());
  }
  if (const auto near = nearest_name(bare, here)) return section + "." + *near;
  for (const auto& f : config_fields())
    if (f.key == bare) return f.path();
  const std::string word = bare.ends_with('s') ? bare.substr(0, bare.size() - 1) : bare;
  for (const std::string& k : here)
    if (word.size() >= 4 && k.find(word) != std::string::npos) return section + "." + k;
  return here.empty() ? nearest_name(key, all) : std::nullopt;
}

[[noreturn]] void unknown_key(std::string_view key, std::string_view place) {
  if (const auto near = nearest_key(key))
    bad_input("unknown key '{}' ({}); did you mean '{}'?", key, place, *near);
  std::vector<std::string> known;
  for (const auto& f : config_fields()) {
    if (key.starts_with(f.section + ".") && key.find('.', f.section.size() + 1) == std::string_view::npos)
      known.push_back(f.key);
  }
  const bool here = !known.empty();
  bad_input("unknown key '{}' ({}); known {}: {}", key, place, here ? "in its section" : "sections",
            join(here ? known : section_names()));
}

void assign(Config& config, const Field<Config>& field, FieldValue value, const std::string& place) {
  const std::string refusal = field_refusal(field.type, field.check, value);
  if (!refusal.empty()) bad_input("{} ({}) {}; change it there", field.path(), place, refusal);
  field.set(config, std::move(value));
  config.places[field.path()] = place;
}

void take(Config& config, const TomlEntry& entry, std::string_view name) {
  const std::string place = fmt::format("{}:{}", name, entry.line);
  const Field<Config>* field = find_config_field(entry.path);
  if (entry.kind == TomlEntry::Kind::table) {
    if (field != nullptr) {
      bad_input("{} ({}) must be {}, but is a table; change it there", entry.path, place,
                field_type_name(field->type));
    }
    if (is_section(entry.path)) return;
    const auto names = section_names();
    const auto near = nearest_name(entry.path, names);
    bad_input("unknown section [{}] ({}); {}known: {}", entry.path, place,
              near ? fmt::format("did you mean [{}]? ", *near) : std::string(), join(names));
  }
  if (field == nullptr && is_section(entry.path))
    bad_input("{} ({}) is a section; write [{}] and its keys below", entry.path, place, entry.path);
  if (field == nullptr) unknown_key(entry.path, place);
  if (entry.kind == TomlEntry::Kind::other) {
    bad_input("{} ({}) must be {}, but is {}; change it there", entry.path, place,
              field_type_name(field->type), entry.what);
  }
  assign(config, *field, entry.value, place);
}

// The whole of `text` as a T, or nothing.
template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

std::string_view trimmed(std::string_view s) {
  const std::size_t first = s.find_first_not_of(" \t"), last = s.find_last_not_of(" \t");
  return first == std::string_view::npos ? std::string_view() : s.substr(first, last - first + 1);
}

std::string unquoted(std::string_view text) {
  const bool in_quotes =
      text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.front() == text.back();
  return std::string(in_quotes ? text.substr(1, text.size() - 2) : text);
}

// "a, b" or ["a", "b"].
std::vector<std::string> command_line_list(std::string_view text) {
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') text = text.substr(1, text.size() - 2);
  std::vector<std::string> all;
  while (!trimmed(text).empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    all.push_back(unquoted(trimmed(text.substr(0, comma))));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return all;
}

// A value from the command line: what it looks like, except that text needs no quotes.
FieldValue command_line_value(FieldType type, std::string_view text) {
  if (type == FieldType::list) return command_line_list(text);
  if (type != FieldType::text) {
    if (text == "true" || text == "false") return text == "true";
    if (const auto i = number<std::int64_t>(text)) return *i;
    if (const auto d = number<double>(text)) return *d;
  }
  return unquoted(text);
}

// A line of a file to edit: `help` is a comment behind it, in as many lines as 100 columns ask for.
std::string in_comment(const std::string& line, const std::string& help) {
  constexpr std::size_t width = 100, column = 32;
  const std::string edge = std::string(column, ' ') + "# ";
  std::string text = fmt::format("{:<{}}# ", line, column), rest = wrapped(help, width, column + 2);
  for (std::size_t end; (end = rest.find('\n')) != std::string::npos; rest.erase(0, end + 1 + edge.size()))
    text += rest.substr(0, end + 1) + edge;
  return text + rest + "\n";
}

void json_section(Json& root, std::string_view section, const std::string& key, Json value) {
  Json* at = &root;
  while (!section.empty()) {
    const std::size_t dot = section.find('.');
    at = &(*at)[section.substr(0, dot)];
    section = dot == std::string_view::npos ? std::string_view() : section.substr(dot + 1);
  }
  at->operator[](key) = std::move(value);
}

void take_json(Config& config, const Json& json, const std::string& prefix, std::string_view name) {
  for (const auto& [key, value] : json.as_object(prefix.empty() ? name : std::string_view(prefix))) {
    const std::string path = prefix.empty() ? key : prefix + "." + key;
    if (is_section(path)) {
      take_json(config, value, path, name);
      continue;
    }
    const Field<Config>& field = config_field(path, name);
    const std::string what = fmt::format("{} ({})", path, name);
    assign(config, field, field_from_json(field.type, value, what), std::string(name));
  }
}

}  // namespace

std::string Config::where(std::string_view key) const {
  const auto found = places.find(key);
  return found == places.end() ? "the default" : found->second;
}

const Field<Config>* find_config_field(std::string_view key) {
  const auto& fields = config_fields();
  const auto found =
      std::find_if(fields.begin(), fields.end(), [&](const Field<Config>& f) { return f.path() == key; });
  return found == fields.end() ? nullptr : &*found;
}

const Field<Config>& config_field(std::string_view key, std::string_view place) {
  if (const auto* field = find_config_field(key)) return *field;
  unknown_key(key, place);
}

Config parse_config(std::string_view text, std::string_view name) {
  Config config;
  for (const TomlEntry& entry : read_toml(text, name)) take(config, entry, name);
  return config;
}

Config load_config(const std::filesystem::path& path) {
  return parse_config(read_file(path, max_config_bytes), path.string());
}

void set_value(Config& config, std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos) {
    bad_input("--set {} has no '='; write --set section.key=value, for example --set train.lr=1e-3",
              assignment);
  }
  const Field<Config>& field = config_field(trimmed(assignment.substr(0, equals)), "--set");
  assign(config, field, command_line_value(field.type, trimmed(assignment.substr(equals + 1))), "--set");
}

std::string dump_toml(const Config& config, bool commented, const KnownNames& names) {
  const Config defaults;
  std::string out, section;
  for (const auto& field : config_fields()) {
    if (field.section != section) {
      section = field.section;
      out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", section);
    }
    const FieldValue value = field.get(config), usual = field.get(defaults);
    const bool unset = value.index() == 0;
    if (unset && !commented) continue;
    // In a file to be edited a key that nobody gave is a comment: written out it would count as given, and
    // contradict what another key implies once that one is changed.
    const bool silent =
        unset || (commented && !config.given(fmt::format("{}.{}", section, field.key)) && value == usual);
    const std::string line = fmt::format("{}{} = {}", silent ? "# " : "", field.key, field_text(value));
    if (!commented) {
      out += line + "\n";
      continue;
    }
    std::string help = field.help;
    const auto known = names.find(field.path());
    const std::string allowed = known != names.end() ? known->second : field_allowed(field.check);
    if (known != names.end() || !field.check.choices.empty()) help += fmt::format(" ({})", allowed);
    if (value != usual)
      help += usual.index() == 0 ? " [set]" : fmt::format(" [changed from {}]", field_text(usual));
    out += in_comment(line, help);
  }
  return out;
}

Json config_to_json(const Config& config) {
  Json json = Json::object();
  for (const auto& field : config_fields()) {
    if (FieldValue value = field.get(config); value.index() != 0)
      json_section(json, field.section, field.key, field_to_json(value));
  }
  return json;
}

Config config_from_json(const Json& json, std::string_view name) {
  Config config;
  take_json(config, json, "", name);
  return config;
}

std::string config_markdown(const KnownNames& names) {
  std::string out =
      "# The config\n\n"
      "A run's config is TOML. Every key is optional; `plumb config` prints a commented file, and `--set "
      "section.key=value` changes a\n"
      "key on the command line. This page is made from the table that reads the config "
      "(`plumb/config/fields.cpp`).\n";
  const Config defaults;
  std::string section;
  for (const auto& field : config_fields()) {
    if (field.section != section) {
      section = field.section;
      out += fmt::format(
          "\n## [{}]\n\n| key | is | default | allowed | meaning |\n| --- | --- | --- | --- | --- |\n",
          section);
    }
    const FieldValue usual = field.get(defaults);
    out += fmt::format("| `{}` | {} | {} | {} | {} |\n", field.key, field_type_name(field.type),
                       usual.index() == 0 ? "–" : fmt::format("`{}`", field_text(usual)),
                       names.contains(field.path()) ? names.at(field.path()) : field_allowed(field.check),
                       field.help);
  }
  return out;
}

}  // namespace plumb
