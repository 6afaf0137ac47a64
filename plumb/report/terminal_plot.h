// Pictures made of characters, for a terminal or a log.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace plumb {

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x, y; points that are not finite are left out
  std::optional<double> broke = {};               // the x from which it was not finite any more
};

/// The series in one frame, each drawn with its own letter (a, b, …; `*` where two meet), with axis labels
/// and a legend. A series that broke does not stretch the frame: what lies above the others and above its own
/// start is drawn at the upper edge, and `!` marks where it broke. `width` and `height` count the characters
/// of the frame, of which the axis takes 12 more.
std::string terminal_plot(const std::vector<Series>&, std::size_t width = 72, std::size_t height = 16);

/// "####····" of `width` characters for a value between 0 and `most`.
std::string terminal_bar(double value, double most, std::size_t width);

}  // namespace plumb
