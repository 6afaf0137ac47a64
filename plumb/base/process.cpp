#include "plumb/base/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "plumb/base/error.h"
#include "plumb/base/files.h"

namespace plumb {
namespace {

std::string last_line(std::string_view text) {
  std::string last;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) last = std::string(line);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return last;
}

// A child and the pipe from its standard error. Whoever leaves before the child has ended ends it.
class Child {
 public:
  Child(pid_t pid, int errors) : pid_(pid), errors_(errors) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    ::close(errors_);
    if (ended_) return;
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
    }
  }

  /// Adds what comes within `wait` milliseconds (-1: for ever) to `text`; false at the pipe's end.
  bool read(std::string& text, int wait) const {
    pollfd ready{.fd = errors_, .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, wait) <= 0) return true;  // nothing yet, or a signal
    std::array<char, 4096> buffer{};
    const ssize_t n = ::read(errors_, buffer.data(), buffer.size());
    if (n < 0) return errno == EINTR;
    text.append(buffer.data(), static_cast<std::size_t>(n));
    if (text.size() > 65536) text.erase(0, text.size() - 32768);  // only the end is of use
    return n > 0;
  }

  /// True when it has ended; without `wait` at once.
  bool ended(bool wait) {
    pid_t found = 0;
    do found = ::waitpid(pid_, &status_, wait ? 0 : WNOHANG);
    while (found < 0 && errno == EINTR);
    return ended_ = found != 0;
  }

  int exit_code() const { return WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_); }

 private:
  pid_t pid_;
  int errors_, status_ = 0;
  bool ended_ = false;
};

// Calls back once a period, as often as someone asks whether it is time.
class Ticker {
 public:
  Ticker(const Tick& tick, std::chrono::steady_clock::duration period) : tick_(tick), period_(period) {}
  void look() {
    const auto now = std::chrono::steady_clock::now();
    if (!tick_ || now < next_) return;
    tick_(now - start_);
    next_ = now + period_;
  }
  /// Milliseconds until the next tick, at least 1; -1 when there is none to come.
  int left() const {
    if (!tick_) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next_ - std::chrono::steady_clock::now());
    return static_cast<int>(std::clamp<std::chrono::milliseconds::rep>(left.count(), 1, 60'000));
  }

 private:
  const Tick& tick_;
  std::chrono::steady_clock::duration period_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now(), next_ = start_ + period_;
};

}  // namespace

ProcessResult run_process(const std::vector<std::string>& argv, const std::filesystem::path& directory,
                          const Tick& tick, std::chrono::steady_clock::duration period) {
  std::vector<char*> arguments;
  arguments.reserve(argv.size() + 1);
  for (const std::string& a : argv)
    arguments.push_back(const_cast<char*>(a.c_str()));  // posix_spawn does not write to them
  arguments.push_back(nullptr);

  std::array<int, 2> errors{};
  if (::pipe2(errors.data(), O_CLOEXEC) != 0) fail("cannot start {}: {}", argv.at(0), reason_of(errno));

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, directory.c_str());
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, errors[1], STDERR_FILENO);
  pid_t child = 0;
  const int e = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(errors[1]);
  if (e != 0) {
    ::close(errors[0]);
    if (e == ENOENT) return {.exit_code = 127, .not_found = true, .last_error = "", .errors = ""};
    fail("cannot start {}: {}", argv[0], reason_of(e));
  }

  Child process(child, errors[0]);
  Ticker ticker(tick, period);
  ProcessResult result;
  while (process.read(result.errors, ticker.left())) ticker.look();
  // A program may close its standard error and go on; there is nothing to poll then.
  constexpr int nap = 20;  // milliseconds
  while (!process.ended(!tick)) {
    ::poll(nullptr, 0, std::min(ticker.left(), nap));
    ticker.look();
  }
  result.exit_code = process.exit_code();
  result.last_error = last_line(result.errors);
  return result;
}

}  // namespace plumb
