package main_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

const batchKey = "sk-batch-secret-0123456789"

// batchRun is a run of the program over a folder with in.jsonl.
type batchRun struct {
	status         int
	stdout, stderr string
}

// runBatch runs `ratelimit batch` with a key and a database of the folder.
func runBatch(t testing.TB, dir, stdin string, arguments ...string) batchRun {
	t.Helper()
	cmd := command(t, append([]string{"batch"}, arguments...)...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Env, "OPENAI_API_KEY="+batchKey, "ANTHROPIC_API_KEY="+batchKey, "GEMINI_API_KEY="+batchKey)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Stdin = &out, &said, strings.NewReader(stdin)
	cmd.Run() //nolint:errcheck // its status is looked at
	return batchRun{cmd.ProcessState.ExitCode(), out.String(), said.String()}
}

// chatLine is a line in OpenAI's form.
func chatLine(id string) string {
	return fmt.Sprintf(`{"custom_id":%q,"method":"POST","url":"/v1/chat/completions","body":%s}`, id, chat("gpt-4o"))
}

func chatLines(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(chatLine(fmt.Sprintf("id-%d", i)) + "\n")
	}
	return b.String()
}

// put writes a file of a folder.
func put(t testing.TB, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// take reads a file of a folder; empty for none.
func take(t testing.TB, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(text)
}

// resultLine is a line of OUT.
type resultLine struct {
	ID       string `json:"id"`
	CustomID string `json:"custom_id"`
	Response struct {
		StatusCode int             `json:"status_code"`
		RequestID  string          `json:"request_id"`
		Body       json.RawMessage `json:"body"`
	} `json:"response"`
	Error any `json:"error"`
}

// ids returns the custom_ids of a file, in their order, and fails for one that is there twice.
func ids(t testing.TB, text string) []string {
	t.Helper()
	var all []string
	seen := make(map[string]bool)
	for line := range strings.Lines(text) {
		var r resultLine
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		if seen[r.CustomID] {
			t.Errorf("%s is there twice", r.CustomID)
		}
		seen[r.CustomID] = true
		all = append(all, r.CustomID)
	}
	return all
}

// noKey fails if a key is in what a run has written.
func noKey(t testing.TB, dir string, r batchRun) {
	t.Helper()
	all := r.stdout + r.stderr
	for _, name := range []string{"out.jsonl", "out.jsonl.ratelimit", "errors.jsonl"} {
		all += take(t, dir, name)
	}
	if strings.Contains(all, batchKey) || strings.Contains(all, "secret-0123") {
		t.Errorf("the key is told in:\n%s", all)
	}
}

// Each form of a line is sent as its provider wants it, with the key where it wants that, and OUT
// has what the provider's own batches have.
func TestBatchForms(t *testing.T) {
	u := provider(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "req-1")
		io.WriteString(w, "{\n \"id\": \"a\",\n \"usage\":{\"prompt_tokens\":5,\"completion_tokens\":3}, \"key\": \""+batchKey+"\"}") //nolint:errcheck // the test sees it
	})
	for _, test := range []struct {
		name, in, uri, header, value, body, id string
		flags                                  []string
	}{
		{"OpenAI", chatLine("a"), "/v1/chat/completions", "Authorization", "Bearer " + batchKey, chat("gpt-4o"), "a", nil},
		{"a base with a path", chatLine("a"), "/v1/chat/completions", "Authorization", "Bearer " + batchKey, chat("gpt-4o"), "a",
			[]string{"--upstream", u.URL + "/v1"}},
		{"OpenAI without method and url", `{"custom_id":"a","body":` + chat("m") + `}`, "/v1/responses", "Authorization", "Bearer " + batchKey, chat("m"), "a",
			[]string{"--url", "/v1/responses"}},
		{"Anthropic", `{"custom_id":"b","params":` + chat("claude-sonnet-4-5") + `}`, "/v1/messages", "X-Api-Key", batchKey, chat("claude-sonnet-4-5"), "b", nil},
		{"a body", chat("m"), "/v1/chat/completions", "Authorization", "Bearer " + batchKey, chat("m"), "line-1",
			[]string{"--url", "/v1/chat/completions"}},
		{"a body with an id and an error", `{"custom_id":"c","model":"m","error":{"code":"x"}}`, "/v1/completions", "Authorization", "Bearer " + batchKey, `{"model":"m"}`, "c",
			[]string{"--url", "/v1/completions"}},
		{"Gemini", `{"custom_id":"g","url":"/v1beta/models/gemini-2.5-flash:generateContent","body":{"contents":[]}}`,
			"/v1beta/models/gemini-2.5-flash:generateContent", "X-Goog-Api-Key", batchKey, `{"contents":[]}`, "g", nil},
		{"an error that was", `{"custom_id":"d","params":{"model":"claude"},"error":{"code":"http_500"}}`, "/v1/messages", "X-Api-Key", batchKey, `{"model":"claude"}`, "d", nil},
		{"a mark and CRLF", "\xef\xbb\xbf" + chatLine("a") + "\r", "/v1/chat/completions", "Authorization", "Bearer " + batchKey, chat("gpt-4o"), "a", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, dir, "in.jsonl", test.in+"\n\n")
			r := runBatch(t, dir, "", append([]string{"in.jsonl", "-o", "out.jsonl", "--upstream", u.URL, "--rpm", "100"}, test.flags...)...)
			if r.status != 0 {
				t.Fatalf("status %d: %s", r.status, r.stderr)
			}
			got := u.last(t)
			if got.URI != test.uri || got.Header.Get(test.header) != test.value || got.Body != test.body {
				t.Errorf("the upstream got %+v", got)
			}
			if version := got.Header.Get("Anthropic-Version"); (version != "") != (test.header == "X-Api-Key") {
				t.Errorf("anthropic-version %q", version)
			}
			want := `{"id":"batch_req_1","custom_id":"` + test.id + `","response":{"status_code":200,"request_id":"req-1",` +
				`"body":{"id":"a","usage":{"prompt_tokens":5,"completion_tokens":3},"key":"[key]"}},"error":null}` + "\n"
			if out := take(t, dir, "out.jsonl"); out != want {
				t.Errorf("OUT is %s", out)
			}
			noKey(t, dir, r)
		})
	}
}

// IN may be stdin, compressed, or both.
func TestBatchInputs(t *testing.T) {
	u := provider(t, nil)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	io.WriteString(z, chatLines(20)) //nolint:errcheck // into memory
	z.Close()
	for _, test := range []struct{ name, in, stdin string }{
		{"gzip", "in.jsonl.gz", ""}, {"stdin", "-", chatLines(20)}, {"both", "-", zipped.String()},
	} {
		dir := t.TempDir()
		put(t, dir, "in.jsonl.gz", zipped.String())
		r := runBatch(t, dir, test.stdin, test.in, "-o", "out.jsonl", "--upstream", u.URL, "--rpm", "100")
		if got := ids(t, take(t, dir, "out.jsonl")); r.status != 0 || len(got) != 20 {
			t.Errorf("%s: status %d, %d lines, %s", test.name, r.status, len(got), r.stderr)
		}
		r = runBatch(t, dir, test.stdin, test.in, "-o", "-", "--upstream", u.URL, "--rpm", "100", "--progress", "json")
		if got := ids(t, r.stdout); r.status != 0 || len(got) != 20 {
			t.Errorf("%s to stdout: status %d, %d lines, %s", test.name, r.status, len(got), r.stderr)
		}
		for line := range strings.Lines(r.stderr) {
			if !json.Valid([]byte(line)) {
				t.Errorf("progress: %q", line)
			}
		}
	}
}

// A line that cannot be sent is one error; the file of errors has it, and is valid input, in which
// the error is ignored.
func TestBatchBadLines(t *testing.T) {
	broken := true
	u := provider(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		if broken && strings.Contains(string(body), `"bad"`) {
			w.WriteHeader(400)
			io.WriteString(w, `{"error":{"message":"no `+batchKey+`"}}`) //nolint:errcheck // the test sees it
			return
		}
		io.WriteString(w, answers) //nolint:errcheck // the test sees it
	})
	lines := []string{
		chatLine("good"),
		`not json "`,
		`{"custom_id":"bad","url":"/v1/chat/completions","body":` + chat("bad") + `,"error":{"code":"old"}}`,
		`{"custom_id":"elsewhere","method":"POST","url":"https://evil.test/v1/chat/completions","body":` + chat("m") + `}`,
		`{"custom_id":"also","method":"POST","url":"//evil.test/v1/chat/completions","body":` + chat("m") + `}`,
		`{"custom_id":"up","method":"POST","url":"/v1/%2e%2e/x/chat/completions","body":` + chat("m") + `}`,
		`{"custom_id":"get","method":"GET","url":"/v1/chat/completions","body":` + chat("m") + `}`,
		`{"custom_id":"streamed","url":"/v1/chat/completions","body":{"model":"m","stream":true}}`,
		`{"custom_id":"uncounted","url":"/v1/unheard/of","body":{"model":"m"}}`,
		`{"custom_id":"key","url":"/v1/chat/completions","body":{"model":"m","x":"` + batchKey + `"}}`,
		`{"custom_id":"large","url":"/v1/chat/completions","body":{"model":"m","max_tokens":5000,"messages":[]}}`,
		`{"custom_id":7,"body":{}}`, `[]`, `{"body":{}}`,
		chatLine("last"),
	}
	dir := t.TempDir()
	put(t, dir, "in.jsonl", strings.Join(lines, "\n"))
	flags := []string{"-o", "out.jsonl", "--errors", "errors.jsonl", "--upstream", u.URL, "--rpm", "100", "--tpm", "4000"}
	r := runBatch(t, dir, "", append([]string{"in.jsonl"}, flags...)...)
	if got := ids(t, take(t, dir, "out.jsonl")); r.status != 1 || len(got) != 2 {
		t.Errorf("status %d, OUT has %q: %s", r.status, got, r.stderr)
	}
	if n := len(u.requests()); n != 3 {
		t.Errorf("the upstream got %d calls", n)
	}
	noKey(t, dir, r)
	codes := make(map[string]int)
	failed := take(t, dir, "errors.jsonl")
	for line := range strings.Lines(failed) {
		var e struct {
			Error struct {
				Code string
				Line int
			}
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Error.Line < 2 || e.Error.Line > 14 {
			t.Errorf("%v in %s", err, line)
		}
		codes[e.Error.Code]++
	}
	if fmt.Sprint(codes) != "map[bad_line:10 http_400:1 never_fits:1 uncounted:1]" {
		t.Errorf("codes %v in\n%s", codes, failed)
	}
	var s struct {
		Lines, Done, Failed, Left int
		BadLines                  int `json:"bad_lines"`
	}
	if err := json.Unmarshal([]byte(r.stdout), &s); err != nil || s.Lines != 15 || s.Done != 2 || s.Failed != 13 || s.Left != 0 || s.BadLines != 10 {
		t.Errorf("%v, summary %s", err, r.stdout)
	}

	broken = false
	again := t.TempDir()
	put(t, again, "in.jsonl", failed)
	r = runBatch(t, again, "", append([]string{"in.jsonl"}, flags...)...)
	if got := ids(t, take(t, again, "out.jsonl")); r.status != 1 || len(got) != 1 || got[0] != "bad" {
		t.Errorf("the errors again: status %d, %q, %s", r.status, got, r.stderr)
	}
	if got, want := strings.Count(take(t, again, "errors.jsonl"), "\n"), 12; got != want {
		t.Errorf("%d errors of errors, want %d", got, want)
	}
	if got := u.last(t).Body; got != chat("bad") {
		t.Errorf("sent %s", got)
	}

	// The same OUT again: what failed is tried again, and what is done is not.
	r = runBatch(t, dir, "", append([]string{"in.jsonl"}, flags...)...)
	if got := ids(t, take(t, dir, "out.jsonl")); r.status != 1 || len(got) != 3 || len(u.requests()) != 5 {
		t.Errorf("status %d, %q, %d calls: %s", r.status, got, len(u.requests()), r.stderr)
	}
}

// What would mix two batches is refused before anything is sent.
func TestBatchRefused(t *testing.T) {
	u := provider(t, nil)
	refused := func(dir, want string, flags ...string) {
		t.Helper()
		before := take(t, dir, "out.jsonl")
		calls := len(u.requests())
		r := runBatch(t, dir, "", append([]string{"in.jsonl", "-o", "out.jsonl", "--upstream", u.URL, "--rpm", "1000"}, flags...)...)
		if r.status != 2 || !regexp.MustCompile(want).MatchString(r.stderr) || len(u.requests()) != calls || take(t, dir, "out.jsonl") != before {
			t.Errorf("status %d, %d calls: %s", r.status, len(u.requests())-calls, r.stderr)
		}
	}
	passes := func(dir string, want int, flags ...string) {
		t.Helper()
		r := runBatch(t, dir, "", append([]string{"in.jsonl", "-o", "out.jsonl", "--upstream", u.URL, "--rpm", "1000"}, flags...)...)
		if got := len(ids(t, take(t, dir, "out.jsonl"))); r.status != 0 || got != want {
			t.Errorf("status %d, %d lines: %s", r.status, got, r.stderr)
		}
	}
	dir := t.TempDir()
	put(t, dir, "in.jsonl", chatLines(3)+chatLine("id-1"))
	refused(dir, `line 4: the custom_id "id-1" has been there before`)
	put(t, dir, "in.jsonl", chatLines(3))
	refused(dir, "where should answers go", "-o", "")
	refused(dir, "three files", "--errors", "./in.jsonl")
	refused(dir, "three files", "--errors", "out.jsonl")
	refused(dir, "TEST_UNSET is empty", "--key-env", "TEST_UNSET")
	refused(dir, "neither https", "--upstream", "http://example.com")
	refused(dir, "dollars", "--max-cost", "much")
	refused(dir, "want auto", "--progress", "loud")
	refused(dir, "begin with one slash", "--url", "v1/x")
	passes(dir, 3)
	refused(dir, "three files", "--errors", "./out.jsonl")
	put(t, dir, "in.jsonl", chatLines(5)) // it has grown
	passes(dir, 5)
	put(t, dir, "in.jsonl", strings.Replace(chatLines(5), "hello", "hallo", 1))
	refused(dir, "was changed since")
	put(t, dir, "in.jsonl", chatLines(4))
	refused(dir, "was changed since")
	if err := os.Remove(filepath.Join(dir, "out.jsonl.ratelimit")); err != nil {
		t.Fatal(err)
	}
	refused(dir, "nobody knows of which input")
	passes(dir, 4, "--fresh")
	if kept, _ := filepath.Glob(filepath.Join(dir, "out.jsonl.before-*")); len(kept) != 1 || len(ids(t, take(t, "", kept[0]))) != 5 {
		t.Errorf("moved away: %q", kept)
	}
	put(t, dir, "out.jsonl", take(t, dir, "out.jsonl")+"{\"foreign\": 1}\n")
	refused(dir, "line 5 is no result")
}

// A line that was not written to its end is cut, and sent again.
func TestBatchTornLine(t *testing.T) {
	u := provider(t, nil)
	dir := t.TempDir()
	put(t, dir, "in.jsonl", chatLines(10))
	flags := []string{"in.jsonl", "-o", "out.jsonl", "--upstream", u.URL, "--rpm", "1000", "--ordered"}
	if r := runBatch(t, dir, "", flags...); r.status != 0 {
		t.Fatal(r.stderr)
	}
	whole := take(t, dir, "out.jsonl")
	for _, cut := range []int{1, 10, len(whole) / 2, len(whole) - 5, len(whole)} {
		put(t, dir, "out.jsonl", whole[:len(whole)-cut])
		if r := runBatch(t, dir, "", flags...); r.status != 0 {
			t.Fatal(r.stderr)
		}
		if got := take(t, dir, "out.jsonl"); got != whole {
			t.Errorf("%d bytes cut: OUT is\n%s", cut, got)
		}
	}
}

// After a signal no further line is taken, and what is sent comes to its end; the rest is sent the
// next time.
func TestBatchSignals(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		g := newGate()
		u := provider(t, g.handle)
		dir := t.TempDir()
		put(t, dir, "in.jsonl", chatLines(8))
		flags := []string{"in.jsonl", "-o", "out.jsonl", "--errors", "errors.jsonl", "--upstream", u.URL, "--in-flight", "2"}
		r, said := startBatch(t, dir, flags...)
		wait(t, g.came, "first call")
		wait(t, g.came, "second call")
		if other := runBatch(t, dir, "", flags...); other.status != 2 || !strings.Contains(other.stderr, "another process writes it") {
			t.Errorf("beside another one: status %d, %s", other.status, other.stderr)
		}
		if err := r.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		said.waitFor(t, "stopping")
		g.open <- struct{}{} // a call may have been sent in the same moment, so not all at once
		g.open <- struct{}{}
		for strings.Count(take(t, dir, "out.jsonl"), "\n") < 2 {
		}
		close(g.open)
		r.Wait() //nolint:errcheck // its status is looked at
		if got := r.ProcessState.ExitCode(); got != 128+int(signal) {
			t.Errorf("%v: status %d: %s", signal, got, said)
		}
		if got := ids(t, take(t, dir, "out.jsonl")); len(got) > 4 || len(got) != len(u.requests()) || take(t, dir, "errors.jsonl") != "" {
			t.Errorf("%v: OUT has %q of %d calls", signal, got, len(u.requests()))
		}
		if r := runBatch(t, dir, "", flags...); r.status != 0 || len(ids(t, take(t, dir, "out.jsonl"))) != 8 || len(u.requests()) != 8 {
			t.Errorf("%v: status %d, %d calls: %s", signal, r.status, len(u.requests()), r.stderr)
		}
	}
}

// A second signal ends the program at once, and what was answered is not lost; so it is for a
// program that a script has started with "&", which ignores SIGINT.
func TestBatchSecondSignal(t *testing.T) {
	t.Run("as from a terminal", func(t *testing.T) { testSecondSignal(t, false) })
	t.Run("as from a script", func(t *testing.T) { testSecondSignal(t, true) })
}

func testSecondSignal(t *testing.T, ignored bool) {
	g := newGate()
	u := provider(t, g.handle)
	dir := t.TempDir()
	put(t, dir, "in.jsonl", chatLines(8))
	cmd := command(t, "batch", "in.jsonl", "-o", "out.jsonl", "--upstream", u.URL, "--in-flight", "2")
	if ignored {
		script := exec.Command("sh", append([]string{"-c", `trap "" INT; exec "$0" "$@"`}, cmd.Args...)...)
		script.Env, cmd = cmd.Env, script
	}
	cmd, said := startCommand(t, dir, cmd)
	for range 2 {
		wait(t, g.came, "call")
	}
	g.open <- struct{}{}
	wait(t, g.came, "third call")
	for strings.Count(take(t, dir, "out.jsonl"), "\n") < 1 {
	}
	for _, pattern := range []string{"stopping", ""} {
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		said.waitFor(t, pattern)
	}
	cmd.Wait() //nolint:errcheck // its status is looked at
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !ignored && status.Signal() != syscall.SIGINT || ignored && status.ExitStatus() != 130 {
		t.Errorf("%v: %s", cmd.ProcessState, said)
	}
	if got := ids(t, take(t, dir, "out.jsonl")); len(got) != 1 {
		t.Errorf("OUT has %q", got)
	}
}
