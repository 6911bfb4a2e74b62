package llmhttp

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// toldOf writes down a value as "path kind text size".
func toldOf(v Value) string {
	path := string(v.Path)
	if v.Path == nil {
		path = "?"
	}
	return fmt.Sprintf("%s %c %s %d", path, v.Kind, v.Text, v.Size)
}

// scanned returns what a scanner tells of the pieces.
func scanned(pieces ...[]byte) (values []string, s *scanner) {
	s = newScanner(func(v Value) { values = append(values, toldOf(v)) })
	for _, p := range pieces {
		s.feed(bytes.Clone(p))
	}
	s.end()
	return values, s
}

func TestScannerTells(t *testing.T) {
	key64, key65 := strings.Repeat("k", 64), strings.Repeat("k", 65)
	long := strings.Repeat("x", 300)
	nested := strings.Repeat(`{"a":`, 17) + "1" + strings.Repeat("}", 17)
	var levels []string
	for i := range 17 {
		levels = append(levels, strings.Repeat("a.", max(i-1, 0))+strings.Repeat("a", min(i, 1))+" {  0")
	}
	levels = append(levels, "? 0 1 0")
	for _, tt := range []struct {
		name, text string
		want       []string
		strings    int
		bad        bool
	}{
		{name: "nothing"},
		{name: "white space", text: " \r\n\t"},
		{name: "a number at the very end", text: "12", want: []string{" 0 12 0"}},
		{name: "a number that is cut off", text: `{"a":12`, want: []string{" {  0"}, strings: 1, bad: true},
		{name: "words", text: `[null,true,false]`, want: []string{" [  0", " n null 0", " b true 0", " b false 0"}},
		{name: "lines", text: "{}\n1\n\"a\"\n", want: []string{" {  0", " 0 1 0", ` " a 1`}, strings: 1},
		{name: "one after the other", text: `{}[]"a""b"1 2`, want: []string{" {  0", " [  0", ` " a 1`, ` " b 1`, " 0 1 0", " 0 2 0"}, strings: 2},
		{name: "arrays add nothing to a path", text: `{"choices":[[{"delta":{"content":"Hi"}}]]}`,
			want:    []string{" {  0", "choices [  0", "choices [  0", "choices {  0", "choices.delta {  0", `choices.delta.content " Hi 2`},
			strings: 7 + 5 + 7 + 2},
		{name: "keys behind what was nested", text: `{"a":{"b":{"c":1},"d":2},"e":3}`,
			want: []string{" {  0", "a {  0", "a.b {  0", "a.b.c 0 1 0", "a.d 0 2 0", "e 0 3 0"}, strings: 5},
		{name: "a key twice", text: `{"a":1,"a":2}`, want: []string{" {  0", "a 0 1 0", "a 0 2 0"}, strings: 2},
		{name: "an empty key", text: `{"":{"a":1}}`, want: []string{" {  0", " {  0", ".a 0 1 0"}, strings: 1},
		{name: "a key of 64 bytes", text: `{"` + key64 + `":1}`, want: []string{" {  0", key64 + " 0 1 0"}, strings: 64},
		{name: "a key of 65 bytes", text: `{"` + key65 + `":1}`, want: []string{" {  0", "? 0 1 0"}, strings: 65},
		{name: "a key with an escape", text: `{"a\u0062":1}`, want: []string{" {  0", "? 0 1 0"}, strings: 2},
		{name: "below a key with a dot", text: `{"a.b":{"c":[1]},"d":2}`,
			want: []string{" {  0", "? {  0", "? [  0", "? 0 1 0", "d 0 2 0"}, strings: 5},
		{name: "a key of level 17", text: nested, want: levels, strings: 17},
		{name: "the first 256 bytes of a text", text: `"` + long + `"`, want: []string{` " ` + long[:256] + " 300"}, strings: 300},
		{name: "the first 256 bytes of a number", text: strings.Repeat("1", 300), want: []string{" 0 " + strings.Repeat("1", 256) + " 0"}},
		{name: "escapes", text: `"\"\\\/\b\f\n\r\t"`, want: []string{` " \"\\\/\b\f\n\r\t 8`}, strings: 8},
		{name: "escapes of 1, 2 and 3 bytes", text: `"\u0041\u00e9\u20AC"`, want: []string{` " \u0041\u00e9\u20AC 6`}, strings: 6},
		{name: "a surrogate pair", text: `"\ud83d\uDE00"`, want: []string{` " \ud83d\uDE00 4`}, strings: 4},
		{name: "lone surrogates", text: `"\ud83d-\ude00\ud83d\ud83d\ude00\ud83d\n\ude00"`,
			want: []string{` " \ud83d-\ude00\ud83d\ud83d\ude00\ud83d\n\ude00 21`}, strings: 21},
		{name: "numbers are not judged", text: `[-1.5E+3,1-2,00]`, want: []string{" [  0", " 0 -1.5E+3 0", " 0 1-2 0", " 0 00 0"}},
		{name: "10,000 levels", text: strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000), want: slices.Repeat([]string{" [  0"}, 10_000)},
		{name: "10,001 levels", text: strings.Repeat("[", 10_001), want: slices.Repeat([]string{" [  0"}, 10_000), bad: true},
		{name: "the wrong bracket", text: `[1}2`, want: []string{" [  0", " 0 1 0"}, bad: true},
		{name: "the wrong bracket below others", text: `{"a":[{}}`, want: []string{" {  0", "a [  0", "a {  0"}, strings: 1, bad: true},
		{name: "no bracket", text: `[1`, want: []string{" [  0"}, bad: true},
		{name: "a bracket too many", text: `[]]1`, want: []string{" [  0"}, bad: true},
		{name: "a comma too many", text: `[1,]`, want: []string{" [  0", " 0 1 0"}, bad: true},
		{name: "a key without quotes", text: `{a:1}`, want: []string{" {  0"}, bad: true},
		{name: "no colon", text: `{"a" 1}`, want: []string{" {  0"}, strings: 1, bad: true},
		{name: "no value", text: `{"a":}`, want: []string{" {  0"}, strings: 1, bad: true},
		{name: "another word", text: `nuts`, bad: true},
		{name: "no hex digit", text: `"\u00g0"`, bad: true},
		{name: "nothing is told behind what is bad", text: `x {"a":1}`, bad: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, size := range []int{1, 2, 3, 7, 1 << 20} {
				got, s := scanned(slices.Collect(slicesOf([]byte(tt.text), size))...)
				if !slices.Equal(got, tt.want) {
					t.Errorf("in pieces of %d: told %q, want %q", size, got, tt.want)
				}
				if s.bad() != tt.bad || s.strings != tt.strings {
					t.Errorf("in pieces of %d: bad %v, strings %d, want %v, %d", size, s.bad(), s.strings, tt.bad, tt.strings)
				}
			}
		})
	}
}

func TestScannerReset(t *testing.T) {
	var got []string
	s := newScanner(func(v Value) { got = append(got, toldOf(v)) })
	for _, before := range []string{`{"a":{"b":`, `["a\u00`, `x`, `{"a.b":[12`, `tr`} {
		s.reset()
		s.feed([]byte(before))
		s.reset()
		got = nil
		s.feed([]byte(`{"c":"de"}`))
		s.end()
		if want := []string{" {  0", `c " de 2`}; !slices.Equal(got, want) || s.bad() || s.strings != 3 {
			t.Errorf("behind %s: told %q, bad %v, strings %d", before, got, s.bad(), s.strings)
		}
	}
}

func TestScannerRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	told := 0
	for range 3000 {
		var text []byte
		for range 1 + rng.IntN(3) {
			text = append(randomJSON(rng, text, 0), " \n"[rng.IntN(2)])
		}
		want, size, ok := oracle(text)
		if !ok {
			t.Fatalf("%s is no JSON", text)
		}
		got, s := scanned(randomPieces(rng, text)...)
		if !slices.Equal(got, want) || s.bad() || s.strings != size {
			t.Fatalf("of %s:\ntold %q, bad %v, strings %d\nwant %q, %d", text, got, s.bad(), s.strings, want, size)
		}
		told += len(got)
	}
	if told < 30_000 {
		t.Errorf("only %d values were told", told)
	}
}

func FuzzScanner(f *testing.F) {
	for _, seed := range []string{
		`{"usage":{"prompt_tokens":12},"a":[null,true,"\ud83d\ude00\\"]}`,
		"{}\n[1]\n\"a\" 12", `[1,2`, `{"a.b":{"c":"\u00e9"}}`, `[[[[1e5]]]]`, `"\u12`, `nulll`,
	} {
		f.Add([]byte(seed), uint64(1))
	}
	f.Fuzz(func(t *testing.T, text []byte, seed uint64) {
		got, s := scanned(text)
		again, s2 := scanned(randomPieces(rand.New(rand.NewPCG(seed, 0)), text)...)
		if !slices.Equal(got, again) || s.bad() != s2.bad() || s.strings != s2.strings || s.partial() != s2.partial() {
			t.Fatalf("in pieces: %q, bad %v, strings %d\nat once: %q, %v, %d", again, s2.bad(), s2.strings, got, s.bad(), s.strings)
		}
		if want, size, ok := oracle(text); ok && (!slices.Equal(got, want) || s.bad() || s.strings != size) {
			t.Fatalf("told %q, bad %v, strings %d\nwant %q, %d", got, s.bad(), s.strings, want, size)
		}
	})
}

// TestScannerMemory reads a string of 256 MiB (16 with -race, which is slow).
func TestScannerMemory(t *testing.T) {
	piece := []byte(strings.Repeat("abcdefgh", 4000) + `\n\u00e9\"x`)
	s := newScanner(func(Value) {})
	s.feed([]byte(`{"a":"`))
	grown := allocated(func() {
		for fed := 0; fed < longBody; fed += len(piece) {
			s.feed(piece)
		}
	})
	if grown > 16<<10 {
		t.Errorf("%d bytes were allocated", grown)
	}
	if s.bad() || s.partial() < longBody/2 {
		t.Errorf("bad %v after %d bytes", s.bad(), s.partial())
	}
	doc := []byte(`{"a":[1,"` + strings.Repeat("b", 300) + `\n",{"c":null}]}`)
	if n := testing.AllocsPerRun(100, func() {
		s.reset()
		s.feed(doc[:50])
		s.feed(doc[50:])
		s.end()
	}); n != 0 {
		t.Errorf("%v allocations for a text", n)
	}
}

// allocated returns how many bytes do allocates.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
