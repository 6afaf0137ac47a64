#include "plumb/base/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "plumb/base/error.h"
#include "plumb/base/files.h"

namespace plumb {
namespace fs = std::filesystem;
namespace {
int open_folder(const fs::path& folder) { return open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }
}  // namespace

FolderLock::FolderLock(const fs::path& folder) : fd_(open_folder(folder)) {
  // More than once: is_held of somebody who only looks takes it for a moment.
  for (int tries = 0; fd_ >= 0 && tries < 5; ++tries) {
    if (flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
    if (errno != EWOULDBLOCK) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    errno = EWOULDBLOCK;
  }
  const int why = errno;
  if (fd_ >= 0) close(fd_);
  if (why == EWOULDBLOCK)
    bad_input("{} is being written by another run; wait for it, or stop it first", folder.string());
  bad_input("{} cannot be locked: {}", folder.string(), reason_of(why));
}

FolderLock::~FolderLock() { close(fd_); }

bool FolderLock::is_held(const fs::path& folder) {
  const int fd = open_folder(folder);
  if (fd < 0) return false;
  const bool held = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(fd);
  return held;
}

}  // namespace plumb
