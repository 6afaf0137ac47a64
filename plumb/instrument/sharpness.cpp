// The steepest curvature of the loss, and the learning rates that it bears.
#include <fmt/format.h>

#include "plumb/base/wrap.h"
#include "plumb/instrument/instrument.h"
#include "plumb/study/curvature.h"

namespace plumb {
namespace {

Reading sharpness_read(Patient& p, const InstrumentOptions& o) {
  LossHessian hessian(p);
  const Steepest c = steepest_direction(p, hessian, [&] { stop_if_asked(o); });
  const double lr = p.sick.train.lr, threshold = 2 / c.eigenvalue;
  Reading r{.text = {}, .json = Json::object()};
  const auto line = [&](std::string_view what, const std::string& value, std::string_view more = {}) {
    r.text += fmt::format("{:<34} {:>12}{}{}\n", what, value, more.empty() ? "" : "  ", more);
  };
  line("largest eigenvalue", number_text(c.eigenvalue, "{:.4g}"),
       fmt::format("{} after {} products, residual {:.1f} %", c.settled ? "settled" : "not settled",
                   c.products, 100 * c.residual));
  line("2 / eigenvalue, SGD's largest rate", number_text(threshold, "{:.3g}"),
       p.sick.train.optimizer == "sgd" ? "" : fmt::format("{} has another", p.sick.train.optimizer));
  line("2 / train.lr, SGD's largest curvature", number_text(2 / lr, "{:.4g}"),
       fmt::format("train.lr = {:g}", lr));
  r.json["eigenvalue"] = c.eigenvalue, r.json["residual"] = c.residual, r.json["products"] = c.products;
  r.json["settled"] = c.settled, r.json["step"] = hessian.step(), r.json["two_over_eigenvalue"] = threshold;
  r.json["two_over_lr"] = 2 / lr, r.json["optimizer"] = p.sick.train.optimizer;
  return r;
}

}  // namespace

namespace entries::instrument {
extern constexpr InstrumentEntry sharpness = {
    .name = "sharpness",
    .measures = "the largest eigenvalue of the Hessian of the batch's loss, beside 2 / lr",
    .how =
        "H v is (g(w + e v) - g(w - e v)) / 2e with e a ten-thousandth of the parameters' norm and |v| = 1; "
        "v is the best of "
        "the span of the last one, its residual and the last step (Knyazev 2001, LOBPCG). The residual is |H "
        "v - r v| / |r|, r = "
        "v'Hv; it settles below 1 %, or stops after 100 products. To be held against 2 / lr: gradient "
        "descent "
        "oscillates above it "
        "and, once there, trains at it (Cohen et al. 2021, arXiv 2103.00065). That holds for SGD on a full "
        "batch; with "
        "momentum m it is (2 + 2m) / lr, and Adam's is 38 / lr with b1 = 0.9 for the Hessian preconditioned "
        "by its second "
        "moments, which is another matrix (Cohen et al. 2022, arXiv 2207.14484).",
    .read = sharpness_read,
};
}  // namespace entries::instrument

}  // namespace plumb
