package store

import (
	"bytes"
	"math"
	"testing"
)

func TestBatch(t *testing.T) {
	for name, batch := range map[string][]Entry{
		"one":           {{Process: 7, N: 8, Expect: 9, Command: []byte("command")}},
		"no command":    {{Process: 7, N: 8}},
		"the ends":      {{Process: math.MaxInt64, N: math.MinInt64, Expect: -1}, {Process: math.MinInt64, N: math.MaxInt64}},
		"two processes": {{Process: 1, N: 5, Command: []byte{0}}, {Process: 2, N: 1, Command: []byte{1, 2}}},
	} {
		got, err := DecodeBatch(EncodeBatch(batch))
		if err != nil || len(got) != len(batch) {
			t.Errorf("%s: %d entries, error %v", name, len(got), err)
			continue
		}
		for i := range got {
			if !sameEntry(got[i], batch[i]) {
				t.Errorf("%s: entry %d is %+v, want %+v", name, i, got[i], batch[i])
			}
		}
	}
	for name, b := range map[string][]byte{
		"nothing": {}, "a version alone": {1}, "another version": {2, 1, 0, 0, 0, 0}, "no entries": {1, 0},
		"fewer entries": {1, 2, 0, 0, 0, 0}, "a short command": {1, 1, 0, 0, 0, 2, 9}, "more behind": {1, 1, 0, 0, 0, 0, 0},
		"a huge count": {1, 255, 255, 255, 255, 255, 255, 255, 255, 127, 0}, "a huge command": {1, 1, 0, 0, 0, 255, 255, 255, 255, 127},
	} {
		if entries, err := DecodeBatch(b); err == nil {
			t.Errorf("%s: %+v", name, entries)
		}
	}
}

func sameEntry(a, b Entry) bool {
	return a.Process == b.Process && a.N == b.N && a.Expect == b.Expect && bytes.Equal(a.Command, b.Command)
}

func FuzzDecodeBatch(f *testing.F) {
	f.Add(EncodeBatch([]Entry{{Process: 1, N: 2, Expect: 3, Command: []byte("x")}, {Process: 1, N: 3}}))
	f.Add([]byte{1, 1, 0, 0, 0, 255, 255, 255, 255, 127})
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, err := DecodeBatch(b)
		if err != nil {
			return
		}
		again, err := DecodeBatch(EncodeBatch(entries))
		if err != nil || len(again) != len(entries) {
			t.Fatalf("%d entries become %d, error %v", len(entries), len(again), err)
		}
		for i := range again {
			if !sameEntry(again[i], entries[i]) {
				t.Fatalf("entry %d becomes another one", i)
			}
		}
	})
}
