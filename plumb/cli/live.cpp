#include "plumb/cli/live.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "plumb/base/clock.h"
#include "plumb/base/text.h"
#include "plumb/base/wrap.h"
#include "plumb/cli/say.h"

namespace plumb::cli {
namespace {

constexpr double smoothing = 0.9;  // of the loss that is held against the baselines: one batch says little

struct Piece {
  std::string text, brief;  // with room, and without
  int rank;                 // what goes first when even the brief forms do not fit: the highest
};

std::vector<Piece> diagnostics_of(const StepRow& row) {
  std::vector<Piece> all;
  if (const auto* act = row.find_layers("act_std"); act && !act->empty()) {
    const std::string ratio = "x" + number_text(act->back() / act->front(), "{:.2f}");
    all.push_back({"stream " + ratio, ratio, 2});
  }
  if (const auto* h = row.find_layers("attn_entropy"); h && !h->empty()) {
    double sum = 0;
    for (double e : *h) sum += e;
    const std::string mean = number_text(sum / static_cast<double>(h->size()), "{:.2f}");
    all.push_back({"entropy " + mean, "H " + mean, 3});
  }
  if (const double* kl = row.find("adjacent_kl"))
    all.push_back({"adjacent KL " + number_text(*kl, "{:.2g}"), "KL " + number_text(*kl, "{:.2g}"), 2});
  return all;
}

std::string join_pieces(const std::vector<Piece>& pieces, bool brief) {
  std::string out;
  for (const Piece& p : pieces)
    if (!p.text.empty()) out += (out.empty() ? "" : "  ") + (brief ? p.brief : p.text);
  return out;
}

std::string fitted(std::vector<Piece> pieces, std::size_t width) {
  std::string line = join_pieces(pieces, false);
  if (line.size() <= width) return line;
  for (line = join_pieces(pieces, true); line.size() > width; line = join_pieces(pieces, true)) {
    const auto last = std::ranges::max_element(pieces, {}, &Piece::rank);
    if (last->rank == 0) break;
    pieces.erase(last);
  }
  return line.substr(0, width);
}

}  // namespace

std::size_t terminal_width(int file) {
  winsize w{};
  return ioctl(file, TIOCGWINSZ, &w) == 0 && w.ws_col > 20 ? w.ws_col : 100;
}

std::size_t plot_width() { return std::min<std::size_t>(72, terminal_width() - 14); }

std::string cut_to_terminal(const std::string& line) {
  if (isatty(STDOUT_FILENO) == 0 || bad_utf8_offset(line)) return line;
  const std::u32string text = utf8_decode(line, "the line");
  const std::size_t width = terminal_width();
  return text.size() <= width ? line : utf8_encode(std::u32string_view(text).substr(0, width - 1)) + "…";
}

std::string duration(double s) {
  const auto n = static_cast<long>(std::lround(s));
  if (n < 60) return fmt::format("{} s", n);
  return n < 3600 ? fmt::format("{} min {:02} s", n / 60, n % 60)
                  : fmt::format("{} h {:02} min", n / 3600, n / 60 % 60);
}

std::string baseline_crossed(double loss, const Baselines& b, std::optional<double> floor) {
  if (!std::isfinite(loss)) return "not finite";
  std::string best = fmt::format("above uniform {:.2f}", b.uniform);
  for (const auto& [name, value] : {std::pair{"uniform", b.uniform},
                                    {"unigram", b.unigram},
                                    {"bigram", b.bigram},
                                    {"trigram", b.trigram}})
    if (loss < value) best = fmt::format("below {} {:.2f}", name, value);
  if (floor && loss < *floor) best = fmt::format("below the floor {:.2f}", *floor);
  return best;
}

Live::Live(std::vector<std::string> names) : tty_(isatty(STDERR_FILENO) != 0) {
  for (std::string& n : names) rows_.push_back({.name = std::move(n)});
}

void Live::start(std::size_t run, const RunStart& s) {
  const std::lock_guard lock(mutex_);
  Row& row = rows_[run];
  row.baselines = s.baselines;
  row.floor = s.floor;
  const DecoderSpec& m = s.spec;
  std::string text;
  // What is only read fits the terminal; notes and names of folders stay whole for who looks for them.
  const std::size_t width = terminal_width(STDERR_FILENO);
  const std::string who = row.name.empty() ? "" : row.name + ": ";
  auto line = [&](const std::string& l) { text += who + l + "\n"; };
  auto fitting = [&](const std::string& l) { text += wrapped_behind(who, l, width) + "\n"; };
  fitting(
      fmt::format("{} layer{}, d_model {}, {} heads, d_ff {}, block {}: {} parameters; norm {}, placement "
                  "{}, residual {}",
                  m.n_layer, m.n_layer == 1 ? "" : "s", m.d_model, m.n_head, m.d_ff, m.block_size, s.n_params,
                  m.norm, m.placement, m.residual));
  fitting(fmt::format("{} characters, {} symbols cover {:.2f} %; {} tokens to train on, {} to validate",
                      s.n_characters, s.vocab_size, 100 * s.coverage, s.train_tokens, s.val_tokens));
  fitting(
      fmt::format("baselines on the validation split, nats: uniform {:.3f}, unigram {:.3f}, bigram {:.3f}, "
                  "trigram {:.3f}{}",
                  s.baselines.uniform, s.baselines.unigram, s.baselines.bigram, s.baselines.trigram,
                  s.floor ? fmt::format("; floor {:.3f} (exact)", *s.floor) : std::string()));
  fitting(fmt::format("{} thread{}, {} shard{} of {} sequences, {}, {:.0f} MB", s.threads,
                      s.threads == 1 ? "" : "s", s.shards, s.shards == 1 ? "" : "s", s.sequences_a_shard,
                      s.target, static_cast<double>(s.bytes) / 1e6));
  for (const std::string& r : s.remarks) line("note: " + r);
  line(fmt::format("run folder: {}{}", s.run,
                   s.first_step ? fmt::format(", going on from step {}", s.first_step) : ""));
  if (!explained_ && s.probe_every > 0)
    text +=
        wrapped_behind(fmt::format("measured every {} steps: ", s.probe_every),
                       "stream (activation std of the last block over the first's), entropy (of attention; "
                       "1: it looks everywhere alike), adjacent KL (how much the prediction changes from one "
                       "position to the next)",
                       width) +
        "\n";
  explained_ = true;
  print_above(text);
}

void Live::note(std::size_t run, const std::string& line) {
  const std::lock_guard lock(mutex_);
  const std::string& name = rows_[run].name;
  print_above((name.empty() ? "" : name + ": ") + line + "\n");
}

void Live::print_above(const std::string& lines) {
  const bool drawn = drawn_ > 0;
  if (drawn) say("\r{}\033[J", drawn_ > 1 ? fmt::format("\033[{}A", drawn_ - 1) : std::string());
  drawn_ = 0;
  say("{}", lines);
  if (drawn) draw();
}

void Live::probed(std::size_t run, const StepRow& r) {
  const std::lock_guard lock(mutex_);
  rows_[run].probed = r;
}

void Live::step(std::size_t run, const StepReport& r) {
  const std::lock_guard lock(mutex_);
  Row& row = rows_[run];
  row.smooth_loss = row.begun ? smoothing * row.smooth_loss + (1 - smoothing) * r.loss : r.loss;
  row.begun = true;
  if (r.val_loss) row.val_loss = r.val_loss;
  const bool last = r.step + 1 == r.steps;
  if (!tty_ && r.step % 50 != 0 && !r.val_loss && !last) return;
  const std::string crossed = baseline_crossed(row.smooth_loss, row.baselines, row.floor);
  const std::string left = duration(r.seconds_left);
  std::vector<Piece> pieces{
      {row.name, row.name, 0},
      {fmt::format("step {:>5}/{}", r.step + 1, r.steps), fmt::format("{}/{}", r.step + 1, r.steps), 0},
      {fmt::format("loss {:.4f} ({})", r.loss, crossed), fmt::format("{:.3f} {}", r.loss, crossed), 0},
      {left + " left", left, 1}};
  for (Piece& p : diagnostics_of(row.probed)) pieces.push_back(std::move(p));
  if (row.val_loss)
    pieces.push_back({"validation " + number_text(*row.val_loss, "{:.4f}"),
                      "val " + number_text(*row.val_loss, "{:.3f}"), 4});
  pieces.push_back(
      {fmt::format("{:.0f} tokens/s", r.tokens_per_s), fmt::format("{:.0f} tok/s", r.tokens_per_s), 5});
  row.text = tty_ ? fitted(std::move(pieces), terminal_width(STDERR_FILENO) - 1) : join_pieces(pieces, false);
  if (!tty_) {
    say("{}\n", row.text);
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  if (now - shown_ < std::chrono::milliseconds(100) && !last) return;
  shown_ = now;
  draw();
}

void Live::draw() {
  std::string out = drawn_ > 1 ? fmt::format("\r\033[{}A", drawn_ - 1) : "\r";
  for (std::size_t i = 0; i < rows_.size(); ++i)
    out += "\033[K" + rows_[i].text.substr(0, terminal_width(STDERR_FILENO) - 1) +
           (i + 1 < rows_.size() ? "\n" : "");
  drawn_ = rows_.size();
  say("{}", out);
}

Progress::Progress(std::string what, bool quiet)
    : what_(std::move(what)), silent_(quiet || isatty(STDERR_FILENO) == 0), begun_(now_s()) {}

void Progress::at(double share) {
  const double now = now_s();
  if (silent_ || now - begun_ < 1 || now - last_ < 0.2) return;
  last_ = now;
  shown_ = true;
  say("\r\033[K{}: {:.0f} %, {} left", what_, 100 * share,
      duration((now - begun_) * (1 - share) / std::max(share, 1e-9)));
}

void Progress::close() {
  if (shown_) say("\r\033[K");
}

void Live::close() {
  const std::lock_guard lock(mutex_);
  if (drawn_ > 0) say("\n");
  drawn_ = 0;
}

}  // namespace plumb::cli
