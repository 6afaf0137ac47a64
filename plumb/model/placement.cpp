#include "plumb/model/placement.h"

namespace plumb {

const std::vector<Placement>& placements() {
  static const std::vector<Placement> all = {
      {.name = "parallel",
       .before = true,
       .parallel = true,
       .formula = "y = x + f(N1(x)) + g(N2(x))",
       .paper = "Wang & Komatsuzaki 2021 (GPT-J); two norms: Black et al. 2022 (GPT-NeoX), arXiv 2204.06745"},
      {.name = "post",
       .after_add = true,
       .formula = "y = N(x + f(x))",
       .paper = "Vaswani et al. 2017, arXiv 1706.03762"},
      {.name = "post_branch",
       .after_branch = true,
       .formula = "y = x + N(f(x))",
       .paper = "OLMo et al. 2024 (OLMo 2), arXiv 2501.00656; Liu et al. 2021 (Swin V2), arXiv 2111.09883"},
      {.name = "pre",
       .before = true,
       .formula = "y = x + f(N(x))",
       .paper = "Radford et al. 2019 (GPT-2); Xiong et al. 2020, arXiv 2002.04745"},
      {.name = "sandwich",
       .before = true,
       .after_branch = true,
       .formula = "y = x + N2(f(N1(x)))",
       .paper = "Ding et al. 2021 (CogView), arXiv 2105.13290; Gemma 2, arXiv 2408.00118"},
  };
  return all;
}

}  // namespace plumb
