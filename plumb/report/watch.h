// The doctor beside a run that goes on: findings as they arise.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "plumb/doctor/doctor.h"

namespace plumb {

class Watch {
 public:
  /// `begun` gives the trace as it is when the first look is due: its header, its facts, and all rows so far, the one that
  /// is being taken included. Looks are `every` steps apart (25 where it is 0), and further where the rows are many.
  Watch(std::function<Trace()> begun, std::int64_t every);

  /// Takes the next row of the trace. The findings that this look has, the one before had too, and that were not told yet:
  /// what comes and goes within a few steps is left to the end of the run.
  std::vector<Finding> add(const StepRow&);

 private:
  std::function<Trace()> begun_;
  std::int64_t every_, next_;
  std::vector<DoctorEntry> table_ = doctor_table();
  Trace trace_;
  bool open_ = false;
  std::vector<std::string> seen_, told_;
};

}  // namespace plumb
