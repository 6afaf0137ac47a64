#include "plumb/report/terminal_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace plumb {

namespace {

struct Frame {
  double x0, x1, y0, y1;
};

bool shown(const std::pair<double, double>& p) { return std::isfinite(p.first) && std::isfinite(p.second); }

// What all have to fit in; nothing where there is no point. Of a series that broke the heights count only up
// to its start: the last ones before it broke may be any number, and would make a flat line of the others.
std::optional<Frame> frame_of(const std::vector<Series>& series) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  Frame f{inf, -inf, inf, -inf};
  for (const Series& s : series) {
    double start = inf;
    if (s.broke) f.x0 = std::min(f.x0, *s.broke), f.x1 = std::max(f.x1, *s.broke);
    for (const auto& p : s.points) {
      if (!shown(p)) continue;
      if (s.broke && start == inf) start = p.second;
      f.x0 = std::min(f.x0, p.first), f.x1 = std::max(f.x1, p.first);
      f.y0 = std::min(f.y0, p.second), f.y1 = std::max(f.y1, std::min(p.second, start));
    }
  }
  if (f.x0 > f.x1 || f.y0 > f.y1) return {};
  if (f.y1 - f.y0 < 1e-12) f.y0 -= 0.5, f.y1 += 0.5;
  if (f.x1 - f.x0 < 1e-12) f.x1 = f.x0 + 1;
  return f;
}

char letter_of(std::size_t series) { return static_cast<char>('a' + static_cast<int>(series % 26)); }

}  // namespace

std::string terminal_plot(const std::vector<Series>& series, std::size_t width, std::size_t height) {
  const auto frame = frame_of(series);
  if (!frame) return "(nothing to draw)\n";
  const auto [x0, x1, y0, y1] = *frame;
  const auto column = [&](double x) {
    return static_cast<std::size_t>(std::lround((x - x0) / (x1 - x0) * static_cast<double>(width - 1)));
  };
  std::vector<std::string> canvas(height, std::string(width, ' '));
  for (std::size_t i = 0; i < series.size(); ++i) {
    const char letter = letter_of(i);
    for (const auto& p : series[i].points) {
      if (!shown(p)) continue;
      const auto row = static_cast<std::size_t>(
          std::lround((y1 - std::min(p.second, y1)) / (y1 - y0) * static_cast<double>(height - 1)));
      char& c = canvas[row][column(p.first)];
      c = c == ' ' || c == letter ? letter : '*';
    }
  }
  for (const Series& s : series)
    if (s.broke) canvas[0][column(*s.broke)] = '!';
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
    out += fmt::format(
        "{:>12} {}{}\n", letter_of(i), series[i].name,
        series[i].broke ? fmt::format(", not finite from {:g} on (!)", *series[i].broke) : std::string());
  if (meet) out += fmt::format("{:>12} where they meet\n", '*');
  return out;
}

std::string terminal_bar(double value, double most, std::size_t width) {
  const double share = std::isfinite(value) && most > 0 ? std::clamp(value / most, 0.0, 1.0) : 0;
  const auto full = static_cast<std::size_t>(std::lround(share * static_cast<double>(width)));
  return std::string(full, '#') + std::string(width - full, '.');
}

}  // namespace plumb
