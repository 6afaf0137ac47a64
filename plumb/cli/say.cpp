#include "plumb/cli/say.h"

#include <new>

#include "plumb/base/error.h"

namespace plumb::cli {

Sentence sentence_of(const std::exception_ptr& error) {
  Sentence s;
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    s = {e.what(), e.exit_code};
  } catch (const std::bad_alloc&) {
    s = {"there is not enough memory; lower train.batch_size or model.n_layer, or take a smaller text", 1};
  } catch (const std::exception& e) {
    s = {e.what(), 1};
  }
  // One line, whatever the user's own words in it hold.
  for (char& c : s.text)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  return s;
}

}  // namespace plumb::cli
