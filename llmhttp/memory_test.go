package llmhttp_test

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// Watching an answer allocates nothing that grows with the answer.
func TestMemoryOfLargeAnswers(t *testing.T) {
	const size, slack = 4 << 20, 1 << 20
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
			synctest.Test(t, func(t *testing.T) { // a retry waits
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
				if grown := after.TotalAlloc - before.TotalAlloc; grown > slack {
					t.Errorf("allocated %d KiB", grown>>10)
				}
				if s := rl.Stats("m"); s.InFlight != 0 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// The part of a body that was read takes no more memory than its bytes and a tenth. A body that is
// no JSON takes none.
func TestMemoryOfRequests(t *testing.T) {
	const (
		part  = min(racetest.Factor, 4)
		size  = 15<<20/part + 12_345 // of the body
		limit = 16 << 20 / part      // of the part that is read
		slack = 256 << 10            // scanner, buffers, net/http
	)
	chat := []string{`{"model":"m","stream":true,"messages":"`, `"}`}
	for _, test := range []struct {
		name        string
		contentType string
		around      []string // the long part of the body
		size        int64    // of the long part
		oneByOne    bool     // the body comes in small pieces
		addsUsage   bool
		kept        int64
	}{
		{"JSON", "application/json", chat, size, false, false, size},
		{"JSON in small pieces", "application/json", chat, 1 << 20, true, false, 1 << 20},
		{"JSON without a type", "", chat, size, false, false, size},
		{"JSON that is to report its usage", "application/json", chat, size, false, true, size},
		{"JSON over MaxBody", "application/json", chat, 64 << 20 / part, false, false, limit},
		{"multipart", "multipart/form-data; boundary=b", []string{"--b\r\n\r\n", "\r\n--b--"}, size, false, false, 0},
		{"multipart without a type", "", []string{"--b\r\n\r\n", "\r\n--b--"}, size, false, false, 32 << 10},
		{"no JSON, though it says so", "application/json", []string{"--b\r\n\r\n", "\r\n--b--"}, size, false, false, 32 << 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 1_000_000_000})
			var before, after runtime.MemStats
			tr := &llmhttp.Transport{
				Limiter: rl, AddStreamUsage: test.addsUsage, MaxBody: limit,
				Base: base(func(req *http.Request) (*http.Response, error) {
					runtime.GC()
					runtime.ReadMemStats(&after)
					n, err := io.Copy(io.Discard, req.Body)
					if want := test.size + int64(len(test.around[0])+len(test.around[1])); n < want || err != nil {
						t.Errorf("sent %d bytes of %d, %v", n, want, err)
					}
					return response(req, 200, "{}"), nil
				}),
			}
			long := io.Reader(endlessBody("x", test.size))
			if test.oneByOne {
				long = iotest.OneByteReader(long)
			}
			body := io.MultiReader(strings.NewReader(test.around[0]), long, strings.NewReader(test.around[1]))
			req, _ := http.NewRequestWithContext(t.Context(), "POST", chatURL, body)
			if test.contentType != "" {
				req.Header.Set("Content-Type", test.contentType)
			}
			runtime.GC()
			runtime.ReadMemStats(&before)
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			readAll(t, resp)
			most := test.kept + test.kept/10 + slack
			if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > most {
				t.Errorf("%d KiB are kept of %d, want %d at most", kept>>10, test.kept>>10, most>>10)
			}
			allocated := int64(after.TotalAlloc - before.TotalAlloc)
			if test.addsUsage {
				most += test.kept // the body is copied once as a whole
			}
			if allocated > most {
				t.Errorf("%d KiB were allocated for %d, want %d at most", allocated>>10, test.kept>>10, most>>10)
			}
			t.Logf("%d KiB allocated", allocated>>10)
		})
	}
}
