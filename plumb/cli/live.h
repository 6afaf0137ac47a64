// What a person sees while one or several runs train.
#pragma once
#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include "plumb/train/trainer.h"

namespace plumb::cli {

/// Columns of the terminal behind standard output (1) or standard error (2); 100 where there is none.
std::size_t terminal_width(int file = 1);

/// Characters that a plot's frame may have on standard output: what a terminal has beside the axis, at
/// most 72.
std::size_t plot_width();

/// A line of standard output as wide as the terminal, its end as "…"; as it is where there is none.
std::string cut_to_terminal(const std::string& line);

/// "45 s", "3 min 02 s", "1 h 05 min"
std::string duration(double seconds);

/// The best model without (much) context that a loss has already beaten: "below trigram 4.98", or "above
/// uniform 7.09".
std::string baseline_crossed(double loss, const Baselines&, std::optional<double> floor);

/// On a terminal one line a run that stays where it is; elsewhere a plain line now and then. On standard
/// error. Its functions may be called by several threads.
class Live {
 public:
  /// `names`: empty text for a single run; else what each line starts with.
  explicit Live(std::vector<std::string> names);
  void start(std::size_t run, const RunStart&);
  void step(std::size_t run, const StepReport&);
  /// A line that stays, above those that are drawn: a run that ended while others go on.
  void note(std::size_t run, const std::string& line);
  /// Keeps the row of a probed step for the diagnostics of the next lines.
  void probed(std::size_t run, const StepRow&);
  /// Leaves the lines as they are; what is printed next stands below them.
  void close();

 private:
  struct Row {
    std::string name = {}, text = {};
    StepRow probed = {};  // the last that was measured
    Baselines baselines{};
    std::optional<double> floor = {}, val_loss = {};
    double smooth_loss = 0;
    bool begun = false;
  };
  void draw();
  void print_above(const std::string& lines);
  std::mutex mutex_;
  std::vector<Row> rows_;
  bool tty_, explained_ = false;
  std::size_t drawn_ = 0;
  std::chrono::steady_clock::time_point shown_{};
};

/// The share of one long piece of work that is done, and the time left, on one line of a terminal; elsewhere
/// and with `quiet`, and while it takes less than a second, nothing.
class Progress {
 public:
  Progress(std::string what, bool quiet);
  void at(double share);
  /// Takes the line away.
  void close();

 private:
  std::string what_;
  bool shown_ = false, silent_;
  double begun_, last_ = 0;
};

}  // namespace plumb::cli
