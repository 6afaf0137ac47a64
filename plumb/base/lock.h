// One writer a folder.
#pragma once
#include <filesystem>

namespace plumb {

/// Held for as long as something writes into a folder: bad_input when another process, or another lock of
/// this one, holds it. The system releases it however a process ends.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// Whether somebody holds it now; false where that cannot be seen.
  static bool is_held(const std::filesystem::path& folder);

 private:
  int fd_;
};

}  // namespace plumb
