// Package npmtest has the SDKs of npm call through the proxy. It has tests alone, which run in the
// long form: they install the SDKs from npm, and take minutes.
package npmtest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

const (
	model = "shared-model"
	// Three clients want the whole quota each, for longer than a minute, so that the provider sees
	// what comes when its window slides.
	rpm   = 300
	every = time.Minute / rpm
	runs  = 72 * time.Second
)

var quota = ratelimit.ModelQuota{MaxRPM: rpm, MaxTPM: 100_000}

// Three clients want three times the quota of one proxy: the provider refuses none of their calls,
// and they use 99 percent of the quota or more.
func TestOneProxy(t *testing.T) {
	node := install(t)
	server := provider(t)
	proxy := startProxy(t, server.URL, filepath.Join(t.TempDir(), "quota.db"))
	judge(t, server, together(t,
		func() tally { return node.run("openai", proxy+"/v1") },
		func() tally { return node.run("anthropic", proxy) },
		func() tally { return goClient(t.Context(), http.DefaultClient, proxy) },
	))
}

// Two proxies and a Go program without one share the quota in a file.
func TestTwoProxiesAndTheLibrary(t *testing.T) {
	node := install(t)
	server := provider(t)
	db := filepath.Join(t.TempDir(), "quota.db")
	one, other := startProxy(t, server.URL, db), startProxy(t, server.URL, db)
	limiter, err := ratelimit.NewWithConfig(ratelimit.Config{
		Backend: "sqlite", FilePath: db, Shared: true,
		Quotas: map[string]ratelimit.ModelQuota{"*": quota},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer limiter.Close()
	judge(t, server, together(t,
		func() tally { return node.run("openai", one+"/v1") },
		func() tally { return node.run("anthropic", other) },
		func() tally {
			return goClient(t.Context(), &http.Client{Transport: &llmhttp.Transport{Limiter: limiter}}, server.URL)
		},
	))
}

// judge fails the test unless the provider refused nothing, and its quota was used.
func judge(t *testing.T, server *strict, tallies []tally) {
	t.Helper()
	answered, started := 0, 0
	for _, c := range tallies {
		t.Logf("%+v", c)
		if len(c.Errors) > 0 || c.Answered == 0 || c.Started != c.Answered+c.GaveUp {
			t.Errorf("%s: %+v", c.name, c)
		}
		answered, started = answered+c.Answered, started+c.Started
	}
	arrivals := server.Arrivals(model)
	if len(arrivals) == 0 {
		t.Fatal("no call arrived")
	}
	first, refused := 0, 0
	for _, a := range arrivals {
		if a.Refused {
			refused++
		} else if a.Time.Sub(arrivals[0].Time) < time.Minute {
			first++
		}
	}
	t.Logf("%d calls started, %d answered; upstream %d arrived, %d of %d (%.1f%%) in the first minute, %d refused with 429",
		started, answered, len(arrivals), first, rpm, 100*float64(first)/rpm, refused)
	if refused > 0 {
		t.Errorf("the provider refused %d calls", refused)
	}
	if first*100 < rpm*99 {
		t.Errorf("%d calls of %d in the first minute", first, rpm)
	}
	if len(arrivals) <= first {
		t.Error("nothing came in the second minute")
	}
	if answered > len(arrivals) {
		t.Errorf("%d calls were answered, and %d arrived", answered, len(arrivals))
	}
}

// strict is a provider that enforces the quota.
type strict struct {
	*fakeprovider.Server
	URL string
}

func provider(t *testing.T) *strict {
	t.Helper()
	server := fakeprovider.New(fakeprovider.Options{
		Answer: func(c *fakeprovider.Call) fakeprovider.Answer {
			a := fakeprovider.DefaultAnswer(c)
			a.Delay, a.Spread = 50*time.Millisecond, 200*time.Millisecond
			return a
		},
	}, map[string]fakeprovider.Config{model: {
		Limits: fakeprovider.Limits{fakeprovider.RPM: quota.MaxRPM, fakeprovider.TPM: quota.MaxTPM}, Count: fakeprovider.CountAdmission,
	}})
	listening := httptest.NewServer(server)
	t.Cleanup(listening.Close)
	return &strict{server, listening.URL}
}

// tally is how the calls of a client ended.
type tally struct {
	name                      string
	Started, Answered, GaveUp int
	Errors                    map[string]int
}

// together runs clients at the same time.
func together(t *testing.T, clients ...func() tally) []tally {
	t.Helper()
	tallies := make([]tally, len(clients))
	var all sync.WaitGroup
	for i, client := range clients {
		all.Go(func() { tallies[i] = client() })
	}
	all.Wait()
	return tallies
}

// node is a folder in which the SDKs are installed.
type node struct {
	t      *testing.T
	folder string
}

var installed struct {
	sync.Mutex
	folder string
}

// install installs the SDKs, once for all tests.
func install(t *testing.T) *node {
	t.Helper()
	if os.Getenv("RATELIMIT_LONG") == "" {
		t.Skip("installs packages of npm, and takes more than a minute: RATELIMIT_LONG=1 runs it")
	}
	for _, command := range []string{"node", "npm"} {
		if _, err := exec.LookPath(command); err != nil {
			t.Skip(err)
		}
	}
	installed.Lock()
	defer installed.Unlock()
	if installed.folder != "" {
		return &node{t, installed.folder}
	}
	folder := filepath.Join(suite, "npm")
	if err := os.CopyFS(folder, os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--cache", filepath.Join(suite, "cache"))
	cmd.Dir = folder
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm install: %v\n%s", err, output)
	}
	installed.folder = folder
	return &node{t, folder}
}

// run has an SDK call for a while.
func (n *node) run(sdk, url string) tally {
	cmd := exec.CommandContext(n.t.Context(), "node", "client.mjs", sdk,
		strconv.FormatFloat(runs.Seconds(), 'f', -1, 64), strconv.FormatInt(every.Milliseconds(), 10))
	cmd.Dir = n.folder
	cmd.Env = append(os.Environ(), "OPENAI_BASE_URL="+url, "OPENAI_API_KEY=sk-test", "ANTHROPIC_BASE_URL="+url, "ANTHROPIC_API_KEY=sk-ant-test")
	cmd.Stderr = n.t.Output()
	output, err := cmd.Output()
	result := tally{name: sdk}
	if err == nil {
		err = json.Unmarshal(output, &result)
	}
	if err != nil {
		n.t.Errorf("%s: %v: %s", sdk, err, output)
	}
	return result
}

// goClient starts a call each so often, for a while, and gives up what is open at the end.
func goClient(ctx context.Context, client *http.Client, url string) tally {
	ctx, cancel := context.WithTimeout(ctx, runs)
	defer cancel()
	result := tally{name: "go", Errors: make(map[string]int)}
	var mu sync.Mutex
	var all sync.WaitGroup
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for ctx.Err() == nil {
		result.Started++
		all.Go(func() {
			err := call(ctx, client, url)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				result.Answered++
			case ctx.Err() != nil:
				result.GaveUp++
			default:
				result.Errors[err.Error()]++
			}
		})
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	all.Wait()
	return result
}

func call(ctx context.Context, client *http.Client, url string) error {
	body := fmt.Sprintf(`{"model":%q,"max_tokens":40,"messages":[{"role":"user","content":"go asks"}]}`, model)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, text)
	}
	return err
}

// suite is a folder for what all tests use: the program, and the SDKs.
var suite string

func TestMain(m *testing.M) {
	status := func() int {
		folder, err := os.MkdirTemp("", "npmtest-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(folder)
		suite = folder
		return m.Run()
	}()
	os.Exit(status)
}

// startProxy starts the program on a free port, and returns its URL.
func startProxy(t *testing.T, upstream, db string) string {
	t.Helper()
	program := filepath.Join(suite, "ratelimit")
	if output, err := exec.Command("go", "build", "-o", program, "../..").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, output)
	}
	cmd := exec.Command(program, "proxy", "--upstream", upstream, "--rpm", strconv.Itoa(quota.MaxRPM), "--tpm", strconv.Itoa(quota.MaxTPM),
		"--db", db, "--listen", "127.0.0.1:0", "--admin", "", "--log-level", "warn")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewReader(stderr)
	line, err := said.ReadString('\n')
	url, _, _ := strings.Cut(strings.TrimPrefix(line, "ratelimit: "), " ")
	rest := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(said)
		rest <- string(text)
	}()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // it may have ended
		text := <-rest
		if err := cmd.Wait(); err != nil || text != "" {
			t.Errorf("the proxy ends with %v, and said:\n%s", err, text)
		}
	})
	if err != nil || !strings.HasPrefix(url, "http://") {
		t.Fatalf("the proxy does not start: %s", line)
	}
	return url
}
