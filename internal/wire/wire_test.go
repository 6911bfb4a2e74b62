package wire_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/wire"
)

// read returns what a read of some bytes gives, and the error at their end.
func read(data string, value func(r *wire.Reader) any) (any, error) {
	r := wire.NewReader([]byte(data))
	got := value(r)
	return got, r.End()
}

func readUint(r *wire.Reader) any   { return r.Uint() }
func readInt(r *wire.Reader) any    { return r.Int() }
func readUpTo(r *wire.Reader) any   { return r.UpTo(200) }
func readBool(r *wire.Reader) any   { return r.Bool() }
func readString(r *wire.Reader) any { return r.String(5) }
func readSmall(r *wire.Reader) any  { return r.Small(-2, 3) }
func readCount(r *wire.Reader) any {
	n := r.Count(4, 2)
	for range n {
		r.Uint()
		r.Uint()
	}
	return n
}

func TestForms(t *testing.T) {
	longest := strings.Repeat("\xff", 9) + "\x01"
	for _, tt := range []struct {
		name  string
		value any
		write []byte
		read  func(r *wire.Reader) any
		want  string
	}{
		{"zero", uint64(0), wire.AppendUint(nil, 0), readUint, "\x00"},
		{"one byte", uint64(127), wire.AppendUint(nil, 127), readUint, "\x7f"},
		{"two bytes", uint64(128), wire.AppendUint(nil, 128), readUint, "\x80\x01"},
		{"the largest", uint64(math.MaxUint64), wire.AppendUint(nil, math.MaxUint64), readUint, longest},
		{"minus one", int64(-1), wire.AppendInt(nil, -1), readInt, "\x01"},
		{"plus one", int64(1), wire.AppendInt(nil, 1), readInt, "\x02"},
		{"the least", int64(math.MinInt64), wire.AppendInt(nil, math.MinInt64), readInt, longest},
		{"in range", -2, wire.AppendInt(nil, -2), readSmall, "\x03"},
		{"as large as it may be", uint64(200), wire.AppendUint(nil, 200), readUpTo, "\xc8\x01"},
		{"false", false, wire.AppendBool(nil, false), readBool, "\x00"},
		{"true", true, wire.AppendBool(nil, true), readBool, "\x01"},
		{"no text", "", wire.AppendString(nil, ""), readString, "\x00"},
		{"text that is not UTF-8", "a\xff\x00", wire.AppendString(nil, "a\xff\x00"), readString, "\x03a\xff\x00"},
		{"as long as it may be", "12345", wire.AppendString(nil, "12345"), readString, "\x0512345"},
		{"values", 2, wire.AppendUint(nil, 2), readCount, "\x02"},
	} {
		if string(tt.write) != tt.want {
			t.Errorf("%s: written %q, want %q", tt.name, tt.write, tt.want)
		}
		data := tt.want
		if tt.name == "values" {
			data += "\x00\x00\x00\x00"
		}
		if got, err := read(data, tt.read); got != tt.value || err != nil {
			t.Errorf("%s: read %v, %v, want %v", tt.name, got, err, tt.value)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, tt := range []struct {
		name, data string
		read       func(r *wire.Reader) any
		want       string
	}{
		{"nothing", "", readUint, "cut number at offset 0"},
		{"a cut number", "\x80", readUint, "cut number at offset 0"},
		{"zero in two bytes", "\x80\x00", readUint, "number longer than needed at offset 0"},
		{"one in three bytes", "\x81\x80\x00", readInt, "number longer than needed at offset 0"},
		{"65 bits", strings.Repeat("\xff", 9) + "\x02", readUint, "number beyond 64 bits at offset 0"},
		{"eleven bytes", strings.Repeat("\x80", 10) + "\x01", readUint, "number beyond 64 bits at offset 0"},
		{"too small", "\x05", readSmall, "number out of range at offset 0"},
		{"too large", "\x08", readSmall, "number out of range at offset 0"},
		{"beyond the largest", "\xc9\x01", readUpTo, "number out of range at offset 0"},
		{"no boolean", "", readBool, "cut boolean at offset 0"},
		{"another boolean", "\x02", readBool, "boolean that is neither 0 nor 1 at offset 0"},
		{"a cut string", "\x03ab", readString, "too large a number of values at offset 0"},
		{"too long a string", "\x06123456", readString, "too large a number of values at offset 0"},
		{"too many values", "\x05" + strings.Repeat("\x00", 10), readCount, "too large a number of values at offset 0"},
		{"values that do not fit", "\x02\x00\x00\x00", readCount, "too large a number of values at offset 0"},
		{"the largest number of values", strings.Repeat("\xff", 9) + "\x01", readCount, "too large a number of values at offset 0"},
		{"the second value", "\x01\x00\x80", readCount, "cut number at offset 2"},
		{"more", "\x00\x00", readUint, "more than the value at offset 1"},
	} {
		_, err := read(tt.data, tt.read)
		if want := "invalid bytes: " + tt.want; err == nil || err.Error() != want || !errors.Is(err, wire.ErrInvalid) {
			t.Errorf("%s: %v, want %s", tt.name, err, want)
		}
	}
}

// What lies behind an error is not looked at, whatever it is.
func TestErrorStays(t *testing.T) {
	r := wire.NewReader([]byte("\x05\x02\x01\x07\x01a\x01\x02"))
	if r.Uint() != 5 || r.Err() != nil {
		t.Fatal("the first value is not read")
	}
	r.Bool()
	first := r.Err()
	r.Fail("something else")
	got := fmt.Sprint(r.Uint(), r.Int(), r.UpTo(9), r.Within(1, 9), r.Small(1, 9), r.Bool(), r.Count(9, 1)) + r.String(9)
	if want := "0 0 0 0 0 false 0"; got != want {
		t.Errorf("behind an error: %q, want %q", got, want)
	}
	if r.End() != first || r.Err() != first {
		t.Errorf("the error is %v, want %v", r.End(), first)
	}
}

func TestFailNamesTheLatestValue(t *testing.T) {
	r := wire.NewReader([]byte("\x01\x80\x01\x03abc"))
	r.Uint()
	r.Uint()
	r.String(3)
	if r.Fail("a name that is not known"); r.End().Error() != "invalid bytes: a name that is not known at offset 3" {
		t.Error(r.End())
	}
}

// A string is a copy: the bytes that it was read from may be used again.
func TestStringIsACopy(t *testing.T) {
	data := wire.AppendString(nil, "text")
	s := wire.NewReader(data).String(10)
	if clear(data); s != "text" {
		t.Errorf("the string has become %q", s)
	}
}

func FuzzValues(f *testing.F) {
	f.Add(uint64(0), int64(0), false, "")
	f.Add(uint64(math.MaxUint64), int64(math.MinInt64), true, "\xff")
	f.Fuzz(func(t *testing.T, u uint64, i int64, b bool, s string) {
		data := wire.AppendString(wire.AppendBool(wire.AppendInt(wire.AppendUint(nil, u), i), b), s)
		r := wire.NewReader(data)
		if r.Uint() != u || r.Int() != i || r.Bool() != b || r.String(len(s)) != s || r.End() != nil {
			t.Errorf("%d, %d, %t, %q are read as something else: %v", u, i, b, s, r.Err())
		}
		for cut := range data {
			r := wire.NewReader(data[:cut])
			r.Uint()
			r.Int()
			r.Bool()
			if r.String(len(s)); r.Err() == nil {
				t.Errorf("the first %d of %d bytes are accepted", cut, len(data))
			}
		}
	})
}

// Whatever is accepted is what is written for it.
func FuzzReader(f *testing.F) {
	f.Add([]byte("uibs"), []byte("\x80\x01\x03\x01\x02ab"))
	f.Add([]byte("u"), []byte("\x80\x00"))
	f.Fuzz(func(t *testing.T, kinds, data []byte) {
		r := wire.NewReader(data)
		var again []byte
		for _, kind := range kinds {
			switch kind % 5 {
			case 0:
				again = wire.AppendUint(again, r.Uint())
			case 1:
				again = wire.AppendInt(again, r.Int())
			case 2:
				again = wire.AppendBool(again, r.Bool())
			case 3:
				again = wire.AppendString(again, r.String(len(data)))
			case 4:
				n := r.Count(len(data), 1)
				again = wire.AppendUint(again, uint64(n))
				again = append(again, slices.Repeat([]byte{0}, n)...)
				for range n {
					if r.Uint() != 0 {
						return
					}
				}
			}
		}
		if r.End() == nil && !bytes.Equal(again, data) {
			t.Errorf("%q are accepted, and written as %q", data, again)
		}
	})
}
