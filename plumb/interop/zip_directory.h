// The table of contents of a zip file whose entries are stored, not compressed, which is how torch.save
// writes them. A stored entry is a range of bytes of the file, so tensors are read where they lie; and a file
// without compression cannot grow when it is read. Format: PKWARE's APPNOTE 6.3.9, sections 4.3 and 4.5.3
// (zip64).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "plumb/base/files.h"

namespace plumb {

struct ZipEntry {
  std::string name;
  std::uint64_t header = 0, bytes = 0;  // of the local header in the file; of the contents
};

/// The entries, by name. bad_input when the file is no zip file, is cut off, or an entry is compressed,
/// encrypted, outside of the file, on top of another, or there twice; also for more than 16 MB of table.
std::vector<ZipEntry> read_zip_directory(const FileReader& file);

/// Where the contents of an entry begin. bad_input when its own header says otherwise than the table.
std::uint64_t zip_contents(const FileReader& file, const ZipEntry& entry);

/// The entry called `name`, or nullptr.
const ZipEntry* find_entry(const std::vector<ZipEntry>& entries, std::string_view name);

}  // namespace plumb
