// What must not hold a call: a body that blocks or is large, and an OnEvent that panics.

package llmhttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// blockingBody has a first piece, and then blocks for a time whatever happens.
type blockingBody struct {
	piece  string
	block  time.Duration
	closed bool
}

func (b *blockingBody) Read(p []byte) (int, error) {
	if b.piece != "" {
		n := copy(p, b.piece)
		b.piece = b.piece[n:]
		return n, nil
	}
	time.Sleep(b.block)
	return 0, io.EOF
}

func (b *blockingBody) Close() error { b.closed = true; return nil }

// The reading of a body without GetBody ends with the context.
func TestBodyThatBlocksEndsWithTheContext(t *testing.T) {
	for _, path := range []string{"/v1/chat/completions", "/v1/unheard-of"} {
		for _, piece := range []string{"", `{"messages":"`, strings.Repeat(" ", 100_000)} {
			for _, zipped := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 10})
					tr := &llmhttp.Transport{Limiter: rl, Base: base(func(*http.Request) (*http.Response, error) {
						t.Error("it was sent")
						return nil, errors.New("sent")
					})}
					ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
					defer cancel()
					body := &blockingBody{piece: piece, block: 3 * time.Second}
					req, _ := http.NewRequestWithContext(ctx, "POST", "http://llm.test"+path, body)
					if zipped {
						req.Header.Set("Content-Encoding", "gzip")
						body.piece = ""
					}
					began := time.Now()
					_, err := tr.RoundTrip(req)
					if took := time.Since(began); took != 200*time.Millisecond || !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%s %.20q: after %v: %v", path, piece, took, err)
					}
					if !body.closed {
						t.Error("the body was not closed")
					}
					if _, err = tr.RoundTrip(req); time.Since(began) != 200*time.Millisecond || !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("with an ended context: after %v: %v", time.Since(began), err)
					}
					time.Sleep(body.block) // the last Read ends in its own time
				})
			}
		}
	}
}

// A body that comes slowly, but in time, arrives as it is.
func TestSlowBodyArrivesWhole(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(w, r.Body)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	for _, size := range []int{10, 100_000, 3 << 20} {
		text := `{"model":"m","messages":"` + strings.Repeat("x", size) + `"}`
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 10})
		tr := &llmhttp.Transport{Limiter: rl, Base: server.Client().Transport, MaxBody: 1 << 20}
		r, w := io.Pipe()
		go func() {
			defer w.Close()
			for rest := text; rest != ""; {
				n := min(len(rest), 7777)
				io.WriteString(w, rest[:n])
				rest = rest[n:]
			}
		}()
		req, _ := http.NewRequestWithContext(t.Context(), "POST", server.URL+"/v1/chat/completions", r)
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if got := readAll(t, resp); got != text || resp.ProtoMajor != 2 {
			t.Errorf("%d of %d bytes arrived by %s", len(got), len(text), resp.Proto)
		}
		if s := rl.Stats("m"); s.RPM != 1 {
			t.Errorf("%+v", s)
		}
	}
}

// A panic in OnEvent goes on to the caller. It frees the slot, and closes the answer.
func TestOnEventPanicFreesTheSlot(t *testing.T) {
	for _, test := range []struct {
		kind llmhttp.EventKind
		rpm  int // that stay charged
	}{
		{llmhttp.EventAdmitted, 0},
		{llmhttp.EventAnswered, 1},
		{llmhttp.EventProblem, 1},
		{llmhttp.EventRetry, 1},
		{llmhttp.EventSettled, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 100, MaxInFlight: 1, MaxTPM: 1000})
			sent, closed := 0, 0
			tr := &llmhttp.Transport{
				Limiter: rl, Retry: llmhttp.Retry{Max: 1},
				OnEvent: func(e llmhttp.Event) {
					if e.Kind == test.kind {
						panic("of the program")
					}
				},
				Base: base(func(req *http.Request) (*http.Response, error) {
					sent++
					resp := response(req, 500, `{}`)
					resp.Body = &closeCounter{resp.Body, &closed}
					return resp, nil
				}),
			}
			func() {
				defer func() {
					if p := recover(); p != "of the program" {
						t.Errorf("%s: %v", test.kind, p)
					}
				}()
				post(t, tr, chatURL, `{"model":"m"}`)
			}()
			if s := rl.Stats("m"); s.InFlight != 0 || s.RPM != test.rpm || sent != test.rpm || closed < sent {
				t.Errorf("%s: %d in flight, %d requests, %d sent, %d closed", test.kind, s.InFlight, s.RPM, sent, closed)
			}
		})
	}
}

type closeCounter struct {
	io.ReadCloser
	closed *int
}

func (c *closeCounter) Close() error { *c.closed++; return c.ReadCloser.Close() }

func TestOnEventEndsTheGoroutine(t *testing.T) {
	for _, kind := range []llmhttp.EventKind{llmhttp.EventAdmitted, llmhttp.EventAnswered, llmhttp.EventSettled} {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxInFlight: 1, MaxRPM: 10})
		tr := &llmhttp.Transport{Limiter: rl, Base: reply(200, "{}"), OnEvent: func(e llmhttp.Event) {
			if e.Kind == kind {
				runtime.Goexit()
			}
		}}
		ended := make(chan bool)
		go func() {
			defer close(ended)
			resp, err := post(t, tr, chatURL, `{"model":"m"}`)
			if err == nil {
				readAll(t, resp)
			}
		}()
		<-ended
		want := 1
		if kind == llmhttp.EventAdmitted {
			want = 0 // it was not sent
		}
		if s := rl.Stats("m"); s.InFlight != 0 || s.RPM != want {
			t.Errorf("%s: %d in flight, %d requests", kind, s.InFlight, s.RPM)
		}
	}
}

// repeated is a body of any size that takes no memory.
func repeated(before, letter string, size int64, after string) io.ReadCloser {
	return io.NopCloser(io.MultiReader(strings.NewReader(before), endlessBody(letter, size), strings.NewReader(after)))
}

// The model behind 200 MB is found, and nothing is kept of them.
func TestMemoryOfTheModelBehindALargeBody(t *testing.T) {
	const size, slack = 200 << 20, 4 << 20
	for _, test := range []struct {
		name              string
		getBody, adds     bool
		want              string
		contentType, path string
	}{
		{"with GetBody", true, false, isCounted, "application/json", "/v1/chat/completions"},
		{"with GetBody, and its usage is to be reported", true, true, isCounted, "", "/v1/chat/completions"},
		{"without GetBody", false, false, isTold, "application/json", "/v1/chat/completions"},
		{"of another path", true, false, isFree, "application/json", "/v1/unheard-of"},
	} {
		t.Run(test.name, func(t *testing.T) {
			events := new(listener)
			rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 10, MaxTPM: 1000}}, Events: events})
			var before, after runtime.MemStats
			tr := &llmhttp.Transport{Limiter: rl, AddStreamUsage: test.adds, MaxBody: 1 << 20, Base: base(func(req *http.Request) (*http.Response, error) {
				runtime.ReadMemStats(&after)
				n, err := io.Copy(io.Discard, req.Body)
				if n < size || err != nil {
					t.Errorf("sent %d bytes, %v", n, err)
				}
				return response(req, 200, "{}"), nil
			})}
			body := func() (io.ReadCloser, error) {
				return repeated(`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,`, "A", size, `"}}]}],"stream":true,"model":"m"}`), nil
			}
			req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://llm.test"+test.path, nil)
			req.Body, _ = body()
			if test.getBody {
				req.GetBody = body
			}
			req.Header.Set("Content-Type", test.contentType)
			runtime.GC()
			runtime.ReadMemStats(&before)
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			readAll(t, resp)
			if took := int64(after.TotalAlloc - before.TotalAlloc); took > slack {
				t.Errorf("allocated %d KiB", took>>10)
			}
			told := isFree
			for _, e := range events.take() {
				switch e.Kind {
				case ratelimit.EventUncounted:
					told = isTold
				case ratelimit.EventSettled:
					told = isCounted
					if e.Estimated.PromptTokens > 1000 {
						t.Errorf("estimated at %d tokens", e.Estimated.PromptTokens)
					}
				}
			}
			if told != test.want {
				t.Errorf("it is %s, want %s", told, test.want)
			}
		})
	}
}

// The scan of a large body ends with the context, too.
func TestLargeBodyEndsWithTheContext(t *testing.T) {
	rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 10})
	tr := &llmhttp.Transport{Limiter: rl, MaxBody: 1 << 10, Base: base(func(*http.Request) (*http.Response, error) {
		t.Error("it was sent")
		return nil, errors.New("sent")
	})}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read := 0
	body := func() (io.ReadCloser, error) {
		endless := readFunc(func(p []byte) (int, error) {
			if read += len(p); read > 1<<20 {
				cancel()
			}
			return copy(p, bytes.Repeat([]byte{' '}, len(p))), nil
		})
		return io.NopCloser(io.MultiReader(strings.NewReader("{"), endless)), nil
	}
	req, _ := http.NewRequestWithContext(ctx, "POST", chatURL, nil)
	req.Body, _ = body()
	req.GetBody = body
	if _, err := tr.RoundTrip(req); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if read > 2<<20 {
		t.Error(fmt.Sprint(read), "bytes were read")
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }
