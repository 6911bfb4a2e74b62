package main_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// reverseEnv makes the test a plain reverse proxy to its address, beside which the program is
// measured.
const reverseEnv = "RATELIMIT_TEST_REVERSE"

func serveReverse(to string) {
	target, err := url.Parse(to)
	if err != nil {
		panic(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	panic(http.Serve(l, &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, FlushInterval: -1}))
}

// reverse starts a plain reverse proxy as a process.
func reverse(t testing.TB, to string) (url string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	said := &output{}
	cmd := exec.Command(self)
	cmd.Env, cmd.Stdout = append(os.Environ(), reverseEnv+"="+to), said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck // it lives until then
		cmd.Wait()         //nolint:errcheck // it was killed
	})
	return "http://" + said.waitFor(t, `(\S+)\n`)[1]
}

// measured leaves out what tells figures of a machine, which are for a quiet one.
func measured(t *testing.T) {
	t.Helper()
	if os.Getenv("RATELIMIT_LONG") == "" {
		t.Skip("measures: RATELIMIT_LONG=1 on a quiet machine")
	}
}

// resident returns a number of kilobytes that the system tells of a process.
func (p *proxied) resident(field string) int {
	p.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Skip("no /proc")
	}
	found := regexp.MustCompile(field + `:\s+(\d+) kB`).FindSubmatch(status)
	n, err := strconv.Atoi(string(found[1]))
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

// The time to the first answer, memory without calls, and the size of what is installed.
func TestFigureStart(t *testing.T) {
	measured(t)
	stripped := filepath.Join(t.TempDir(), "ratelimit")
	if out, err := exec.Command("go", "build", "-ldflags", "-s -w", "-o", stripped, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	info, err := os.Stat(stripped)
	if err != nil {
		t.Fatal(err)
	}
	u := provider(t, nil)
	var times []time.Duration
	var memory int
	for range 20 {
		began := time.Now()
		p := start(t, "--upstream", u.URL, "--rpm", "10")
		get(t, p.admin+"/healthz")
		times = append(times, time.Since(began))
		memory = max(memory, p.resident("VmRSS"))
		p.cmd.Process.Kill() //nolint:errcheck // it lives
		<-p.ended
	}
	slices.Sort(times)
	t.Logf("start: median %v, worst %v; idle: %.1f MB; stripped: %.1f MB",
		times[len(times)/2], times[len(times)-1], float64(memory)/1000, float64(info.Size())/1e6)
	if times[len(times)/2] > 80*time.Millisecond || memory > 30_000 || info.Size() > 32<<20 {
		t.Error("more than promised")
	}
}

// The latency that the proxy adds at the median, in turns with a plain reverse proxy.
func TestFigureLatency(t *testing.T) {
	measured(t)
	u := provider(t, nil)
	streams := provider(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: {}\n\n") //nolint:errcheck // measured
	})
	for _, of := range []struct {
		name string
		u    *upstream
	}{{"answer", u}, {"first byte of a stream", streams}} {
		ways := []string{reverse(t, of.u.URL), start(t, "--upstream", of.u.URL, "--rpm", "1000000", "--log-level", "warn").url}
		times := make([][]time.Duration, len(ways))
		for i := range 4000 {
			way := i % len(ways)
			began := time.Now()
			resp := post(t, ways[way]+"/v1/chat/completions", chat("m"))
			io.ReadFull(resp.Body, make([]byte, 1)) //nolint:errcheck // the answer has one
			took := time.Since(began)
			read(t, resp)
			if i >= 200 {
				times[way] = append(times[way], took)
			}
		}
		for _, of := range times {
			slices.Sort(of)
		}
		plain, ours := times[0][len(times[0])/2], times[1][len(times[1])/2]
		t.Logf("%s: %v plain, %v ours: %v added", of.name, plain, ours, ours-plain)
		if ours-plain > 300*time.Microsecond {
			t.Errorf("%s: more than 0.3 ms", of.name)
		}
	}
}

// What calls that wait need, without the pages of the program's file, which lie in the cache.
func TestFigureWaiting(t *testing.T) {
	measured(t)
	for _, test := range []struct{ calls, size, most int }{ // most in kB
		{1000, 4 << 10, 60_000}, {100, 1 << 20, 100 << 10 * 12 / 10},
	} {
		g := newGate()
		u := provider(t, g.handle)
		p := start(t, "--upstream", u.URL, "--in-flight", "1", "--log-level", "warn")
		first := asking(t.Context(), t, p.url, chat("m"))
		wait(t, g.came, "first call")
		before := p.resident("RssAnon")
		ctx, cancel := context.WithCancel(t.Context())
		body := fmt.Sprintf(`{"model":"m","stream":true,"max_tokens":10,"messages":[{"role":"user","content":%q}]}`, strings.Repeat("a ", test.size/2))
		for range test.calls {
			asking(ctx, t, p.url, body)
		}
		p.waiting(test.calls)
		used := p.resident("RssAnon")
		if test.size >= 1<<20 {
			used -= before // of the bodies alone
		}
		t.Logf("%d calls of %d bytes wait: %.1f MB, at most %.1f MB with the file", test.calls, test.size, float64(used)/1000, float64(p.resident("VmHWM"))/1000)
		if used > test.most {
			t.Errorf("more than %d kB", test.most)
		}
		cancel()
		p.waiting(0)
		close(g.open)
		wait(t, first, "first answer")
	}
}

// Calls of people beside a flood.
func TestFigureInteractive(t *testing.T) {
	measured(t)
	u := provider(t, nil)
	p := start(t, "--upstream", u.URL, "--rpm", "300", "--log-level", "warn")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var clients sync.WaitGroup
	ask := func(class string) (time.Duration, bool) {
		began := time.Now()
		req := request(t, "POST", p.url+"/v1/chat/completions", chat("m"), "X-Ratelimit-Class", class).WithContext(ctx)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, false
		}
		resp.Body.Close()
		return time.Since(began), resp.StatusCode == 200
	}
	ask("interactive") // so that something is kept for people from the beginning on
	for range 400 {
		clients.Go(func() {
			for ctx.Err() == nil {
				ask("batch")
			}
		})
	}
	var asked, soon atomic.Int64
	every := time.NewTicker(1500 * time.Millisecond)
	defer every.Stop()
	for ctx.Err() == nil {
		select {
		case <-every.C:
			clients.Go(func() {
				took, ok := ask("interactive")
				if ctx.Err() == nil {
					asked.Add(1)
				}
				if ok && took <= 2*time.Second {
					soon.Add(1)
				}
			})
		case <-ctx.Done():
		}
	}
	clients.Wait()
	share := float64(soon.Load()) / float64(asked.Load())
	t.Logf("%d of %d within 2 s: %.1f%%", soon.Load(), asked.Load(), 100*share)
	if share < 0.95 {
		t.Error("fewer than promised")
	}
}

// No sliding minute of the upstream has more calls than the quota, through kills and restarts.
func TestFigureKills(t *testing.T) {
	measured(t)
	const quota = 60
	var mu sync.Mutex
	var came []time.Time
	u := provider(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		came = append(came, time.Now())
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, answers) //nolint:errcheck // its client may be killed
	})
	db := filepath.Join(t.TempDir(), "q.db")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var clients sync.WaitGroup
	for range 20 {
		clients.Go(func() {
			for ctx.Err() == nil {
				req, err := http.NewRequestWithContext(ctx, "POST", "http://"+address+"/v1/chat/completions", bytes.NewReader([]byte(chat("m"))))
				if err != nil {
					return
				}
				if resp, err := http.DefaultClient.Do(req); err == nil {
					resp.Body.Close()
				}
			}
		})
	}
	kills := 0
	for ; ctx.Err() == nil; kills++ {
		p := start(t, "--upstream", u.URL, "--rpm", strconv.Itoa(quota), "--listen", address, "--db", db, "--log-level", "warn")
		select {
		case <-time.After(7 * time.Second):
		case <-ctx.Done():
		}
		p.cmd.Process.Kill() //nolint:errcheck // it lives
		<-p.ended
	}
	clients.Wait()
	worst := 0
	for i := range came {
		n := 0
		for _, at := range came[i:] {
			if at.Sub(came[i]) >= time.Minute {
				break
			}
			n++
		}
		worst = max(worst, n)
	}
	t.Logf("%d kills, %d calls, at most %d in a minute", kills, len(came), worst)
	if worst > quota || len(came) < 2*quota {
		t.Error("not as promised")
	}
}
