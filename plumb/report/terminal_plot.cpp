#include "plumb/report/terminal_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace plumb {

std::string terminal_plot(const std::vector<Series>& series, std::size_t width, std::size_t height) {
  auto shown = [](const std::pair<double, double>& p) {
    return std::isfinite(p.first) && std::isfinite(p.second);
  };
  constexpr double inf = std::numeric_limits<double>::infinity();
  double x0 = inf, x1 = -inf, y0 = inf, y1 = -inf;
  for (const Series& s : series)
    for (const auto& p : s.points)
      if (shown(p)) {
        x0 = std::min(x0, p.first), x1 = std::max(x1, p.first);
        y0 = std::min(y0, p.second), y1 = std::max(y1, p.second);
      }
  if (x0 > x1) return "(nothing to draw)\n";
  if (y1 - y0 < 1e-12) y0 -= 0.5, y1 += 0.5;
  if (x1 - x0 < 1e-12) x1 = x0 + 1;
  std::vector<std::string> canvas(height, std::string(width, ' '));
  for (std::size_t i = 0; i < series.size(); ++i) {
    const char letter = static_cast<char>('a' + static_cast<int>(i % 26));
    for (const auto& p : series[i].points) {
      if (!shown(p)) continue;
      const auto column =
          static_cast<std::size_t>(std::lround((p.first - x0) / (x1 - x0) * static_cast<double>(width - 1)));
      const auto row = static_cast<std::size_t>(
          std::lround((y1 - p.second) / (y1 - y0) * static_cast<double>(height - 1)));
      char& c = canvas[row][column];
      c = c == ' ' || c == letter ? letter : '*';
    }
  }
  bool meet = false;
  for (const std::string& line : canvas) meet |= line.find('*') != std::string::npos;
  std::string out;
  for (std::size_t r = 0; r < height; ++r) {
    const double y = y1 - (y1 - y0) * static_cast<double>(r) / static_cast<double>(height - 1);
    const bool label = r % 5 == 0 || r + 1 == height;
    out += label ? fmt::format("{:>10.4g} |", y) : std::string(11, ' ') + "|";
    const std::string& line = canvas[r];
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  const std::string left = fmt::format("{:g}", x0), right = fmt::format("{:g}", x1);
  out += std::string(11, ' ') + "+" + std::string(width, '-') + "\n" + std::string(12, ' ') + left +
         std::string(width > left.size() + right.size() ? width - left.size() - right.size() : 1, ' ') +
         right + "\n";
  for (std::size_t i = 0; i < series.size(); ++i)
    out += fmt::format("{:>12} {}\n", static_cast<char>('a' + static_cast<int>(i % 26)), series[i].name);
  if (meet) out += fmt::format("{:>12} where they meet\n", '*');
  return out;
}

std::string terminal_bar(double value, double most, std::size_t width) {
  const double share = std::isfinite(value) && most > 0 ? std::clamp(value / most, 0.0, 1.0) : 0;
  const auto full = static_cast<std::size_t>(std::lround(share * static_cast<double>(width)));
  return std::string(full, '#') + std::string(width - full, '.');
}

}  // namespace plumb
