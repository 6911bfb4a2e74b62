package bench

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// newTransport returns a Transport whose calls never wait, over base.
func newTransport(b *testing.B, base http.RoundTripper) *llmhttp.Transport {
	b.Helper()
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		FilePath: filepath.Join(b.TempDir(), "state.yaml"),
		Quotas:   map[string]ratelimit.ModelQuota{"m": {MaxRPM: 100_000_000, MaxTPM: 2_000_000_000}},
	})
	if err != nil {
		b.Fatal(err)
	}
	return &llmhttp.Transport{Limiter: rl, Base: base}
}

// exchange makes a call and reads the answer to its end. It returns how long the headers
// took, and the whole.
func exchange(b *testing.B, rt http.RoundTripper, url, body string, piece []byte) (first, all time.Duration, size int) {
	began := time.Now()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := rt.RoundTrip(req)
	if err != nil {
		b.Fatal(err)
	}
	for {
		n, err := resp.Body.Read(piece)
		if size == 0 && n > 0 {
			first = time.Since(began)
		}
		size += n
		if err == io.EOF {
			break
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	resp.Body.Close()
	return first, time.Since(began), size
}

// spinning does nothing for ten microseconds before it passes a request on.
type spinning struct{ base http.RoundTripper }

func (s spinning) RoundTrip(req *http.Request) (*http.Response, error) {
	for began := time.Now(); time.Since(began) < 10*time.Microsecond; {
	}
	return s.base.RoundTrip(req)
}

// compareTransports makes calls bare, through a Transport, and through a wrapper that only spends
// ten microseconds, in turns, and reports the medians. The last one shows what the network of
// the machine makes of so little: who waits at the other end falls asleep meanwhile.
func compareTransports(b *testing.B, handler http.HandlerFunc, body string) {
	server := httptest.NewServer(handler)
	defer server.Close()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	defer transport.CloseIdleConnections()
	url := server.URL + "/v1/chat/completions"
	piece := make([]byte, 32<<10)
	type way struct {
		rt         http.RoundTripper
		first, all []time.Duration
	}
	ways := [...]way{{rt: transport}, {rt: newTransport(b, transport)}, {rt: spinning{transport}}}
	for i := range 30 * len(ways) {
		exchange(b, ways[i%len(ways)].rt, url, body, piece)
	}
	for i := 0; b.Loop(); i++ {
		w := &ways[i%len(ways)]
		first, all, _ := exchange(b, w.rt, url, body, piece)
		w.first, w.all = append(w.first, first), append(w.all, all)
	}
	median := func(ds []time.Duration) float64 {
		if len(ds) == 0 {
			return 0
		}
		slices.Sort(ds)
		return float64(ds[len(ds)/2]) / 1e3
	}
	bare := median(ways[0].all)
	b.ReportMetric(bare, "bare-us")
	b.ReportMetric(median(ways[1].all)-bare, "more-us")
	b.ReportMetric(100*(median(ways[1].all)-bare)/max(bare, 1), "more-%")
	b.ReportMetric(median(ways[1].first)-median(ways[0].first), "first-byte-us")
	b.ReportMetric(median(ways[2].all)-bare, "spin-10us-more-us")
}

// BenchmarkTransport compares calls through llmhttp.Transport with the same without, over
// loopback: small answers of JSON, and streams of a megabyte in events of some 200 bytes.
func BenchmarkTransport(b *testing.B) {
	for _, size := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprintf("json/prompt=%d", size), func(b *testing.B) {
			answer := `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"` +
				strings.Repeat("word ", 40) + `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":25,"completion_tokens":40,"total_tokens":65}}`
			compareTransports(b, func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				h := w.Header()
				h.Set("Content-Type", "application/json")
				h.Set("X-Ratelimit-Limit-Requests", "5000")
				h.Set("X-Ratelimit-Remaining-Requests", "4999")
				h.Set("X-Ratelimit-Reset-Requests", "12ms")
				h.Set("X-Ratelimit-Limit-Tokens", "4000000")
				h.Set("X-Ratelimit-Remaining-Tokens", "3999900")
				h.Set("X-Ratelimit-Reset-Tokens", "1ms")
				io.WriteString(w, answer)
			}, `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"`+strings.Repeat("x", size)+`"}]}`)
		})
	}
	for _, test := range []struct {
		name  string
		flush bool
	}{{"flushed", true}, {"at-once", false}} {
		b.Run("sse/1MB/"+test.name, func(b *testing.B) {
			event := []byte(`data: {"id":"chatcmpl-123456789","object":"chat.completion.chunk","created":1694268190,"model":"m","system_fingerprint":"fp_44709d6fcb","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}` + "\n\n")
			compareTransports(b, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				flusher := w.(http.Flusher)
				for sent := 0; sent < 1<<20; sent += len(event) {
					w.Write(event)
					if test.flush {
						flusher.Flush()
					}
				}
				io.WriteString(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":7}}\n\ndata: [DONE]\n\n")
			}, `{"model":"m","stream":true,"messages":[]}`)
		})
	}
}

// BenchmarkTransportMemory reports what a stream of so many megabytes holds in memory while it is
// read: the same, however long it is.
func BenchmarkTransportMemory(b *testing.B) {
	for _, megabytes := range []int{1, 16} {
		b.Run(fmt.Sprintf("MB=%d", megabytes), func(b *testing.B) {
			event := `data: {"choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}` + "\n\n"
			tr := newTransport(b, roundTripper(func(req *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(&repeated{event: event, left: megabytes << 20})}, nil
			}))
			piece := make([]byte, 32<<10)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for b.Loop() {
				exchange(b, tr, "http://llm.test/v1/chat/completions", `{"model":"m","stream":true}`, piece)
			}
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(b.N), "B/stream")
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// repeated is an event over and over.
type repeated struct {
	event string
	at    int
	left  int
}

func (r *repeated) Read(p []byte) (n int, err error) {
	if r.left <= 0 {
		return 0, io.EOF
	}
	for n < len(p) {
		k := copy(p[n:], r.event[r.at:])
		n, r.at = n+k, (r.at+k)%len(r.event)
	}
	r.left -= n
	return n, nil
}
