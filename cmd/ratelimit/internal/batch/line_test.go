package batch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// A url is a path, and leads nowhere else.
func TestCheckPath(t *testing.T) {
	for _, good := range []string{"/v1/chat/completions", "/v1beta/models/gemini-2.5-flash:generateContent", "/openai/deployments/a/chat/completions?api-version=2024"} {
		if err := CheckPath(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "v1/x", "//evil.test/x", "https://evil.test/x", "/\\evil.test", "\\\\evil.test", "/a/../b", "/a/./b", "/a/%2e%2E/b", "/a/..;x=1/b",
		"/a b", "/a#b", "/a\nb", "/a%", "@evil.test/", "/" + strings.Repeat("a", 3000), "/a%5cb",
	} {
		if CheckPath(bad) == nil {
			t.Errorf("%q passes", bad)
		}
	}
}

// Whatever a line is, it neither stops the program nor leads out of the upstream, and what the file
// of errors has of it reads as the same line.
func FuzzLine(f *testing.F) {
	for _, seed := range []string{
		`{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"m"}}`, `{"custom_id":"a","params":{"model":"m","x":[1,2,{"y":"\"}"}]}}`,
		`{"model":"m"}`, `{"custom_id":"a","model":"m","error":{"code":"x"}}`, `{"input":"{\"model\":1}","error":{}}`, `not json`, `{"a":1,"a":2}`, ` { "custom_id" : "é\u00e9" , "body" : { } } `,
		`{"custom_id":"a","body":{"stream":true}}`, `{}`, `[]`, `{"custom_id":"a","url":"//x","body":{}}`, "{\"a\":\"\xff\"}",
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	b := &Batch{key: "sk-fuzz-secret"}
	f.Fuzz(func(t *testing.T, raw []byte, bare bool) {
		path := ""
		if bare {
			path = "/v1/chat/completions"
		}
		raw = bytes.Map(func(r rune) rune {
			if r == '\n' {
				return ' '
			}
			return r
		}, raw)
		l, err := parseLine(raw, 7, path)
		text := b.errorLine(&l, &failure{Code: codeBadLine, Message: "m", Line: 7})
		if !json.Valid(text) || bytes.Count(text, []byte("\n")) != 1 {
			t.Fatalf("the file of errors gets %q", text)
		}
		again, errAgain := parseLine(bytes.TrimSpace(text), 99, path)
		if err != nil {
			if errAgain == nil && !b.key.in(raw) {
				t.Fatalf("%q is no line, and as an error %q it is one", raw, text)
			}
			return
		}
		if CheckPath(l.path) != nil || l.id == "" || !json.Valid(l.body) {
			t.Fatalf("%q is %+v", raw, l)
		}
		if b.key.in(raw) {
			if errAgain == nil || b.key.in(text) {
				t.Fatalf("%q has a key, and as an error it is %q", raw, text)
			}
			return
		}
		if errAgain != nil || again.id != l.id || again.path != l.path || compact(again.body) != compact(l.body) {
			t.Fatalf("%q is %q, and as an error %q it is %q, %v", raw, l.body, text, again.body, errAgain)
		}
	})
}

func compact(text []byte) string {
	var b bytes.Buffer
	json.Compact(&b, text) //nolint:errcheck // it is valid
	return b.String()
}

// A result that was cut anywhere, or is another's, is no result or has its id.
func FuzzResult(f *testing.F) {
	f.Add([]byte(`{"id":"batch_req_1","custom_id":"a\"b","response":{},"error":null}`))
	f.Add([]byte(`{"id":"batch_req_1","custom_id":"a}`))
	f.Add([]byte(`{"custom_id":"a"}`))
	f.Add([]byte(`{"id":"batch_req_1","custom_id":`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var want struct {
			ID *string `json:"custom_id"`
		}
		id, ok := resultID(text)
		if json.Unmarshal(text, &want) == nil && want.ID != nil && ok && !bytes.HasPrefix(text, []byte(resultHead)) && id != *want.ID {
			t.Errorf("%q has the id %q", text, id)
		}
	})
}

// The set tells ids of OUT from those of IN, and finds each again.
func TestIDSet(t *testing.T) {
	n := racetest.Times(200_000, 20_000, 1_000_000)
	s := newIDSet()
	name := func(i int) string { return fmt.Sprintf("id-%d", i) }
	for i := 0; i < n; i += 3 {
		if !s.addDone(name(i)) || s.addDone(name(i)) {
			t.Fatal(i)
		}
	}
	for i := range n {
		if done, again := s.see(name(i)); done != (i%3 == 0) || again {
			t.Fatalf("%d: %v, %v", i, done, again)
		}
	}
	for i := range n {
		if done, again := s.see(name(i)); done || !again {
			t.Fatalf("%d again: %v, %v", i, done, again)
		}
	}
	slots := 0
	for i := range s.shards {
		slots += len(s.shards[i].slots)
	}
	if slots*10 > n*16 {
		t.Errorf("%d slots of %d ids", slots, n)
	}
}

// One of the two records is whole, however the other one is torn.
func TestMark(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m")
	m, err := openMark(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openMark(path); err != ErrLocked {
		t.Errorf("a second one: %v", err)
	}
	var states []markState
	for i := range 3 {
		if err := m.write(markState{Bytes: int64(i), SHA256: "x"}, true); err != nil {
			t.Fatal(err)
		}
		states = append(states, m.state)
	}
	m.file.Close()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	last := int(states[2].Sequence%2) * markRecord
	for cut := range markRecord {
		torn := bytes.Clone(whole)
		clear(torn[last+cut : last+markRecord])
		if err := os.WriteFile(path, torn, 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := openMark(path)
		if err != nil {
			t.Fatal(err)
		}
		m.file.Close()
		if m.state != states[1] {
			t.Fatalf("%d bytes of the last record: %+v", cut, m.state)
		}
	}
}

// Lines may have any end, and be too long.
func TestLineReader(t *testing.T) {
	long := strings.Repeat("x", maxLine+1)
	r := newLineReader(strings.NewReader("\xef\xbb\xbfa\r\n\n" + long + "\nlast"))
	for i, want := range []string{"a", "", "long", "last"} {
		text, err := r.next()
		if want == "long" {
			if err != errLongLine || len(text) != 1024 {
				t.Errorf("%d bytes, %v", len(text), err)
			}
			continue
		}
		if err != nil || string(text) != want || r.torn != (want == "last") || r.number != i+1 {
			t.Errorf("%q, %v, %+v", text, err, r.torn)
		}
	}
}

func BenchmarkLine(b *testing.B) {
	raw := []byte(strings.TrimSpace(lineOf("id-1234567", 100)))
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if _, err := parseLine(raw, 1, ""); err != nil {
			b.Fatal(err)
		}
	}
}
