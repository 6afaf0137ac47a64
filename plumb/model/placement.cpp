#include "plumb/model/placement.h"

namespace plumb {

const std::vector<Placement>& placements() {
  static const std::vector<Placement> all = {
      {.name = "parallel",
       .purpose = "One norm's wait less a block: both branches run at the same time, at little cost in large "
                  "models.",
       .before = true,
       .parallel = true,
       .formula = "y = x + f(N1(x)) + g(N2(x))",
       .paper = "Wang & Komatsuzaki 2021 (GPT-J); two norms: Black et al. 2022 (GPT-NeoX), arXiv 2204.06745"},
      {.name = "post",
       .purpose =
           "The first Transformer's: the stream itself is normalised, so it cannot grow, and gradients "
           "shrink towards the first blocks.",
       .after_add = true,
       .formula = "y = N(x + f(x))",
       .paper = "Vaswani et al. 2017, arXiv 1706.03762"},
      {.name = "post_branch",
       .purpose = "What is written is normalised, what is read is not: writes keep one size at every depth.",
       .after_branch = true,
       .formula = "y = x + N(f(x))",
       .paper = "OLMo et al. 2024 (OLMo 2), arXiv 2501.00656; Liu et al. 2021 (Swin V2), arXiv 2111.09883"},
      {.name = "pre",
       .purpose =
           "The identity path stays free of norms: trains at any depth without warm-up, and its stream "
           "grows.",
       .before = true,
       .formula = "y = x + f(N(x))",
       .paper = "Radford et al. 2019 (GPT-2); Xiong et al. 2020, arXiv 2002.04745"},
      {.name = "sandwich",
       .purpose = "Pre-LN whose writes are normalised too: the stream grows by one size a write.",
       .before = true,
       .after_branch = true,
       .formula = "y = x + N2(f(N1(x)))",
       .paper = "Ding et al. 2021 (CogView), arXiv 2105.13290; Gemma 2, arXiv 2408.00118"},
  };
  return all;
}

}  // namespace plumb
