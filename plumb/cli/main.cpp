// plumb <command> [args]: parse, dispatch, and one sentence for whatever goes wrong.
#include <cstdio>
#include <exception>
#include <new>

#include "plumb/base/error.h"
#include "plumb/cli/flags.h"

int main(int argc, char** argv) {
  using namespace plumb;
  try {
    return cli::run(argc, argv);
  } catch (const Error& e) {
    std::fprintf(stderr, "plumb: %s\n", e.what());
    return e.exit_code;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "plumb: there is not enough memory; lower train.batch_size or model.n_layer\n");
    return 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "plumb: %s\n", e.what());
    return 1;
  }
}
