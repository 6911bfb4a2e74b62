// Paths: the table in PATHS.md, and that each path in it behaves as told.

package llmhttp

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit"
)

var update = flag.Bool("update", false, "write the table of PATHS.md")

const (
	pathsFile  = "PATHS.md"
	pathsBegin = "<!-- Written by go generate from llmhttp's adapters: begin -->\n"
	pathsEnd   = "<!-- end of the paths -->\n"
)

// TestPathsFile keeps the table of PATHS.md as the adapters are. go generate, or
//
//	go test ./llmhttp -run TestPathsFile -update
//
// writes it.
func TestPathsFile(t *testing.T) {
	text, err := os.ReadFile(pathsFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), pathsBegin)
	_, after, ends := strings.Cut(rest, pathsEnd)
	if !begins || !ends {
		t.Fatalf("%s has no lines %q and %q", pathsFile, pathsBegin, pathsEnd)
	}
	want := before + pathsBegin + pathTable() + pathsEnd + after
	if want == string(text) {
		return
	}
	if !*update {
		t.Fatalf("%s differs from the adapters: run go generate", pathsFile)
	}
	if err := os.WriteFile(pathsFile, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// pathTable returns a row for all paths of an API that have the same fate for the same reason.
func pathTable() string {
	var b strings.Builder
	b.WriteString("\n| API | Path | What happens | Read |\n|---|---|---|---|\n")
	var row []string // of the paths that are alike
	all := knownPaths()
	for i, p := range all {
		name := "`" + p.path + "`"
		if p.method != http.MethodPost {
			name = "`" + p.method + " " + p.path + "`"
		}
		row = append(row, name)
		if i+1 < len(all) {
			if next := all[i+1]; next.api == p.api && next.fate == p.fate && next.note == p.note && next.source == p.source {
				continue
			}
		}
		what, read := string(p.fate), "from clients"
		if p.note != "" {
			what += ": " + p.note
		}
		if p.source != unread {
			read = fmt.Sprintf("[%s](%s)", p.readOn, p.source)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", p.api, strings.Join(row, ", "), what, read)
		row = row[:0]
	}
	b.WriteString("\n")
	return b.String()
}

type eventFunc func(*ratelimit.Event)

func (f eventFunc) HandleEvent(_ context.Context, e *ratelimit.Event) { f(e) }

// Each known path behaves as the table says, with a body that names a model and one that does not.
func TestKnownPaths(t *testing.T) {
	seen := make(map[string]bool)
	for _, p := range knownPaths() {
		if id := p.method + " " + p.path; seen[id] {
			t.Errorf("%s is there twice", id)
		} else {
			seen[id] = true
		}
		if p.method == http.MethodGet && p.fate == countedFate {
			continue // a WebSocket, whose messages count: the tests of sockets
		}
		for _, body := range []string{`{"model":"m"}`, `{}`, ``} {
			told := 0
			rl, err := ratelimit.NewWithConfig(ratelimit.Config{
				FilePath: t.TempDir() + "/s.yaml", Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 10}},
				Events: eventFunc(func(e *ratelimit.Event) {
					if e.Kind == ratelimit.EventUncounted {
						told++
					}
				}),
			})
			if err != nil {
				t.Fatal(err)
			}
			tr := &Transport{Limiter: rl, Base: roundTripFunc(func(req *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}")), Request: req}, nil
			})}
			req, _ := http.NewRequestWithContext(t.Context(), p.method, p.sample().String(), strings.NewReader(body))
			if p.method == http.MethodGet {
				req.Header.Set("Upgrade", "websocket")
			}
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			counted := 0
			for _, s := range rl.AllStats() {
				counted += s.RPM
			}
			var got fate
			switch {
			case counted == 1 && told == 0:
				got = countedFate
			case counted == 0 && told == 1:
				got = toldFate
			case counted == 0 && told == 0:
				got = freeFate
			}
			want := p.fate
			if want == requestsFate {
				want = countedFate
			}
			if want == countedFate && got == toldFate && body != `{"model":"m"}` {
				got = countedFate // it names no model
			}
			if got != want {
				t.Errorf("%s %s with %q is %s, want %s", p.method, p.path, body, got, want)
			}
			rl.Close()
		}
	}
}

func TestModelInPath(t *testing.T) {
	for path, want := range map[string]string{
		"/v1/models/m:do": "m", "/v1/models/m": "m", "/models/o/m": "o", "/model/m/do": "m", "/model/m": "", "/deployments/d": "",
		"/deployments/d/do": "d", "/v1/models": "", "/v1/models/": "", "/": "", "": "", "models/m": "m", "/tunedModels/m:do": "m",
		"/v1/endpoints/1:do": "1", "/reasoningEngines/1:do": "1", "/v1/submodels/m": "", "/V1/Models/m:do": "m", "/Deployments/d/do": "d",
	} {
		if got := modelInPath(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// A free path that ends in a placeholder could hide a call of another API.
func TestFreePathsHideNothing(t *testing.T) {
	for _, known := range knownPaths() {
		p := patternOfPath(known.path)
		last := p.segments[len(p.segments)-1]
		if known.fate == freeFate && p.host == "" && last.before == "" && last.after == "" && known.path != "/slots/{id}" {
			t.Errorf("%s is free at any host", known.path)
		}
	}
}
