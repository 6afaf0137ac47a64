// What a person sees while one or several runs train.
#pragma once
#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "plumb/train/trainer.h"

namespace plumb::cli {

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
  /// Keeps the row of a probed step for the diagnostics of the next lines.
  void probed(std::size_t run, const StepRow&);
  /// Leaves the lines as they are; what is printed next stands below them.
  void close();

 private:
  struct Row {
    std::string name = {}, text = {}, diagnostics = {};
    Baselines baselines{};
    std::optional<double> floor = {}, val_loss = {};
    double smooth_loss = 0;
    bool begun = false;
  };
  void draw();
  std::mutex mutex_;
  std::vector<Row> rows_;
  bool tty_;
  std::size_t drawn_ = 0;
  std::chrono::steady_clock::time_point shown_{};
};

}  // namespace plumb::cli
