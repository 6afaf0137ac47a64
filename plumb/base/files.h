// Files, read and written whole. A file written here is either complete or not there: a crash or a full disk
// in the middle leaves the old one untouched.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace plumb {

/// The bytes of a file. bad_input when it is missing, a directory, unreadable, or larger than `max_bytes`.
std::string read_file(const std::filesystem::path& path, std::uint64_t max_bytes = UINT64_MAX);

/// Writes a temporary file beside `path`, syncs it and renames it over `path`. bad_input when any of this does
/// not work (a full disk is called that); the temporary file is then removed.
void write_file_atomic(const std::filesystem::path& path, std::string_view bytes);

/// The same for the concatenation of `pieces`.
void write_file_atomic(const std::filesystem::path& path, std::span<const std::string_view> pieces);

/// Makes the directory and its parents; an existing directory is fine. bad_input otherwise.
void make_dirs(const std::filesystem::path& path);

/// The last name of a path, also of one that ends in a slash: "b" of a/b and of a/b/.
std::string folder_name(const std::filesystem::path& path);

/// "No such file or directory (…)" worded for people: the reason of an errno value, with what to do for the
/// common ones.
std::string reason_of(int error_number);

}  // namespace plumb
