package sse

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/test/piecetest"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// recorder is a Handler that records the data of events. A large event has its parts joined, with
// "large: " in front.
type recorder struct {
	events []string
	large  []byte
}

func (r *recorder) Event(data []byte) {
	if len(data) > MaxEvent {
		panic("an event that is too large")
	}
	r.events = append(r.events, string(data))
}
func (r *recorder) BeginLarge()       { r.large = append(r.large[:0], "large: "...) }
func (r *recorder) Large(part []byte) { r.large = append(r.large, part...) }
func (r *recorder) EndLarge()         { r.events = append(r.events, string(r.large)) }

// read returns the events of a stream in pieces.
func read(pieces ...[]byte) []string {
	var rec recorder
	r := Reader{Handler: &rec}
	for _, p := range pieces {
		own := bytes.Clone(p)
		r.Feed(own)
		if !bytes.Equal(own, p) {
			panic("a piece was changed")
		}
		clear(own) // a Reader that kept the piece would show it
	}
	r.End()
	return rec.events
}

func TestReader(t *testing.T) {
	filler := strings.Repeat("x", MaxEvent)
	for _, tt := range []struct {
		name, body string
		want       []string
	}{
		{"nothing", "", nil},
		{"an event", "data: a\n\n", []string{"a"}},
		{"no space", "data:a\n\n", []string{"a"}},
		{"two spaces", "data:  a\n\n", []string{" a"}},
		{"CRLF", "event: x\r\ndata: a\r\n\r\ndata: b\r\n\r\n", []string{"a", "b"}},
		{"CR", "data: a\r\rdata: b\r\r", []string{"a", "b"}},
		{"line ends of all kinds", "data: a\n\r\ndata: b\r\n\rdata: c\r\ndata:\n\r", []string{"a", "b", "c\n"}},
		{"a byte order mark", "\uFEFFdata: a\n\n", []string{"a"}},
		{"half a byte order mark is a name", "\uFEFF"[:2] + "data: a\n\ndata: b\n\n", []string{"b"}},
		{"a second byte order mark is a name", "\uFEFF\uFEFFdata: a\n\ndata: b\n\n", []string{"b"}},
		{"comments", ": KEEP ALIVE\n\n:\ndata: a\n: data\n\n", []string{"a"}},
		{"other fields", "id: 1\nDATA: a\ndatas: b\ndat: c\n data: d\n\ndata: e\nid\n\n", []string{"e"}},
		{"blank lines in front", "\n\r\n\r\n\ndata: a\n\n", []string{"a"}},
		{"data of several lines", "data: a\ndata:b\ndata\ndata: \ndata: c\n\n", []string{"a\nb\n\n\nc"}},
		{"an empty event", "data:\n\ndata\n\ndata: a\n\n", []string{"", "", "a"}},
		{"an event without data", "event: x\n\ndata: a\n\n", []string{"a"}},
		{"no blank line at the end", "data: a\n", []string{"a"}},
		{"no end of the line at the end", "data: a", []string{"a"}},
		{"64 KiB", "data: " + filler + "\n\n", []string{filler}},
		{"more than 64 KiB", "data: " + filler + "y\n\ndata: a\n\n", []string{"large: " + filler + "y", "a"}},
		{"more than 64 KiB in lines", "data: " + filler + "\ndata:\ndata: a", []string{"large: " + filler + "\n\na"}},
		{"a line of more than 64 KiB that is not data", "id: " + filler + "\ndata: a", []string{"a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check := func(how string, pieces ...[]byte) {
				t.Helper()
				if got := read(pieces...); !slices.Equal(got, tt.want) {
					t.Errorf("%s: got %.300q, want %.300q", how, got, tt.want)
				}
			}
			body := []byte(tt.body)
			check("at once", body)
			for _, size := range []int{1, 2, 3, 7, 1000, MaxEvent - 1, MaxEvent, MaxEvent + 1} {
				check(fmt.Sprintf("in pieces of %d", size), slices.Collect(piecetest.Cut(body, size))...)
			}
			for i := range min(len(body), 200) {
				check(fmt.Sprintf("cut at %d", i), body[:i], nil, body[i:])
			}
		})
	}
}

// discard is a Handler that counts events.
type discard struct{ events int }

func (d *discard) Event([]byte) { d.events++ }
func (*discard) BeginLarge()    {}
func (*discard) Large([]byte)   {}
func (d *discard) EndLarge()    { d.events++ }

// Reading an event or a line of 256 MiB allocates no more than the buffer of one event.
func TestReaderMemory(t *testing.T) {
	for _, tt := range []struct {
		name, begin, middle string
		length              int
	}{
		{"a line of data", `data: `, "abcdefgh", 256 << 20},
		{"lines of data", "data: a", "\ndata: b", 8 << 20},
		{"another field", "id: ", "abcdefgh", 8 << 20},
		{"a comment", ": ", "abcdefgh", 8 << 20},
		{"no line at all", "", "abcdefgh", 8 << 20},
		{"blank lines", "", "\r\n\n\r", 8 << 20},
		{"small events", "", "data: a\n\n", 8 << 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var d discard
			r := Reader{Handler: &d}
			r.Feed([]byte(tt.begin))
			piece := bytes.Repeat([]byte(tt.middle), 32<<10/len(tt.middle))
			grown := piecetest.Allocated(func() {
				for fed := 0; fed < tt.length/racetest.Factor; fed += len(piece) {
					r.Feed(piece)
				}
			})
			// The buffer of an event doubles until it holds 64 KiB.
			if grown > 300<<10 {
				t.Errorf("%d bytes were allocated", grown)
			}
			r.Feed([]byte("\n\n"))
			d.events = 0
			r.Feed([]byte("data: a\n\n"))
			if r.End(); d.events != 1 {
				t.Errorf("%d events follow, want 1", d.events)
			}
		})
	}
}

func FuzzReader(f *testing.F) {
	for _, seed := range []string{
		"data: a\n\ndata: [DONE]\n\n", "event: a\r\ndata: a\r\ndata: b\r\n\r\n", "data:a\r\r: x\r",
		"\uFEFF\n{\"a\":1}\ndata: b", "\xEF\xBBdata: 1\n\n", "data\ndata:\n\ndata: x", "x",
	} {
		f.Add([]byte(seed), uint64(1), uint16(0))
		f.Add([]byte(seed), uint64(2), uint16(65_528))
	}
	f.Fuzz(func(t *testing.T, body []byte, seed uint64, filler uint16) {
		// The fuzzer does not find large events by itself.
		body = bytes.Replace(body, []byte("x"), bytes.Repeat([]byte("y"), int(filler)), 1)
		want := readWhole(string(body))
		if got := read(body); !slices.Equal(got, want) {
			t.Fatalf("at once: %.1000q, want %.1000q", got, want)
		}
		pieces := piecetest.Random(rand.New(rand.NewPCG(seed, 0)), body)
		if got := read(pieces...); !slices.Equal(got, want) {
			t.Fatalf("in pieces: %.1000q, want %.1000q", got, want)
		}
	})
}

// readWhole returns the events of a whole stream by the rules as they read.
func readWhole(body string) (events []string) {
	if rest, ok := strings.CutPrefix(body, "\uFEFF"); ok {
		body = rest
	}
	var data []string
	lines := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(body), "\n")
	for _, line := range append(lines, "", "") {
		name, value, _ := strings.Cut(line, ":")
		if name == "data" {
			data = append(data, strings.TrimPrefix(value, " "))
		}
		if line != "" || data == nil {
			continue
		}
		event := strings.Join(data, "\n")
		if len(event) > MaxEvent {
			event = "large: " + event
		}
		events, data = append(events, event), nil
	}
	return events
}
