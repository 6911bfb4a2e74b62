//go:build !nosqlite

package llmhttp_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// What a killed process had under way was counted by the provider when it arrived, so its charge
// must not leave the minute sooner: else the next call comes less than a minute after it.
func TestSharedCallOfAKilledProcessIsDatedAtItsArrival(t *testing.T) {
	if os.Getenv("RATELIMIT_KNOWN") == "" {
		t.Skip("known defect: the charge stays dated at its admission. RATELIMIT_KNOWN=1 shows it")
	}
	open := func(path string) *ratelimit.RateLimiter {
		rl, err := ratelimit.NewWithConfig(ratelimit.Config{Backend: "sqlite", Shared: true, FilePath: path,
			Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 10}}})
		if err != nil {
			t.Fatal(err)
		}
		return rl
	}
	if url := os.Getenv("RATELIMIT_KILL_URL"); url != "" { // the process to be killed
		tr := &llmhttp.Transport{Limiter: open(os.Getenv("RATELIMIT_KILL_DB")), Base: base(func(req *http.Request) (*http.Response, error) {
			time.Sleep(200 * time.Millisecond) // a dial and a TLS handshake
			return http.DefaultTransport.RoundTrip(req)
		})}
		(&http.Client{Transport: tr}).Post(url+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"m","max_tokens":5}`))
		return
	}
	arrived := make(chan time.Time, 1)
	provider := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		io.Copy(io.Discard, req.Body)
		arrived <- time.Now()
		<-req.Context().Done()
	}))
	defer provider.Close()
	path := filepath.Join(t.TempDir(), "shared.db")
	other := open(path)
	defer other.Close()
	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), "RATELIMIT_KILL_URL="+provider.URL, "RATELIMIT_KILL_DB="+path)
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var counted time.Time
	select {
	case counted = <-arrived:
	case <-time.After(20 * time.Second):
		t.Error("the call did not arrive")
	}
	child.Process.Kill()
	child.Wait()
	time.Sleep(300 * time.Millisecond) // time to notice the death
	if s := other.Stats("m"); s.RPM != 1 {
		t.Fatalf("%d calls are charged, want 1", s.RPM)
	}
	if early := counted.Sub(other.State["m"].Requests[0]); early > 0 {
		t.Errorf("the charge is dated %v before the provider counted the call", early)
	}
}
