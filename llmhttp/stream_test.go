package llmhttp

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/jsonscan"
	"dappco.re/go/core/go-ratelimit/internal/sse"
	"dappco.re/go/core/go-ratelimit/internal/test/piecetest"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

var testMarks = []string{`"usage"`, `"eval_count"`}

// streamed returns the values that a stream emits for a body in pieces, and the bytes of text.
func streamed(pieces ...[]byte) (values []string, text int) {
	s := newStream(testMarks, func(v jsonscan.Value) { values = append(values, formatValue(v)) })
	for _, p := range pieces {
		own := bytes.Clone(p)
		s.feed(own)
		if !bytes.Equal(own, p) {
			panic("a piece was changed")
		}
		clear(own) // a stream that kept the piece would show it
	}
	s.end()
	return values, s.textBytes()
}

// formatValue returns a value as "path kind text size".
func formatValue(v jsonscan.Value) string {
	path := string(v.Path)
	if v.Path == nil {
		path = "?"
	}
	return fmt.Sprintf("%s %c %s %d", path, v.Kind, v.Text, v.Size)
}

// scanned returns the values of a JSON text.
func scanned(text []byte) (values []string) {
	s := jsonscan.New(func(v jsonscan.Value) { values = append(values, formatValue(v)) })
	s.Feed(text)
	s.End()
	return values
}

func TestStream(t *testing.T) {
	usage := func(n int) string { return fmt.Sprintf(`{"usage":%d}`, n) }
	told := func(n ...int) (values []string) {
		for _, n := range n {
			values = append(values, " {  0", fmt.Sprintf("usage 0 %d 0", n))
		}
		return values
	}
	filler := strings.Repeat("x", sse.MaxEvent)
	for _, tt := range []struct {
		name, body string
		want       []string
		text       int
	}{
		{name: "nothing"},
		{name: "an event", body: "data: " + usage(1) + "\n\n", want: told(1)},
		{name: "no space", body: "data:" + usage(1) + "\n\n", want: told(1)},
		{name: "two spaces", body: "data:  " + usage(1) + "\n\n", want: told(1)},
		{name: "CRLF", body: "event: x\r\ndata: " + usage(1) + "\r\n\r\ndata: " + usage(2) + "\r\n\r\n", want: told(1, 2)},
		{name: "CR", body: "data: " + usage(1) + "\r\rdata: " + usage(2) + "\r\r", want: told(1, 2)},
		{name: "line ends of all kinds", body: "data: " + usage(1) + "\n\r\ndata: " + usage(2) + "\r\n\rdata: " + usage(3) + "\r\ndata:\n\r", want: told(1, 2, 3)},
		{name: "a byte order mark", body: "\uFEFFdata: " + usage(1) + "\n\n", want: told(1)},
		{name: "half a byte order mark is a name", body: "\uFEFF"[:2] + "data: " + usage(1) + "\n\ndata: " + usage(2) + "\n\n", want: told(2)},
		{name: "a second byte order mark is a name", body: "\uFEFF\uFEFFdata: " + usage(1) + "\n\ndata: " + usage(2) + "\n\n", want: told(2)},
		{name: "comments", body: ": OPENROUTER PROCESSING\n\n:\ndata: " + usage(1) + "\n: data\n\n", want: told(1)},
		{name: "other fields", body: "id: 1\nevent: x\nretry: 5\nDATA: " + usage(1) + "\ndatas: " + usage(2) + "\ndat: " + usage(3) + "\n data: " + usage(4) + "\n\ndata: " + usage(5) + "\nid\n\n", want: told(5)},
		{name: "white space in front of a name", body: " data: " + usage(1) + "\n\n", want: nil},
		{name: "blank lines in front", body: "\n\r\n\r\n\ndata: " + usage(1) + "\n\n", want: told(1)},
		{name: "data of several lines", body: "data: {\"usage\"\ndata: :\ndata\ndata:1}\n\n", want: told(1)},
		{name: "a string goes over no lines", body: "data: {\"usage\":\"a\ndata: b\"}\n\n", want: []string{" {  0", "usage \" a\nb 3"}},
		{name: "no blank line at the end", body: "data: " + usage(1) + "\n", want: told(1)},
		{name: "no end of the line at the end", body: "data: " + usage(1), want: told(1)},
		{name: "a number that is cut off", body: `data: {"usage":1`, want: []string{" {  0"}},
		{name: "[DONE]", body: "data: " + usage(1) + "\n\ndata: [DONE]\n\ndata: " + usage(2) + "\n\n", want: told(1, 2)},
		{name: "an event that is no JSON does not disturb the next", body: "data: x\"usage\":1{{{\n\ndata: {\"usage\":[\"\n\ndata: " + usage(2) + "\n\n",
			want: append([]string{" {  0", "usage [  0"}, told(2)...)},
		{name: "only events with a mark", body: "data: {\"a\":1}\n\ndata: {\"eval_count\":2}\n\n", want: []string{" {  0", "eval_count 0 2 0"}},
		{name: "marks before null", body: "data: {\"usage\":null}\n\ndata: {\"usage\" : null,\"eval_count\":\tnull}\n\n"},
		{name: "a mark before null and one that is not", body: `data: {"usage":null,"eval_count":1}`, want: []string{" {  0", "usage n null 0", "eval_count 0 1 0"}},
		{name: "the same mark before null and not", body: `data: {"usage":null,"a":{"usage":1}}`, want: []string{" {  0", "usage n null 0", "a {  0", "a.usage 0 1 0"}},
		{name: "an empty event", body: "data:\n\ndata\n\ndata: " + usage(1) + "\n\n", want: told(1)},

		{name: "JSON", body: `{"usage":1}`, want: told(1), text: 5},
		{name: "JSON after white space", body: "\uFEFF \r\n\t" + usage(1), want: told(1), text: 5},
		{name: "an array", body: `[{"text":"abc"}]`, want: []string{" [  0", " {  0", `text " abc 3`}, text: 7},
		{name: "lines of JSON", body: usage(1) + "\n" + usage(2) + "\n", want: told(1, 2), text: 10},
		{name: "JSON that is cut off in a string", body: `{"text":"ab\u00e`, want: []string{" {  0"}, text: 6},
		{name: "neither", body: "usage\n\n<html>", want: nil},

		{name: "text", body: `data: {"choices":[{"delta":{"content":"Hi!"}}]}` + "\n\n" + `data: {"choices":[{"delta":{"content":"é"}}]}`, text: 5},
		{name: "text after white space", body: `data: {"content" :"no","text": "abc"}`, text: 3},
		{name: "text with escapes", body: `data: {"content":"a\"\\\\"}` + "\n\n" + `data: {"content":"\\","a":""}`, text: 7 + 2},
		{name: "long text", body: `data: {"content":"` + strings.Repeat(`\\\"`, 100) + `"}`, text: 400},
		{name: "text that is cut off", body: `data: {"content":"abc`, text: 3},
		{name: "other keys", body: `data: {"delta":{"type":"x","partial_json":"{\"a"}}` + "\n\n" + `data: {"delta":"ab"}` + "\n\n" + `data: {"thinking":"a"}` + "\n\n" + `data: {"arguments":"a"}` + "\n\n" + `data: {"response":"a"}` + "\n\n" + `data: {"reasoning":"a"}`, text: 4 + 2 + 4},
		{name: "the first that is not empty", body: `data: {"content":null,"reasoning_content":"abc"}` + "\n\n" + `data: {"content":"","reasoning_content":"abc"}` + "\n\n" + `data: {"content":"d","reasoning_content":""}`, text: 7},
		{name: "no text", body: `data: {"delta":{"role":"assistant","content":[]}}`, text: 0},
		{name: "text of an event with a mark", body: `data: {"text":"abc","usage":1}`, want: []string{" {  0", `text " abc 3`, "usage 0 1 0"}, text: 3},

		{name: "the largest event that is buffered", body: `data: {"a":"` + filler[:sse.MaxEvent-8] + "\"}\n\n"},
		{name: "one that is larger", body: `data: {"a":"` + filler[:sse.MaxEvent-7] + "\"}\n\ndata: " + usage(1) + "\n\n",
			want: append([]string{" {  0", `a " ` + filler[:256] + fmt.Sprint(" ", sse.MaxEvent-7)}, told(1)...), text: sse.MaxEvent + 1},
		{name: "one of several lines that is larger", body: "data: {\"a\":\ndata:[\"" + filler[:sse.MaxEvent-11] + "\"]\ndata:}",
			want: []string{" {  0", "a [  0", `a " ` + filler[:256] + fmt.Sprint(" ", sse.MaxEvent-11)}, text: sse.MaxEvent + 1},
		{name: "a line of more than 64 KiB that is no data", body: "id: " + filler + "\ndata: " + usage(1), want: told(1)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check := func(how string, pieces ...[]byte) {
				t.Helper()
				got, text := streamed(pieces...)
				if !slices.Equal(got, tt.want) {
					t.Errorf("%s: got %.300q, want %.300q", how, got, tt.want)
				}
				if text != tt.text {
					t.Errorf("%s: text %d, want %d", how, text, tt.text)
				}
			}
			body := []byte(tt.body)
			check("at once", body)
			for _, size := range []int{1, 2, 3, 7, 1000, sse.MaxEvent - 1, sse.MaxEvent, sse.MaxEvent + 1} {
				check(fmt.Sprintf("in pieces of %d", size), slices.Collect(piecetest.Cut(body, size))...)
			}
			for i := range min(len(body), 200) {
				check(fmt.Sprintf("cut at %d", i), body[:i], nil, body[i:])
			}
		})
	}
}

// Among few different bytes there are many near matches.
func TestPattern(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		word := func(most int) string {
			b := make([]byte, rng.IntN(most))
			for i := range b {
				b[i] = `"aZ`[rng.IntN(3)]
			}
			return string(b)
		}
		text, data := word(5), word(30)
		p := patternOf(text)
		if got, want := p.index([]byte(data)), strings.Index(data, text); got != want {
			t.Fatalf("%q in %q: %d, want %d", text, data, got, want)
		}
	}
}

func TestStreamEmptyMark(t *testing.T) {
	told := 0
	s := newStream([]string{""}, func(jsonscan.Value) { told++ })
	s.feed([]byte("data: :null\n\ndata: [1]\n\n"))
	if s.end(); told != 2 {
		t.Errorf("%d values, want 2", told)
	}
}

// Reading an event of 256 MiB allocates no more than the buffer of one event.
func TestStreamMemory(t *testing.T) {
	for _, tt := range []struct{ name, begin, middle, end string }{
		{"a string", `data: {"a":"`, strings.Repeat("abcdefgh", 500) + `\n\u00e9\"x`, "\"}\n\n"},
		{"lines of data", "data: [1", "\ndata: ,1", "]\n\n"},
		{"another field", "id: ", "abcdefgh", "\n\n"},
		{"a comment", ": ", "abcdefgh", "\n\n"},
		{"JSON", `{"a":"`, `abcdefgh`, `"}`},
		{"no line at all", "", "abcdefgh", "\n\n"},
		{"blank lines", "", "\r\n\n\r", "\n\n"},
		{"small events", "", "data: {\"a\":1}\n\n", "\n\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			told := 0
			s := newStream(testMarks, func(jsonscan.Value) { told++ })
			piece := bytes.Repeat([]byte(tt.middle), 32<<10/len(tt.middle))
			s.feed([]byte(tt.begin))
			length := 8 << 20 / racetest.Factor
			if tt.name == "a string" {
				length = 256 << 20 / racetest.Factor
			}
			grown := piecetest.Allocated(func() {
				for fed := 0; fed < length; fed += len(piece) {
					s.feed(piece)
				}
			})
			// The buffer of an event doubles until it holds 64 KiB.
			if grown > 300<<10 {
				t.Errorf("%d bytes were allocated", grown)
			}
			s.feed([]byte(tt.end))
			told = 0
			s.feed([]byte("\ndata: {\"usage\":1}\n\n"))
			if s.end(); told != 2 && s.form == eventForm {
				t.Errorf("%d values of the next event, want 2", told)
			}
		})
	}
}

func FuzzStream(f *testing.F) {
	for _, seed := range []string{
		"data: {\"usage\":1}\n\ndata: [DONE]\n\n", "event: a\r\ndata: {\"usage\"\r\ndata: :1}\r\n\r\n", "data:{\"content\":\"a\\\"\"}\r\r: x\r",
		"\uFEFF{\"usage\":{\"a\":1}}\n{}", "\xEF\xBBdata: 1\n\n", "data\ndata:\n\ndata: {\"usage\":null,\"eval_count\":2}",
	} {
		f.Add([]byte(seed), uint64(1), uint16(0))
		f.Add([]byte(seed), uint64(2), uint16(65_530))
	}
	f.Fuzz(func(t *testing.T, body []byte, seed uint64, filler uint16) {
		// Fuzzing finds no way to events of 64 KiB by itself.
		body = bytes.Replace(body, []byte("x"), bytes.Repeat([]byte("y"), int(filler)), 1)
		got, text := streamed(body)
		again, text2 := streamed(piecetest.Random(rand.New(rand.NewPCG(seed, 0)), body)...)
		if !slices.Equal(got, again) || text != text2 {
			t.Fatalf("in pieces: %.1000q, text %d\nat once: %.1000q, %d", again, text2, got, text)
		}
		if want := slowStream(body); !slices.Equal(got, want) {
			t.Fatalf("got %.1000q, want %.1000q", got, want)
		}
	})
}

// slowStream returns the values that a stream must emit for a body, by the rules as they read.
func slowStream(body []byte) (values []string) {
	text := bytes.TrimPrefix(body, byteOrderMark)
	if start := bytes.TrimLeft(text, " \t\r\n"); len(start) > 0 && (start[0] == '{' || start[0] == '[') {
		return scanned(start)
	}
	if bytes.HasPrefix(text, byteOrderMark[:1]) && len(text) == len(body) || bytes.HasPrefix(text, byteOrderMark) {
		text = append([]byte("x"), text...)
	}
	lines := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(text)), "\n")
	var data []string
	for _, line := range append(lines, "", "") {
		name, value, _ := strings.Cut(line, ":")
		if name == "data" {
			data = append(data, strings.TrimPrefix(value, " "))
		}
		if line != "" {
			continue
		}
		event := strings.Join(data, "\n")
		data = nil
		marked := len(event) > sse.MaxEvent
		for _, mark := range testMarks {
			for i := range event {
				rest, ok := strings.CutPrefix(event[i:], mark)
				if !ok {
					continue
				}
				rest, ok = strings.CutPrefix(strings.TrimLeft(rest, " \t\r\n"), ":")
				marked = marked || !ok || !strings.HasPrefix(strings.TrimLeft(rest, " \t\r\n"), "null")
			}
		}
		if marked {
			values = append(values, scanned([]byte(event))...)
		}
	}
	return values
}
