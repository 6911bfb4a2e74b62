package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
	"dappco.re/go/core/go-ratelimit/llmhttp"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// TestMain lets the test binary be a gateway, as run starts itself as one.
func TestMain(m *testing.M) {
	logging.Disable()
	if len(os.Args) > 1 && os.Args[1] == gatewayArg {
		os.Exit(gatewayStatus())
	}
	os.Exit(m.Run())
}

// TestRun runs the program as a user would.
func TestRun(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), config{length: minLength}, &out); err != nil {
		t.Fatalf("%v:\n%s", err, &out)
	}
	for _, want := range []string{"Three tenants call a gateway", "verdict   PASS", "it refused 0 with 429"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, &out)
		}
	}
}

// TestTwoProcesses has two processes that share a server, in which they leave nothing.
func TestTwoProcesses(t *testing.T) {
	url := startRedis(t)
	var out bytes.Buffer
	if err := run(t.Context(), config{length: minLength, redis: url}, &out); err != nil {
		t.Fatalf("%v:\n%s", err, &out)
	}
	for _, want := range []string{"2 processes of a gateway", "verdict   PASS"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, &out)
		}
	}
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	defer client.Close()
	if keys, err := client.Keys(t.Context(), "*").Result(); err != nil || len(keys) > 0 {
		t.Errorf("left in Redis: %q, %v", keys, err)
	}
}

// startRedis starts a server that ends with the test, and returns its URL.
func startRedis(t *testing.T) string {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().(*net.TCPAddr)
	listener.Close()
	command := exec.Command(program, "--port", strconv.Itoa(address.Port), "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no", "--dir", t.TempDir())
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		command.Process.Kill()
		command.Wait()
	})
	client := redis.NewClient(&redis.Options{Addr: address.String(), MaxRetries: -1})
	defer client.Close()
	for end := time.Now().Add(10 * time.Second); client.Ping(t.Context()).Err() != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("redis-server does not answer")
		}
	}
	return "redis://" + address.String()
}

// TestGateway has calls that are no load.
func TestGateway(t *testing.T) {
	var got *http.Request
	status := http.StatusOK
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		io.WriteString(w, `{"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":5}}`)
	}))
	defer upstream.Close()
	g, err := newGateway(t.Context(), settings{
		Upstream: upstream.URL, APIKey: "sk-ours", Tenants: map[string]string{"sk-1": "one"},
		Quota: ratelimit.ModelQuota{MaxRPM: 100, MaxTPM: 100_000}, RPM: 4, TPM: 1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer g.close(t.Context())
	ask := func(key string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("Accept-Encoding", "gzip")
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		return w
	}
	if w := ask("sk-unknown"); w.Code != 401 || got != nil {
		t.Errorf("an unknown key: %d, %v", w.Code, got)
	}
	// Each call holds 313 tokens and uses 25, of 1,000: not for the estimates would three fit.
	for i, want := range []int{200, 200, 200, 200, 429} {
		w := ask("sk-1")
		if w.Code != want {
			t.Fatalf("call %d: %d %s", i, w.Code, w.Body)
		}
		if policy := w.Header().Get("RateLimit-Policy"); policy != `"requests";q=4;w=60, "tokens";q=1000;w=60;qu="tokens"` {
			t.Errorf("%q", policy)
		}
	}
	refused := llmhttp.Classify(ask("sk-1").Result())
	if refused == nil || refused.Kind != llmhttp.RateLimited || refused.RetryAfter <= 0 {
		t.Errorf("the tenant's own Transport would take a refusal for %+v", refused)
	}
	if got.Header.Get("Authorization") != "Bearer sk-ours" || strings.Contains(fmt.Sprint(got.Header), "sk-1") {
		t.Errorf("the provider got %v", got.Header)
	}
	if stats := g.quota.Stats("m"); stats.RPM != 4 || stats.TPM != 100 {
		t.Errorf("our quota: %+v", stats)
	}
}

// TestVerdict has tenants that are not treated as they should be.
func TestVerdict(t *testing.T) {
	quiet, flood := counts{sent: 5, answered: 5}, counts{sent: 50, answered: 5, refused: 45}
	for _, test := range []struct {
		name                string
		flood, first, other counts
		calls               int
		tokens              int // of each call
		refuse              int // from this call on
		err                 string
	}{
		{"as it should be", flood, quiet, quiet, 15, 100, 99, ""},
		{"a quiet one was refused", flood, counts{sent: 6, answered: 5, refused: 1}, quiet, 15, 100, 99, "quiet-1 was refused 1 times"},
		{"a quiet one failed", flood, quiet, counts{sent: 6, answered: 5, failed: 1}, 15, 100, 99, "quiet-2: 1 calls failed"},
		{"a quiet one was not served", flood, counts{}, quiet, 10, 100, 99, "quiet-1 got no answer"},
		{"the flood was not refused", quiet, quiet, quiet, 15, 100, 99, "flood was never refused"},
		{"the flood used too much", flood, quiet, quiet, 15, 20_000, 99, "the flood used 300,000 tokens"},
		{"the provider refused", flood, quiet, quiet, 16, 100, 15, "the provider refused 1 call"},
		{"other counts", flood, quiet, quiet, 14, 100, 99, "got 15 answers, the provider gave 14"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			s := &show{out: &out, tenants: newTenants(), began: time.Now(), provider: fakeprovider.New(fakeprovider.Options{
				Answer: func(*fakeprovider.Call) fakeprovider.Answer {
					return fakeprovider.Answer{Usage: fakeprovider.Usage{Prompt: test.tokens - 1, Output: 1}}
				},
			}, map[string]fakeprovider.Config{model: {Limits: fakeprovider.Limits{fakeprovider.RPM: test.refuse, fakeprovider.TPM: 1 << 20}}})}
			for range test.calls {
				s.provider.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v1/chat/completions",
					strings.NewReader(`{"model":"`+model+`","messages":[{"role":"user","content":"hi"}]}`)))
			}
			for i, c := range []counts{test.flood, test.first, test.other} {
				s.tenants[i].c = c
			}
			err := s.report()
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("error %v, want %q", err, test.err)
			}
			if pass := strings.Contains(out.String(), "PASS"); pass != (test.err == "") {
				t.Errorf("output:\n%s", &out)
			}
		})
	}
}

func TestParseFlags(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string // of the error; empty for none
	}{
		{nil, ""},
		{[]string{"-for", "2m", "-redis", "redis://localhost"}, ""},
		{[]string{"-for", "1s"}, "-for is 1s, want at least 5s"},
		{[]string{"now"}, `unexpected argument "now"`},
	} {
		_, err := parseFlags(test.args, io.Discard)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%q: error %v, want %q", test.args, err, test.want)
		}
	}
}

// TestRedisThatCannotBeUsed has URLs of no server.
func TestRedisThatCannotBeUsed(t *testing.T) {
	for _, url := range []string{"redis://127.0.0.1:1", "http://localhost"} {
		if err := run(t.Context(), config{length: minLength, redis: url}, io.Discard); err == nil || errors.Is(err, errInterrupted) {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestVerdictOfTwoProcesses has a flood that used more than its quota.
func TestVerdictOfTwoProcesses(t *testing.T) {
	for _, test := range []struct {
		flood int // tokens
		want  string
	}{
		{40_000, "the flood stayed in its quota"},
		{40_001, "the flood exceeded its quota within the bound"},
		{47_201, "FAIL"},
	} {
		var out bytes.Buffer
		tokens := test.flood
		s := &show{out: &out, tenants: newTenants(), gateways: make([]string, 2), provider: fakeprovider.New(fakeprovider.Options{
			Answer: func(*fakeprovider.Call) fakeprovider.Answer {
				return fakeprovider.Answer{Usage: fakeprovider.Usage{Prompt: tokens - 1, Output: 1}}
			},
		}, map[string]fakeprovider.Config{model: {Limits: fakeprovider.Limits{fakeprovider.RPM: 9, fakeprovider.TPM: 1 << 20}}})}
		for _, tenant := range s.tenants { // each calls once, the flood first
			s.provider.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v1/chat/completions",
				strings.NewReader(`{"model":"`+model+`","messages":[{"role":"user","content":"hi"}]}`)))
			tenant.c = counts{sent: 1, answered: 1}
			tokens = 100
		}
		s.tenants[0].c.refused = 1
		s.report()
		if got := out.String(); !strings.Contains(got, "at most 7,200 more") || !strings.Contains(got, test.want) {
			t.Errorf("%d tokens:\n%s", test.flood, got)
		}
	}
}
