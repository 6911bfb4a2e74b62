package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrInvalid matches the errors of a Reader.
var ErrInvalid = errors.New("invalid bytes")

// Reader reads what the Append functions have written. It accepts only what they write: a number
// that has a shorter form is an error, as are bytes that end too early.
//
// The first error stays. From then on each method returns the zero value, so a caller may read a
// whole structure and ask Err once; only loops whose number was read from elsewhere need to ask
// before. An error names the offset and what was wanted there, and never what was found.
//
// A Reader keeps no reference to its bytes in what it returns. It is not safe for concurrent use.
type Reader struct {
	rest   []byte
	offset int // of rest
	last   int // the offset of the latest value
	err    error
}

// NewReader returns a Reader of bytes, which must not change meanwhile.
func NewReader(data []byte) *Reader { return &Reader{rest: data} }

// Err returns the first error; nil for none.
func (r *Reader) Err() error { return r.err }

// End returns the first error, or one that says that bytes are left.
func (r *Reader) End() error {
	if r.err == nil && len(r.rest) > 0 {
		r.last = r.offset
		r.Fail("more than the value")
	}
	return r.err
}

// Fail makes the latest value that was read an error: it is of the right form, and cannot be so.
// It says what is wrong, not what was read, and changes nothing behind another error.
func (r *Reader) Fail(wrong string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s at offset %d", ErrInvalid, wrong, r.last)
		r.rest = nil
	}
}

// Uint reads an unsigned number.
func (r *Reader) Uint() uint64 {
	r.last = r.offset
	n, size := binary.Uvarint(r.rest)
	switch {
	case size == 0:
		r.Fail("cut number")
	case size < 0:
		r.Fail("number beyond 64 bits")
	case size > 1 && r.rest[size-1] == 0:
		r.Fail("number longer than needed")
	}
	if r.err != nil {
		return 0
	}
	r.skip(size)
	return n
}

// UpTo is Uint for a number that is at most so much.
func (r *Reader) UpTo(most uint64) uint64 {
	n := r.Uint()
	if n > most {
		r.Fail("number out of range")
		return 0
	}
	return n
}

// Int reads a signed number.
func (r *Reader) Int() int64 {
	u := r.Uint()
	n := int64(u >> 1)
	if u&1 != 0 {
		n = ^n
	}
	return n
}

// Within reads a signed number that is at least and at most so much.
func (r *Reader) Within(least, most int64) int64 {
	n := r.Int()
	if n < least || n > most {
		r.Fail("number out of range")
		return 0
	}
	return n
}

// Small is Within for an int, which has 32 bits on some machines.
func (r *Reader) Small(least, most int) int { return int(r.Within(int64(least), int64(most))) }

// Bool reads a boolean.
func (r *Reader) Bool() bool {
	r.last = r.offset
	switch {
	case len(r.rest) == 0:
		r.Fail("cut boolean")
	case r.rest[0] > 1:
		r.Fail("boolean that is neither 0 nor 1")
	}
	if r.err != nil {
		return false
	}
	is := r.rest[0] == 1
	r.skip(1)
	return is
}

// String reads a string of at most so many bytes.
func (r *Reader) String(most int) string {
	n := r.Count(most, 1)
	s := string(r.rest[:n])
	r.skip(n)
	return s
}

// Count reads an unsigned number of values, at most so many, of which each has so many bytes at
// least. A number for which not enough bytes are left is an error, so memory for the values can be
// allocated at once.
func (r *Reader) Count(most, leastBytesEach int) int {
	n := r.Uint()
	if n > uint64(max(most, 0)) || n > uint64(len(r.rest)/max(leastBytesEach, 1)) {
		r.Fail("too large a number of values")
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

func (r *Reader) skip(n int) {
	r.rest = r.rest[n:]
	r.offset += n
}
