package eventstream_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/llmhttp/internal/eventstream"
	"dappco.re/go/core/go-ratelimit/llmhttp/internal/eventstreamtest"
)

// read feeds a stream in pieces of a size, and returns what came of it.
func read(stream string, size int) (messages []string, open bool, err error) {
	r := eventstream.New(func(m eventstream.Message) {
		messages = append(messages, fmt.Sprintf("%s %s %d %q", m.Type, m.Name, m.Size, m.Payload))
	})
	for piece := range slices.Chunk([]byte(stream), size) {
		err = r.Feed(piece)
	}
	return messages, r.Open(), err
}

// vector is a message that the specification gives as a test: a payload {'foo':'bar'} and the
// header content-type.
const vector = "\x00\x00\x00\x3d\x00\x00\x00\x20\x07\xfd\x83\x96\x0ccontent-type\x07\x00\x10application/json{'foo':'bar'}\x8d\x9c\x08\xb1"

// However a stream is cut, the same messages come of it.
func TestReader(t *testing.T) {
	large := strings.Repeat("x", eventstream.MaxKept)
	otherTypes := []byte("\x01a\x00\x01b\x01\x01c\x02\x07\x01d\x03\x00\x01\x01e\x04\x00\x00\x00\x01\x01f\x05\x00\x00\x00\x00\x00\x00\x00\x01" +
		"\x01g\x06\x00\x02hi\x01h\x08\x00\x00\x00\x00\x00\x00\x00\x01\x01i\x090123456789abcdef\x0d:message-type\x07\x00\x05event")
	for _, test := range []struct {
		name, stream string
		want         []string
	}{
		{"nothing", "", nil},
		{"the vector of the specification", vector, []string{`  13 "{'foo':'bar'}"`}},
		{"an event", eventstreamtest.Event("metadata", `{"a":1}`), []string{`event metadata 7 "{\"a\":1}"`}},
		{"an exception", eventstreamtest.Exception("throttlingException", "slow"), []string{`exception throttlingException 18 "{\"message\":\"slow\"}"`}},
		{"an error", eventstreamtest.Message("", eventstreamtest.Header{Name: ":message-type", Value: "error"}, eventstreamtest.Header{Name: ":error-code", Value: "InternalError"}), []string{`error InternalError 0 ""`}},
		{"no headers", eventstreamtest.Raw(nil, "p"), []string{`  1 "p"`}},
		{"headers of all types", eventstreamtest.Raw(otherTypes, "p"), []string{`event  1 "p"`}},
		{
			"several", eventstreamtest.Event("a", "1") + vector + eventstreamtest.Event("b", ""),
			[]string{`event a 1 "1"`, `  13 "{'foo':'bar'}"`, `event b 0 ""`},
		},
		{
			"a large one between", eventstreamtest.Event("a", "1") + eventstreamtest.Event("b", large) + eventstreamtest.Event("c", "2"),
			[]string{`event a 1 "1"`, fmt.Sprintf(`  %d ""`, len(large)), `event c 1 "2"`},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, size := range []int{1, 2, 3, 5, 11, 12, 13, 16, 17, 100, 4096, 1 << 24} {
				got, open, err := read(test.stream, size)
				if err != nil || open || !slices.Equal(got, test.want) {
					t.Errorf("in pieces of %d: %.300q, open %t, %v; want %.300q", size, got, open, err, test.want)
				}
			}
		})
	}
}

// A flipped bit anywhere is found, and a stream that is cut is open.
func TestDamage(t *testing.T) {
	stream := eventstreamtest.Event("metadata", `{"usage":{}}`)
	for i := range len(stream) * 8 {
		bad := []byte(stream)
		bad[i/8] ^= 1 << (i % 8)
		for _, size := range []int{1, len(bad)} {
			if got, _, err := read(string(bad), size); !errors.Is(err, eventstream.ErrChecksum) || got != nil {
				t.Errorf("bit %d, in pieces of %d: %q, %v", i, size, got, err)
			}
		}
	}
	for i := 1; i < len(stream); i++ {
		if got, open, err := read(stream[:i], 7); !open || got != nil || err != nil {
			t.Errorf("cut at %d: %q, open %t, %v", i, got, open, err)
		}
	}
	large := []byte(eventstreamtest.Event("a", strings.Repeat("x", eventstream.MaxKept)))
	if _, open, err := read(string(large[:len(large)-2]), 1<<16); !open || err != nil {
		t.Errorf("a large one, cut: open %t, %v", open, err)
	}
	large[len(large)/2] ^= 1
	if got, _, err := read(string(large), 1<<16); !errors.Is(err, eventstream.ErrChecksum) || got != nil {
		t.Errorf("a large one, damaged: %q, %v", got, err)
	}
}

// prelude returns the beginning of a message with two lengths and the right checksum.
func prelude(total, headers uint32) string {
	p := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, total), headers)
	return string(binary.BigEndian.AppendUint32(p, crc32.ChecksumIEEE(p)))
}

// Lengths and headers that cannot be are refused, and nothing after them is read.
func TestMalformed(t *testing.T) {
	good := eventstreamtest.Event("a", "1")
	for name, stream := range map[string]string{
		"too short":            prelude(15, 0),
		"too long":             prelude(1<<31, 0),
		"more headers than it": prelude(20, 5),
		"too many headers":     prelude(1<<20, 1<<17+1),
		"a name without end":   eventstreamtest.Raw([]byte("\x09a"), ""),
		"an empty name":        eventstreamtest.Raw([]byte("\x00\x00"), ""),
		"no type":              eventstreamtest.Raw([]byte("\x01a"), ""),
		"an unknown type":      eventstreamtest.Raw([]byte("\x01a\x0a"), ""),
		"no length":            eventstreamtest.Raw([]byte("\x01a\x07\x00"), ""),
		"a value without end":  eventstreamtest.Raw([]byte("\x01a\x07\x00\x02x"), ""),
		"an integer too short": eventstreamtest.Raw([]byte("\x01a\x04\x00"), ""),
	} {
		for _, size := range []int{1, 1 << 20} {
			got, _, err := read(good+stream+good, size)
			if !errors.Is(err, eventstream.ErrMalformed) || len(got) != 1 {
				t.Errorf("%s, in pieces of %d: %q, %v", name, size, got, err)
			}
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(vector), uint8(3))
	f.Add([]byte(eventstreamtest.Event("a", "1")+eventstreamtest.Chunks("x")), uint8(1))
	f.Add([]byte(prelude(1<<20+100, 5)), uint8(2))
	f.Fuzz(func(t *testing.T, stream []byte, size uint8) {
		whole, open, err := read(string(stream), 1<<30)
		pieces, openToo, errToo := read(string(stream), int(size)+1)
		if !slices.Equal(whole, pieces) || err != errToo || err == nil && open != openToo {
			t.Errorf("%q, %t, %v as a whole; %q, %t, %v in pieces of %d", whole, open, err, pieces, openToo, errToo, int(size)+1)
		}
	})
}
