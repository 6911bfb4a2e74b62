package llmhttp_test

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// The memory that an answer takes does not grow with it.
func TestMemoryOfLargeAnswers(t *testing.T) {
	const size = 16 << 20
	for _, test := range []struct {
		name, start, letter string
		status              int
		headers             []string
		retry               int
		hides               bool
	}{
		{"a line of a stream", `data: {"choices":[{"delta":{"content":"`, "x", 200, []string{"Content-Type: text/event-stream"}, 0, false},
		{"lines of a stream", ``, "data: {\"choices\":[]}\n\n", 200, []string{"Content-Type: text/event-stream"}, 0, false},
		{"a line, and the usage is hidden", `data: {"choices":[{"delta":{"content":"`, "x", 200, []string{"Content-Type: text/event-stream"}, 0, true},
		{"lines, and the usage is hidden", ``, "data: {\"choices\":[]}\n\n", 200, []string{"Content-Type: text/event-stream"}, 0, true},
		{"JSON", `{"a":"`, "x", 200, nil, 0, false},
		{"deep JSON", ``, "[", 200, nil, 0, false},
		{"an error", `{"error":{"message":"`, "x", 429, nil, 0, false},
		{"an error that may be repeated", `{"error":{"message":"`, "x", 500, nil, 1, false},
		{"zeros", "", "\x00", 200, nil, 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 1_000_000})
			first := true
			tr := &llmhttp.Transport{Limiter: rl, AddStreamUsage: test.hides, Retry: llmhttp.Retry{Max: test.retry}, Base: base(func(req *http.Request) (*http.Response, error) {
				if !first {
					return response(req, 400, ""), nil
				}
				first = test.retry == 0
				resp := response(req, test.status, "", test.headers...)
				resp.Body = struct {
					io.Reader
					io.Closer
				}{io.MultiReader(strings.NewReader(test.start), endlessBody(test.letter, size)), io.NopCloser(nil)}
				return resp, nil
			})}
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			resp, err := post(t, tr, chatURL, `{"model":"m","stream":true}`)
			if err != nil {
				t.Fatal(err)
			}
			piece := make([]byte, 32<<10)
			for {
				if _, err := resp.Body.Read(piece); err != nil {
					break
				}
			}
			runtime.ReadMemStats(&after)
			resp.Body.Close()
			if grown := after.TotalAlloc - before.TotalAlloc; grown > 4<<20 {
				t.Errorf("allocated %d KiB", grown>>10)
			}
			if s := rl.Stats("m"); s.InFlight != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// A body without GetBody is held once, up to MaxBody.
func TestMemoryOfRequests(t *testing.T) {
	rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 1_000_000})
	var peak uint64
	tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		peak = m.TotalAlloc
		io.Copy(io.Discard, req.Body)
		return response(req, 200, "{}"), nil
	})}
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	body := io.MultiReader(strings.NewReader(`{"model":"m","messages":"`), endlessBody("x", 200<<20), strings.NewReader(`"}`))
	req, _ := http.NewRequestWithContext(t.Context(), "POST", chatURL, body)
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	readAll(t, resp)
	t.Logf("allocated %d MiB", (peak-before.TotalAlloc)>>20)
	if peak-before.TotalAlloc > 100<<20 {
		t.Error("too much")
	}
}
