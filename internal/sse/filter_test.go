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

// filtered returns the bytes of a stream in pieces that a Filter passes.
func filtered(drop func([]byte) bool, pieces ...[]byte) []byte {
	f := NewFilter(drop)
	var passed []byte
	for _, p := range pieces {
		own := bytes.Clone(p)
		passed = f.Append(passed, own)
		clear(own) // a Filter that kept the piece would show it
	}
	return f.Finish(passed)
}

// whole appends to dst the bytes of a stream in one piece that pass.
func whole(dst, body []byte) []byte {
	f := NewFilter(dropX)
	return f.Finish(f.Append(dst, body))
}

// dropX drops events whose data begins with x.
func dropX(data []byte) bool { return bytes.HasPrefix(data, []byte("x")) }

func TestFilter(t *testing.T) {
	filler := strings.Repeat("y", MaxEvent)
	for _, tt := range []struct{ name, body, want string }{
		{"nothing", "", ""},
		{"an event that stays", "id: 1\ndata: a\n\n", "id: 1\ndata: a\n\n"},
		{"an event is dropped with its lines", "data: a\n\nid: 1\ndata: x\n: c\nevent: b\n\ndata: b\n\n", "data: a\n\ndata: b\n\n"},
		{"all are dropped", "data: x\n\ndata:x1\n\n", ""},
		{"CRLF", "data: a\r\n\r\ndata: x\r\n\r\ndata: b\r\n\r\n", "data: a\r\n\r\ndata: b\r\n\r\n"},
		{"CR", "data: a\r\rdata: x\r\rdata: b\r\r", "data: a\r\rdata: b\r\r"},
		{"line ends of all kinds", "data: x\r\n\rdata: a\n\r\ndata: x\r\r\ndata: b\r\n\n", "data: a\n\r\ndata: b\r\n\n"},
		{"comments between events stay", ": 1\n\ndata: a\n\n: 2\r\n: 3\n\ndata: x\n\n:4\n", ": 1\n\ndata: a\n\n: 2\r\n: 3\n\n:4\n"},
		{"comments in front of a dropped event", ": 1\ndata: x\n\ndata: a\n\n", ": 1\ndata: a\n\n"},
		{"blank lines", "\n\r\n\rdata: x\n\n\n\r\ndata: a\n\n\n", "\n\r\n\r\n\r\ndata: a\n\n\n"},
		{"data of several lines", "data: \ndata: x\n\ndata: x\ndata: y\ndata: z\n\n", "data: \ndata: x\n\n"},
		{"events without data", "event: x\n\nx\n\n", "event: x\n\nx\n\n"},
		{"a byte order mark", "\uFEFFdata: x\n\ndata: a\n\n", "data: a\n\n"},
		{"a byte order mark later", "data: a\n\n\uFEFFdata: x\n\n", "data: a\n\n\uFEFFdata: x\n\n"},
		{"no blank line at the end", "data: a\n\ndata: x\n", "data: a\n\n"},
		{"no end of the line at the end", "data: a\n\ndata: x", "data: a\n\n"},
		{"an event that is cut off and stays", "data: a\n\ndata: ", "data: a\n\ndata: "},
		{"not a stream of events", `{"a":1}`, `{"a":1}`},
		{"64 KiB", "data: x" + filler[:MaxEvent-8] + "\n\ndata: a\n\n", "data: a\n\n"},
		{"64 KiB, CRLF", "data: x" + filler[:MaxEvent-9] + "\r\n\r\ndata: a\n\n", "data: a\n\n"},
		{"more than 64 KiB", "data: x" + filler[:MaxEvent-7] + "\n\ndata: x\n\n", "data: x" + filler[:MaxEvent-7] + "\n\n"},
		{"more than 64 KiB, CRLF", "data: x" + filler[:MaxEvent-8] + "\r\n\r\ndata: x\n\n", "data: x" + filler[:MaxEvent-8] + "\r\n\r\n"},
		{"a long event and its other lines", "data: x" + filler + "\ndata: x\r\nid: 1\n\ndata: x\n\n", "data: x" + filler + "\ndata: x\r\nid: 1\n\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check := func(how string, pieces ...[]byte) {
				t.Helper()
				if got := string(filtered(dropX, pieces...)); got != tt.want {
					t.Errorf("%s: %.200q, want %.200q", how, got, tt.want)
				}
			}
			body := []byte(tt.body)
			for _, size := range []int{1, 2, 3, 7, MaxEvent - 1, MaxEvent, MaxEvent + 1, 1 << 20} {
				check(fmt.Sprintf("in pieces of %d", size), slices.Collect(piecetest.Cut(body, size))...)
			}
			for i := range min(len(body), 200) {
				check(fmt.Sprintf("cut at %d", i), body[:i], nil, body[i:])
			}
			if got := whole([]byte("z"), body); string(got) != "z"+tt.want {
				t.Errorf("at once: %.200q, want %.200q", got, "z"+tt.want)
			}
			if got := filtered(func([]byte) bool { return false }, slices.Collect(piecetest.Cut(body, 5))...); !bytes.Equal(got, body) {
				t.Errorf("without drops: %.200q", got)
			}
		})
	}
}

// A byte passes as soon as it cannot belong to an event that is dropped.
func TestFilterDelay(t *testing.T) {
	filter := NewFilter(dropX)
	for _, step := range []struct{ in, out string }{
		{": keep-al", ": keep-al"},
		{"ive\n", "ive\n"},
		{"\r", "\r"},
		{"\n", "\n"},
		{"data: a\n", ""},
		{"\r", "data: a\n\r"},
		{"\nid", "\n"},
		{": 1\ndata: x\n\n", ""},
		{"data: " + strings.Repeat("y", MaxEvent-6), ""},
		{"y", "data: " + strings.Repeat("y", MaxEvent-5)},
		{"y\n", "y\n"},
	} {
		if got := filter.Append(nil, []byte(step.in)); string(got) != step.out {
			t.Fatalf("%.40q passed %.40q, want %.40q", step.in, got, step.out)
		}
	}
}

// Passing an event of 64 MiB allocates nothing that grows with it.
func TestFilterMemory(t *testing.T) {
	filter := NewFilter(dropX)
	piece := bytes.Repeat([]byte("y"), 32<<10)
	buf := make([]byte, 0, 256<<10)
	filter.Append(buf, []byte("data: "))
	if grown := piecetest.Allocated(func() {
		for range 64 << 20 / racetest.Factor / len(piece) {
			filter.Append(buf, piece)
		}
	}); grown > 300<<10 {
		t.Errorf("%d bytes were allocated", grown)
	}
	if got := filter.Finish(filter.Append(buf, []byte("\n\ndata: x\n\ndata: a\n\n"))); string(got) != "\n\ndata: a\n\n" {
		t.Errorf("then %q passed", got)
	}
}

func FuzzFilter(f *testing.F) {
	for _, seed := range []string{
		"data: x\n\ndata: a\r\n\r\n", ": c\n\n:\rdata: x\r\rid: 1\ndata: b", "\uFEFFdata: x\n\n\ndata\n\n", "data: \ndata:x\n\nz\ndata: x\n\n",
	} {
		f.Add([]byte(seed), uint64(1), uint16(0))
		f.Add([]byte(seed), uint64(2), uint16(65_528))
	}
	f.Fuzz(func(t *testing.T, body []byte, seed uint64, filler uint16) {
		body = bytes.Replace(body, []byte("x"), append([]byte("x"), bytes.Repeat([]byte("y"), int(filler))...), 1)
		pieces := piecetest.Random(rand.New(rand.NewPCG(seed, 0)), body)
		if got := filtered(func([]byte) bool { return false }, pieces...); !bytes.Equal(got, body) {
			t.Fatalf("without drops: %.1000q", got)
		}
		got, want := filtered(dropX, pieces...), whole(nil, body)
		if !bytes.Equal(got, want) {
			t.Fatalf("in pieces: %.1000q\nat once: %.1000q", got, want)
		}
		// No event that must be dropped passed.
		again := NewFilter(func(data []byte) bool {
			if dropX(data) {
				t.Errorf("%.100q passed", data)
			}
			return false
		})
		again.started = true // a byte order mark may have come to the front
		again.Finish(again.Append(nil, want))
	})
}
