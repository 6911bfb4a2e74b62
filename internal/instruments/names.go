package instruments

import (
	"fmt"
	"hash/crc32"
	"strconv"
	"unicode/utf8"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// maxName is the length of the longest name that is kept as it is, and maxStem that of what is kept
// of a longer one, in bytes.
const maxName, maxStem = 256, 247

// Name returns a name of a caller as labels and attributes can have it: one that is not UTF-8 would
// fail every scrape and every export of the process, and a long one would be in each of them. What
// is not UTF-8 is escaped as in Go's source, so names that differ there alone stay apart. Of a name
// that is longer than 256 bytes then, up to 247 stay, with ~ and a checksum of the whole name.
func Name(name string) string {
	if len(name) <= maxName && utf8.ValidString(name) {
		return name
	}
	stem := name[:min(len(name), maxName)] // what is kept of the name, and a rune more
	if !utf8.ValidString(name) {
		stem = strconv.Quote(stem)
		stem = stem[1 : len(stem)-1]
	}
	if len(name) <= maxName && len(stem) <= maxName {
		return stem
	}
	n := maxStem
	for !utf8.RuneStart(stem[n]) {
		n--
	}
	return fmt.Sprintf("%s~%08x", stem[:n], checksum(name))
}

// checksum goes over the name by pieces, which need no copy of a long one.
func checksum(name string) (sum uint32) {
	var piece [4096]byte
	for len(name) > 0 {
		n := copy(piece[:], name)
		sum, name = crc32.Update(sum, crc32.IEEETable, piece[:n]), name[n:]
	}
	return sum
}

// KeyOf returns the key of a model. Names that are short enough are told apart as they are, so that
// an event need not look at each byte of them; what is kept of the others is their Name.
func KeyOf(model string, p ratelimit.Provider) Key {
	return Key{Model: short(model), Provider: ratelimit.Provider(short(string(p)))}
}

// short returns a name that is no longer than one that Name returns.
func short(name string) string {
	if len(name) <= maxName {
		return name
	}
	return Name(name)
}
