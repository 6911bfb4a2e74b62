package llmhttp_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// A goroutine that is locked to its thread, as those of graphics and of callbacks from C are, may
// read a compressed answer, and another one may close it.
func TestCompressedAnswerOnALockedThread(t *testing.T) {
	rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 1_000_000})
	tr := &llmhttp.Transport{Limiter: rl, Base: reply(200, zip(t, sse(`{"choices":[{"delta":{"content":"x"}}]}`), strings.Repeat(" ", 1000)), "Content-Encoding: gzip")}
	locked := make(chan bool)
	go func() {
		defer close(locked)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		resp, err := post(t, tr, chatURL, `{"model":"m","stream":true}`)
		if err != nil {
			t.Error(err)
			return
		}
		readOnce(t, resp, nil)
		if resp, err = post(t, tr, chatURL, `{"model":"m","stream":true}`); err != nil {
			t.Error(err)
			return
		}
		resp.Body.Read(make([]byte, 20))
		closed := make(chan bool)
		go func() { resp.Body.Close(); close(closed) }()
		<-closed
	}()
	<-locked
	if s := rl.Stats("m"); s.RPM != 2 || s.InFlight != 0 {
		t.Errorf("%+v", s)
	}
}

// tally is the last settlement of a Transport.
type tally struct {
	*llmhttp.Transport
	rl      *ratelimit.RateLimiter
	settled llmhttp.Event
	n       int
}

func newTally(t *testing.T, base http.RoundTripper) *tally {
	s := &tally{rl: newLimiter(t, ratelimit.ModelQuota{MaxTPM: 1 << 30})}
	s.Transport = &llmhttp.Transport{Limiter: s.rl, Base: base, OnEvent: func(e llmhttp.Event) {
		if e.Kind == llmhttp.EventSettled {
			s.settled, s.n = e, s.n+1
		}
	}}
	return s
}

const cappedStream = `{"model":"m","stream":true,"max_tokens":500}`

// A compressed stream means the same wherever it is cut into two pieces or into two members, and
// costs no less than the cap where it ends early, is damaged, or has something behind it.
func TestCompressedAtEveryByte(t *testing.T) {
	const usage = `{"choices":[],"usage":{"prompt_tokens":40,"completion_tokens":90}}`
	events := []string{sse(`{"choices":[{"delta":{"content":"Hello"}}]}`), sse(usage), sse("[DONE]")}
	plain := strings.Join(events, "")
	whole := zip(t, events...)
	var body io.Reader
	s := newTally(t, base(func(req *http.Request) (*http.Response, error) {
		resp := response(req, 200, "", "Content-Encoding: gzip")
		resp.Body = io.NopCloser(body)
		return resp, nil
	}))
	try := func(name, want string, is error, pieces ...string) {
		t.Helper()
		var readers []io.Reader
		for _, p := range pieces {
			readers = append(readers, strings.NewReader(p))
		}
		if is != nil {
			readers = append(readers, &failing{is})
		}
		body = io.MultiReader(readers...)
		resp, err := post(t, s, chatURL, cappedStream)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		if string(got) != strings.Join(pieces, "") || !errors.Is(err, is) {
			t.Errorf("%s: %d bytes came, %v", name, len(got), err)
		}
		resp.Body.Close()
		e := &s.settled
		switch want {
		case "reported":
			if e.Settled.OutputTokens != 90 || e.Source != llmhttp.SourceReported {
				t.Errorf("%s: %d by %s", name, e.Settled.OutputTokens, e.Source)
			}
		case "cap":
			if e.Settled.OutputTokens < 90 || e.Source == llmhttp.SourceReported && e.Settled.OutputTokens != 90 {
				t.Errorf("%s: %d by %s", name, e.Settled.OutputTokens, e.Source)
			}
		}
	}
	for i := range len(whole) + 1 {
		try(fmt.Sprint("cut at ", i), "reported", nil, whole[:i], whole[i:])
		try(fmt.Sprint("ends at ", i), "cap", nil, whole[:i])
		try(fmt.Sprint("fails at ", i), "cap", io.ErrUnexpectedEOF, whole[:i])
		if i < len(whole) {
			damaged := []byte(whole)
			damaged[i] ^= 0x55
			try(fmt.Sprint("damaged at ", i), "", nil, string(damaged))
			if out := s.settled.Settled.OutputTokens; out < 1 {
				t.Errorf("damaged at %d: %d by %s", i, out, s.settled.Source)
			}
		}
	}
	for i := range len(plain) + 1 {
		try(fmt.Sprint("in members from ", i), "reported", nil, zip(t, plain[:i])+zip(t, plain[i:]))
	}
	try("an empty member between", "reported", nil, zip(t, plain[:50])+zip(t)+zip(t, plain[50:]))
	for _, behind := range []string{"\x00", "\x1f", "\x1f\x8b", "garbage", strings.Repeat("\x00", 512)} {
		try(fmt.Sprintf("%.9q behind it", behind), "cap", nil, whole+behind)
	}
	if st := s.rl.Stats("m"); st.InFlight != 0 || s.n != st.RPM {
		t.Errorf("%d settlements, %+v", s.n, st)
	}
}

// What the provider flushes is counted as it comes: the text of a stream that is closed early.
func TestCompressedFlushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		s := newTally(t, base(func(req *http.Request) (*http.Response, error) {
			resp := response(req, 200, "", "Content-Encoding: gzip")
			resp.Body = r
			return resp, nil
		}))
		s.FirstOutput = 1
		z := gzip.NewWriter(w)
		go func() {
			for range 50 {
				io.WriteString(z, sse(`{"choices":[{"delta":{"content":"`+strings.Repeat("word ", 100)+`"}}]}`))
				z.Flush()
				time.Sleep(time.Second)
			}
		}()
		resp, err := post(t, s, chatURL, `{"model":"m","stream":true}`)
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 4096)
		for began := time.Now(); time.Since(began) < 9500*time.Millisecond; {
			if _, err := resp.Body.Read(buf); err != nil {
				t.Fatal(err)
			}
		}
		resp.Body.Close()
		if out := s.settled.Settled.OutputTokens; out < 10*100 || out > 12*130 {
			t.Errorf("counted %d of the 1,100 words that came", out)
		}
		time.Sleep(time.Minute) // the writer ends
	})
}

// A compressed answer that nobody reads or closes leaves no goroutine: the bubble waits for all.
func TestCompressedAnswerAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		whole := zip(t, sse(`{"choices":[{"delta":{"content":"x"}}]}`), strings.Repeat(" ", 99))
		for _, cancels := range []bool{false, true} {
			s := newTally(t, reply(200, whole, "Content-Encoding: gzip"))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			req, _ := http.NewRequestWithContext(ctx, "POST", chatURL, strings.NewReader(cappedStream))
			resp, err := s.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Read(make([]byte, 20))
			if cancels {
				cancel()
			} else {
				time.Sleep(time.Hour)
			}
			synctest.Wait()
			if st := s.rl.Stats("m"); s.n != 1 || st.InFlight != 0 || s.settled.Settled.OutputTokens < 490 {
				t.Errorf("cancelled %v: %d settlements, %+v", cancels, s.n, s.settled)
			}
		}
	})
}

// A small answer that is huge when it is decoded takes no memory that grows with it.
func TestMemoryOfABomb(t *testing.T) {
	const size, slack = 64 << 20 / min(racetest.Factor, 8), 1 << 20
	for _, start := range []string{`data: {"choices":[{"delta":{"content":"`, `{"choices":[{"message":{"content":"`, "[[[[", ""} {
		var b bytes.Buffer
		z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
		io.WriteString(z, start)
		io.Copy(z, io.LimitReader(endlessBody("x", size), size))
		z.Close()
		s := newTally(t, reply(200, b.String(), "Content-Encoding: gzip"))
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		resp, err := post(t, s, chatURL, cappedStream)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		runtime.ReadMemStats(&after)
		if grown := after.TotalAlloc - before.TotalAlloc; grown > slack {
			t.Errorf("%q: allocated %d KiB of %d KiB", start, grown>>10, size>>10)
		}
		if s.settled.Settled.OutputTokens < 490 {
			t.Errorf("%q: counted %d", start, s.settled.Settled.OutputTokens)
		}
	}
}

// Answers without a body, and calls that are none, count what they did without compression.
func TestCompressedNothing(t *testing.T) {
	for _, coding := range []string{"gzip", "br", "gzip, gzip"} {
		s := newTally(t, base(func(req *http.Request) (*http.Response, error) {
			resp := response(req, 204, "", "Content-Encoding: "+coding)
			resp.Body, resp.ContentLength = http.NoBody, 0
			return resp, nil
		}))
		exchange(t, s, chatURL, cappedStream)
		if s.n != 1 || s.settled.Settled.OutputTokens < 490 {
			t.Errorf("%s, without a body: %+v", coding, s.settled)
		}
		for _, method := range []string{http.MethodHead, http.MethodGet} { // GET polls a background response
			req, _ := http.NewRequestWithContext(t.Context(), method, "http://llm.test/v1/responses/resp_1", nil)
			req.Header.Set("Accept-Encoding", "gzip, deflate")
			resp, err := s.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if got := resp.Request.Header.Get("Accept-Encoding"); got != "gzip, deflate" || s.n != 1 {
				t.Errorf("%s asked for %q; %d settlements", method, got, s.n)
			}
		}
	}
}

// Over HTTP/1.1 and HTTP/2, a client that asks for gzip and deflate, as those for Node do, gets the
// bytes of the server, and all of its tokens are counted.
func TestCompressedOverTheNetwork(t *testing.T) {
	events := []string{sse(`{"choices":[{"delta":{"content":"` + strings.Repeat("x", 400) + `"}}]}`), sse(`{"choices":[],"usage":{"prompt_tokens":4000,"completion_tokens":900}}`), sse("[DONE]")}
	for _, http2 := range []bool{false, true} {
		for _, adds := range []bool{false, true} {
			var asked, major atomic.Value
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				asked.Store(r.Header.Get("Accept-Encoding") + " " + fmt.Sprint(strings.Contains(string(body), "include_usage")))
				major.Store(r.ProtoMajor)
				w.Header().Set("Content-Encoding", "gzip")
				w.Header().Set("Content-Type", "text/event-stream")
				z := gzip.NewWriter(w)
				for _, e := range events {
					io.WriteString(z, e)
					z.Flush()
					w.(http.Flusher).Flush()
				}
				z.Close()
			}))
			server.EnableHTTP2 = http2
			server.StartTLS()
			defer server.Close()
			s := newTally(t, server.Client().Transport)
			s.AddStreamUsage = adds
			req, _ := http.NewRequestWithContext(t.Context(), "POST", server.URL+"/v1/chat/completions", strings.NewReader(cappedStream))
			req.Header.Set("Accept-Encoding", "gzip, deflate")
			resp, err := s.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			if got := readAll(t, resp); got != zip(t, events...) {
				t.Errorf("%d bytes came, or others", len(got))
			}
			if asked.Load() != "gzip false" || (major.Load() == 2) != http2 || resp.Header.Get("Content-Encoding") != "gzip" {
				t.Errorf("asked for %v over HTTP/%v", asked.Load(), major.Load())
			}
			if st := s.rl.Stats("m"); st.ITPM != 4000 || st.OTPM != 900 {
				t.Errorf("counted %+v", st)
			}
		}
	}
}
