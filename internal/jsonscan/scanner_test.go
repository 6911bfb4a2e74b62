package jsonscan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/test/piecetest"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// format returns a value as "path kind text size".
func format(v Value) string {
	path := string(v.Path)
	if v.Path == nil {
		path = "?"
	}
	return fmt.Sprintf("%s %c %s %d", path, v.Kind, v.Text, v.Size)
}

// scanned returns the values of a text in pieces, and the Scanner that read it.
func scanned(pieces ...[]byte) (values []string, s *Scanner) {
	s = New(func(v Value) { values = append(values, format(v)) })
	for _, p := range pieces {
		s.Feed(bytes.Clone(p))
	}
	s.End()
	return values, s
}

func TestScanner(t *testing.T) {
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
		{name: "a key with an escape", text: `{"a\u0062":1}`, want: []string{" {  0", "ab 0 1 0"}, strings: 2},
		{name: "a key with escapes of all kinds", text: `{"\u00e9\ud83d\ude00\ud83d\/\"\t":1}`, want: []string{" {  0", "\u00e9\U0001f600\ufffd/\"\t 0 1 0"}, strings: 12},
		{name: "a key with an escaped dot", text: `{"a\u002eb":1}`, want: []string{" {  0", "? 0 1 0"}, strings: 3},
		{name: "a key of 64 bytes with escapes", text: `{"` + strings.Repeat(`\u0061`, 38) + strings.Repeat("a", 26) + `":1}`, want: []string{" {  0", strings.Repeat("a", 64) + " 0 1 0"}, strings: 64},
		{name: "a key with too many escapes", text: `{"` + strings.Repeat(`\u0061`, 43) + `":1}`, want: []string{" {  0", "? 0 1 0"}, strings: 43},
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
		{name: "numbers are not checked", text: `[-1.5E+3,1-2,00]`, want: []string{" [  0", " 0 -1.5E+3 0", " 0 1-2 0", " 0 00 0"}},
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
		{name: "nothing is reported after the text is invalid", text: `x {"a":1}`, bad: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, size := range []int{1, 2, 3, 7, 1 << 20} {
				got, s := scanned(slices.Collect(piecetest.Cut([]byte(tt.text), size))...)
				if !slices.Equal(got, tt.want) {
					t.Errorf("in pieces of %d: got %q, want %q", size, got, tt.want)
				}
				if s.Invalid() != tt.bad || s.StringBytes() != tt.strings {
					t.Errorf("in pieces of %d: bad %v, strings %d, want %v, %d", size, s.Invalid(), s.StringBytes(), tt.bad, tt.strings)
				}
			}
		})
	}
}

func TestScannerReset(t *testing.T) {
	var got []string
	s := New(func(v Value) { got = append(got, format(v)) })
	for _, before := range []string{`{"a":{"b":`, `["a\u00`, `x`, `{"a.b":[12`, `tr`} {
		s.Reset()
		s.Feed([]byte(before))
		s.Reset()
		got = nil
		s.Feed([]byte(`{"c":"de"}`))
		s.End()
		if want := []string{" {  0", `c " de 2`}; !slices.Equal(got, want) || s.Invalid() || s.StringBytes() != 3 {
			t.Errorf("behind %s: got %q, bad %v, strings %d", before, got, s.Invalid(), s.StringBytes())
		}
	}
}

func TestScannerRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	values := 0
	for range 3000 / racetest.Factor {
		var text []byte
		for range 1 + rng.IntN(3) {
			text = append(randomJSON(rng, text, 0), " \n"[rng.IntN(2)])
		}
		want, size, ok := oracle(text)
		if !ok {
			t.Fatalf("%s is no JSON", text)
		}
		got, s := scanned(piecetest.Random(rng, text)...)
		if !slices.Equal(got, want) || s.Invalid() || s.StringBytes() != size {
			t.Fatalf("of %s:\ngot %q, bad %v, strings %d\nwant %q, %d", text, got, s.Invalid(), s.StringBytes(), want, size)
		}
		values += len(got)
	}
	if values < 30_000/racetest.Factor {
		t.Errorf("only %d values", values)
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
		again, s2 := scanned(piecetest.Random(rand.New(rand.NewPCG(seed, 0)), text)...)
		if !slices.Equal(got, again) || s.Invalid() != s2.Invalid() || s.StringBytes() != s2.StringBytes() || s.PartialBytes() != s2.PartialBytes() {
			t.Fatalf("in pieces: %q, bad %v, strings %d\nat once: %q, %v, %d", again, s2.Invalid(), s2.StringBytes(), got, s.Invalid(), s.StringBytes())
		}
		if want, size, ok := oracle(text); ok && (!slices.Equal(got, want) || s.Invalid() || s.StringBytes() != size) {
			t.Fatalf("got %q, bad %v, strings %d\nwant %q, %d", got, s.Invalid(), s.StringBytes(), want, size)
		}
	})
}

// Reading a string of 256 MiB allocates nothing that grows with it.
func TestScannerMemory(t *testing.T) {
	const length = 256 << 20 / racetest.Factor
	piece := []byte(strings.Repeat("abcdefgh", 4000) + `\n\u00e9\"x`)
	s := New(func(Value) {})
	s.Feed([]byte(`{"a":"`))
	grown := piecetest.Allocated(func() {
		for fed := 0; fed < length; fed += len(piece) {
			s.Feed(piece)
		}
	})
	if grown > 16<<10 {
		t.Errorf("%d bytes were allocated", grown)
	}
	if s.Invalid() || s.PartialBytes() < length/2 {
		t.Errorf("bad %v after %d bytes", s.Invalid(), s.PartialBytes())
	}
	doc := []byte(`{"a":[1,"` + strings.Repeat("b", 300) + `\n",{"c":null}]}`)
	if n := testing.AllocsPerRun(100, func() {
		s.Reset()
		s.Feed(doc[:50])
		s.Feed(doc[50:])
		s.End()
	}); n != 0 {
		t.Errorf("%v allocations for a text", n)
	}
}

func BenchmarkScanner(b *testing.B) {
	var chat, request strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&chat, `{"id":"chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG","object":"chat.completion.chunk",`+
			`"created":1741570283,"model":"gpt-4o-2024-08-06","choices":[{"index":0,`+
			`"delta":{"content":" word%d"},"finish_reason":null}],"usage":null}`+"\n\n", i)
	}
	request.WriteString(`{"model":"gpt-4o","stream":true,"messages":[`)
	for i := range 500 {
		if i > 0 {
			request.WriteString(",")
		}
		content, _ := json.Marshal(strings.Repeat("What is the \"capital\" of France?\n", 10)[:i%300])
		request.WriteString(`{"role":"user","content":` + string(content) + `}`)
	}
	request.WriteString(`]}`)
	for _, tt := range []struct{ name, text string }{
		{"chat chunks", chat.String()},
		{"chat request", request.String()},
		{"long strings", `{"data":"` + strings.Repeat("QUJDREVGR0hJSktM", 1<<16) + `"}`},
		{"escapes", `{"data":"` + strings.Repeat(`\"\u00e9\\`, 1<<16) + `"}`},
	} {
		b.Run(tt.name, func(b *testing.B) {
			text := []byte(tt.text)
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			values := 0
			s := New(func(Value) { values++ })
			for b.Loop() {
				s.Reset()
				for p := range piecetest.Cut(text, 32<<10) {
					s.Feed(p)
				}
				s.End()
				if s.Invalid() || s.StringBytes() == 0 {
					b.Fatal("no JSON")
				}
			}
		})
	}
}

// StringLen finds the end as a walk over the bytes does.
func FuzzStringLen(f *testing.F) {
	for _, seed := range []string{`"`, `a"b`, `\"`, `\\"`, `\\\""`, strings.Repeat("x", 23) + `"`, strings.Repeat("x", 30) + `\"y"z"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		want := len(text)
		for i := 0; i < len(text); i++ {
			if text[i] == '\\' {
				i++
			} else if text[i] == '"' {
				want = i
				break
			}
		}
		if got := StringLen(text); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	})
}
