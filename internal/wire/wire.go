// Package wire is the binary form of commands and images: unsigned and signed varints, strings
// behind their length, and booleans of one byte. A value has exactly one form, so the same state
// has the same bytes, and bytes that were accepted are those that are written again.
package wire

import "encoding/binary"

// AppendUint appends an unsigned number, in 1 to 10 bytes.
func AppendUint(to []byte, n uint64) []byte { return binary.AppendUvarint(to, n) }

// AppendInt appends a signed number, in 1 to 10 bytes. Those near zero are short.
func AppendInt(to []byte, n int64) []byte { return binary.AppendVarint(to, n) }

// AppendBool appends a boolean, in one byte.
func AppendBool(to []byte, is bool) []byte {
	if is {
		return append(to, 1)
	}
	return append(to, 0)
}

// AppendString appends the length of a string and its bytes, which need not be UTF-8.
func AppendString(to []byte, s string) []byte {
	return append(AppendUint(to, uint64(len(s))), s...)
}
