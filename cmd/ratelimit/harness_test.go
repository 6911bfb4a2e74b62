package main_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// binary is the program, built once for all tests.
var binary string

func TestMain(m *testing.M) {
	if to := os.Getenv(reverseEnv); to != "" {
		serveReverse(to)
	}
	if runtime.GOOS == "windows" {
		fmt.Println("left out on Windows: the tests end the program with signals")
		return
	}
	folder, err := os.MkdirTemp("", "ratelimit-program-")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(folder, "ratelimit")
	build := []string{"build", "-o", binary}
	if racetest.Factor > 1 {
		build = append(build, "-race")
	}
	out, err := exec.Command("go", append(build, ".")...).CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		os.Exit(1)
	}
	status := m.Run()
	os.RemoveAll(folder)
	os.Exit(status)
}

// command is the program with arguments, as a user with an empty home would start it.
func command(t testing.TB, arguments ...string) *exec.Cmd {
	cmd := exec.Command(binary, arguments...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "CORE_HOME=", "REDIS_URL=")
	return cmd
}

// run runs the program to its end.
func run(t testing.TB, arguments ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, diagnostics bytes.Buffer
	cmd := command(t, arguments...)
	cmd.Stdout, cmd.Stderr = &out, &diagnostics
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), diagnostics.String()
}

// output is what a process has written so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{} // closed at the next write
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.more != nil {
		close(o.more)
		o.more = nil
	}
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// waitFor returns the groups of the first match.
func (o *output) waitFor(t testing.TB, pattern string) []string {
	t.Helper()
	want := regexp.MustCompile(pattern)
	late := time.After(patience)
	for {
		o.mu.Lock()
		found := want.FindStringSubmatch(o.text.String())
		if o.more == nil {
			o.more = make(chan struct{})
		}
		more := o.more
		o.mu.Unlock()
		if found != nil {
			return found
		}
		select {
		case <-more:
		case <-late:
			t.Fatalf("no %s in:\n%s", pattern, o)
		}
	}
}

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

// proxied is a proxy that runs.
type proxied struct {
	t          testing.TB
	cmd        *exec.Cmd
	url, admin string
	token      string // of an operator, where the proxy wants one
	log        *output
	via        http.Client // to the admin port
	ended      chan struct{}
}

// start starts a proxy, with a database of its own unless the flags name one.
func start(t testing.TB, flags ...string) *proxied {
	t.Helper()
	return startWith(t, nil, flags...)
}

// startWith is start with variables of the environment.
func startWith(t testing.TB, variables []string, flags ...string) *proxied {
	t.Helper()
	all := append([]string{"proxy"}, flags...)
	joined := " " + strings.Join(flags, " ")
	for _, more := range [][2]string{
		{"--listen", "127.0.0.1:0"}, {"--admin", "127.0.0.1:0"}, {"--db", filepath.Join(t.TempDir(), "shared.db")},
	} {
		if !strings.Contains(joined, " "+more[0]) && !(more[0] == "--db" && strings.Contains(joined, " --redis")) {
			all = append(all, more[:]...)
		}
	}
	p := &proxied{t: t, cmd: command(t, all...), log: &output{}, ended: make(chan struct{})}
	p.cmd.Env = append(p.cmd.Env, variables...)
	p.cmd.Stderr, p.cmd.Stdout = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.cmd.Wait() //nolint:errcheck // its status is asked for
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.cmd.Process.Kill() //nolint:errcheck // it may have ended
		<-p.ended
		if t.Failed() {
			t.Logf("the proxy said:\n%s", p.log)
		}
	})
	found := p.log.waitFor(t, `ratelimit: (https?://[^/ ]+)[^;\n]*(?:; admin (\S+))?\n`)
	p.url, p.admin = found[1], found[2]
	return p
}

// stop ends the proxy with a signal, and returns its status.
func (p *proxied) stop(signal syscall.Signal) int {
	p.t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		p.t.Fatal(err)
	}
	return p.status()
}

// status waits for the end of the proxy.
func (p *proxied) status() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatal("the proxy does not end")
	}
	return p.cmd.ProcessState.ExitCode()
}

// waiting waits until so many calls stand in line.
func (p *proxied) waiting(want int) {
	p.t.Helper()
	pattern := regexp.MustCompile(`(?m)^ratelimit_queued_requests\{.*\} (\d+)$`)
	for late := time.Now().Add(patience); ; {
		metrics := p.metrics()
		total := 0
		for _, found := range pattern.FindAllStringSubmatch(metrics, -1) {
			var n int
			fmt.Sscan(found[1], &n) //nolint:errcheck // digits
			total += n
		}
		if total == want {
			return
		}
		if time.Now().After(late) {
			p.t.Fatalf("%d calls wait, want %d", total, want)
		}
	}
}

// metrics returns what the proxy tells Prometheus.
func (p *proxied) metrics() string {
	p.t.Helper()
	resp, err := p.via.Do(request(p.t, http.MethodGet, p.admin+"/metrics", "", "X-Ratelimit-Token", p.token))
	if err != nil {
		p.t.Fatal(err)
	}
	return read(p.t, resp)
}

// tells waits until a metric is told.
func (p *proxied) tells(pattern string) {
	p.t.Helper()
	want := regexp.MustCompile("(?m)^" + pattern + "$")
	for late := time.Now().Add(patience); ; {
		metrics := p.metrics()
		if want.MatchString(metrics) {
			return
		}
		if time.Now().After(late) {
			name, _, _ := strings.Cut(pattern, `\{`)
			p.t.Fatalf("no %s in %s", pattern, regexp.MustCompile(`(?m)^`+name+`.*$`).FindAllString(metrics, -1))
		}
	}
}

// get gets a page.
func get(t testing.TB, url string) (status int, body string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, read(t, resp)
}

// read reads an answer to its end.
func read(t testing.TB, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// chat is the body of a call to OpenAI's API.
func chat(model string) string {
	return fmt.Sprintf(`{"model":%q,"max_tokens":10,"messages":[{"role":"user","content":"hello"}]}`, model)
}

// post sends a call.
func post(t testing.TB, url, body string, headers ...string) *http.Response {
	t.Helper()
	resp, err := http.DefaultClient.Do(request(t, http.MethodPost, url, body, headers...))
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// request makes a request with headers, as names and values in turn.
func request(t testing.TB, method, url, body string, headers ...string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	return req
}

// received is what an upstream got.
type received struct {
	Method, URI, Host string
	Header            http.Header
	Trailer           http.Header
	Body              string
	Framing           string // how the body was framed
}

// upstream is a provider that remembers what it got.
type upstream struct {
	*httptest.Server
	mu  sync.Mutex
	got []received
}

// answers is a plain answer of OpenAI's API.
const answers = `{"id":"a","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},` +
	`"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":3,"total_tokens":8}}`

// provider starts an upstream; without a handler it answers calls.
func provider(t testing.TB, handler http.HandlerFunc) *upstream {
	u := &upstream{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		u.mu.Lock()
		u.got = append(u.got, received{
			r.Method, r.RequestURI, r.Host, r.Header.Clone(), r.Trailer.Clone(), string(body),
			fmt.Sprint(r.ContentLength, r.TransferEncoding),
		})
		u.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		if handler != nil {
			handler(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, answers) //nolint:errcheck // the test sees what is missing
	}))
	t.Cleanup(u.CloseClientConnections)
	t.Cleanup(u.Close)
	return u
}

// requests returns what the upstream got so far.
func (u *upstream) requests() []received {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]received(nil), u.got...)
}

// last returns what the upstream got last.
func (u *upstream) last(t testing.TB) received {
	t.Helper()
	all := u.requests()
	if len(all) == 0 {
		t.Fatal("the upstream got nothing")
	}
	return all[len(all)-1]
}

// gate is an upstream's handler that answers each call when it is let go.
type gate struct {
	came chan struct{} // a call is there
	open chan struct{} // one call may be answered for each value, all once it is closed
}

func newGate() *gate { return &gate{make(chan struct{}, 10_000), make(chan struct{}, 10_000)} }

func (g *gate) handle(w http.ResponseWriter, r *http.Request) {
	g.came <- struct{}{}
	select {
	case <-g.open:
	case <-r.Context().Done():
		return
	}
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, answers) //nolint:errcheck // as above
}

// wait waits for a value that must come.
func wait[T any](t testing.TB, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("no %s", what)
		panic("unreachable")
	}
}
func file(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// tokenFile writes a file of clients.
func tokenFile(t testing.TB, text string) string {
	t.Helper()
	return file(t, "tokens", text)
}
