package llmhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// freeIn is how long the model stays full.
func freeIn(rl *ratelimit.RateLimiter) time.Duration { return rl.Decide("m", 0).RetryAfter }

// A charge leaves the window no sooner than the provider forgets the call: a minute after
// the request was written and the margin passed, or the headers came.
func TestDating(t *testing.T) {
	const exact = time.Nanosecond // after the minute
	for _, test := range []struct {
		name    string
		write   time.Duration // from the start until the request is written; negative: Base does not tell
		headers time.Duration // from the start until the headers come
		margin  time.Duration
		dated   time.Duration // from the start
	}{
		{"a quick answer: at its headers", 10 * time.Millisecond, 40 * time.Millisecond, 0, 40 * time.Millisecond},
		{"a slow one: when it was written, and 250 ms", 10 * time.Millisecond, 20 * time.Second, 0, 260 * time.Millisecond},
		{"one slower than the window", 10 * time.Millisecond, 100 * time.Second, 0, 260 * time.Millisecond},
		{"written late", 3 * time.Second, 20 * time.Second, 0, 3250 * time.Millisecond},
		{"another margin", 10 * time.Millisecond, 20 * time.Second, time.Second, 1010 * time.Millisecond},
		{"no margin", 10 * time.Millisecond, 20 * time.Second, -1, 10 * time.Millisecond},
		{"nobody tells when it was written: at the headers", -1, 20 * time.Second, 0, 20 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1})
				began := time.Now()
				var left []time.Duration // when there was room while the call was in flight
				tr := &llmhttp.Transport{Limiter: rl, Margin: test.margin, Base: base(func(req *http.Request) (*http.Response, error) {
					io.ReadAll(req.Body)
					if test.write >= 0 {
						time.Sleep(test.write)
						httptrace.ContextClientTrace(req.Context()).WroteRequest(httptrace.WroteRequestInfo{})
					}
					for time.Since(began) < test.headers {
						if rl.CanSend("m", 0) {
							left = append(left, time.Since(began))
							break
						}
						time.Sleep(min(test.headers-time.Since(began), 10*time.Millisecond))
					}
					time.Sleep(test.headers - time.Since(began))
					return response(req, 200, `{}`), nil
				})}
				resp, err := post(t, tr, chatURL, `{"model":"m"}`)
				if err != nil {
					t.Fatal(err)
				}
				readAll(t, resp)
				free := test.dated + time.Minute + exact
				if free < test.headers {
					if len(left) != 1 || left[0] < free || left[0] > free+20*time.Millisecond {
						t.Errorf("there was room after %v, want %v", left, free)
					}
					return
				}
				if len(left) > 0 {
					t.Errorf("there was room after %v already", left)
				}
				if got := time.Since(began) + freeIn(rl); got != free {
					t.Errorf("there is room after %v, want %v", got, free)
				}
			})
		})
	}
}

// A connection that http.Transport found dead is written to again, later.
func TestDatedByTheLastWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1})
		began := time.Now()
		tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
			trace := httptrace.ContextClientTrace(req.Context())
			trace.WroteRequest(httptrace.WroteRequestInfo{Err: errors.New("broken pipe")})
			time.Sleep(2 * time.Second)
			trace.WroteRequest(httptrace.WroteRequestInfo{})
			time.Sleep(5 * time.Second)
			return response(req, 200, `{}`), nil
		})}
		resp, err := post(t, tr, chatURL, `{"model":"m"}`)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := time.Since(began)+freeIn(rl), 2250*time.Millisecond+time.Minute+1; got != want {
			t.Errorf("there is room after %v, want %v", got, want)
		}
		readAll(t, resp)
	})
}

// slowBody gives its lines one after the other, a second apart, until it is closed.
type slowBody struct {
	lines  []string
	once   sync.Once
	closed chan struct{}
}

func newSlowBody(lines ...string) *slowBody {
	return &slowBody{lines: lines, closed: make(chan struct{})}
}

func (b *slowBody) Read(p []byte) (int, error) {
	select {
	case <-b.closed:
		return 0, errors.New("read on closed body")
	case <-time.After(time.Second):
	}
	if len(b.lines) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.lines[0])
	b.lines = b.lines[1:]
	return n, nil
}

func (b *slowBody) Close() error { b.once.Do(func() { close(b.closed) }); return nil }

// An answer that nobody reads to its end is settled all the same.
func TestAbandonedBody(t *testing.T) {
	lines := slicesRepeat(sse(`{"choices":[{"delta":{"content":"`+strings.Repeat("x", 4000)+`"}}]}`), 1000)
	for _, test := range []struct {
		name    string
		idle    time.Duration
		read    int           // lines
		timeout time.Duration // of the context
		after   time.Duration
		out     int // tokens, at least
	}{
		{"its context ends", 0, 3, time.Minute, time.Minute, 3000},
		{"ten minutes without a Read", 0, 3, 0, 3*time.Second + 10*time.Minute, 3000},
		{"or as long as MaxIdle says", time.Minute, 3, 0, 3*time.Second + time.Minute, 3000},
		{"not while it is read", 5 * time.Second, 20, 0, 25 * time.Second, 20000},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 10_000_000})
				var settled time.Time
				tr := &llmhttp.Transport{Limiter: rl, MaxIdle: test.idle, OnEvent: func(e llmhttp.Event) {
					if e.Kind == llmhttp.EventSettled {
						settled = time.Now()
					}
				}, Base: base(func(req *http.Request) (*http.Response, error) {
					resp := response(req, 200, "")
					resp.Body = newSlowBody(lines...)
					return resp, nil
				})}
				ctx, cancel := context.WithCancel(t.Context())
				if test.timeout > 0 {
					ctx, cancel = context.WithTimeout(t.Context(), test.timeout)
				}
				defer cancel()
				began := time.Now()
				req, _ := http.NewRequestWithContext(ctx, "POST", chatURL, strings.NewReader(`{"model":"m","stream":true}`))
				resp, err := tr.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				for range test.read {
					resp.Body.Read(make([]byte, 8000))
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				// What is not read is looked for once in a while only.
				if got := settled.Sub(began); got < test.after || got > test.after+max(test.idle, 10*time.Minute) && test.timeout == 0 {
					t.Errorf("settled after %v, want %v", got, test.after)
				}
				if s := rl.Stats("m"); s.InFlight != 0 {
					t.Errorf("still in flight: %+v", s)
				}
				resp.Body.Close()
			})
		})
	}
}

// MaxWait is over while the call stands in line: that is a refusal, not an end of the context.
func TestMaxWaitInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxInFlight: 1})
		tr := &llmhttp.Transport{Limiter: rl, MaxWait: 3 * time.Second, RefuseWithError: true, Base: reply(200, `{}`)}
		held, d := rl.Reserve("m", 0, 0)
		if !d.Allowed {
			t.Fatal(d)
		}
		began := time.Now()
		_, err := post(t, tr, chatURL, `{"model":"m"}`)
		var limit *ratelimit.LimitError
		if !errors.As(err, &limit) || limit.Decision.Code != ratelimit.DecisionInFlightLimit || time.Since(began) != 3*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		held.Cancel()
	})
}

// The context ends while the call stands in line.
func TestContextEndsInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxInFlight: 1})
		tr := &llmhttp.Transport{Limiter: rl, Base: reply(200, `{}`)}
		held, _ := rl.Reserve("m", 0, 0)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		req, _ := http.NewRequestWithContext(ctx, "POST", chatURL, strings.NewReader(`{"model":"m"}`))
		resp, err := tr.RoundTrip(req)
		if !errors.Is(err, context.Canceled) || resp != nil {
			t.Errorf("got %v, %v", resp, err)
		}
		if s := rl.Stats("m"); s.Waiting != 0 || s.RPM != 1 {
			t.Errorf("left behind: %+v", s)
		}
		held.Cancel()
	})
}

// Calls that begin one after the other are dated each by its own time, whether those
// before them have their answer or not.
func TestDatingOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1000})
		began := time.Now()
		tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
			io.ReadAll(req.Body)
			httptrace.ContextClientTrace(req.Context()).WroteRequest(httptrace.WroteRequestInfo{})
			d, _ := time.ParseDuration(req.Header.Get("Takes"))
			time.Sleep(d)
			return response(req, 200, `{}`), nil
		})}
		var want []time.Duration
		var wg sync.WaitGroup
		for i, takes := range []time.Duration{20, 0, 300, 1, 20_000, 100, 250, 251, 5, 600} {
			takes *= time.Millisecond
			start := time.Duration(i) * 70 * time.Millisecond
			want = append(want, start+min(takes, 250*time.Millisecond))
			wg.Go(func() {
				time.Sleep(start)
				req, _ := http.NewRequest("POST", chatURL, strings.NewReader(`{"model":"m"}`))
				req.Header.Set("Takes", takes.String())
				resp, err := tr.RoundTrip(req)
				if err != nil {
					t.Error(err)
					return
				}
				readAll(t, resp)
			})
		}
		wg.Wait()
		slices.Sort(want)
		for i, at := range rl.State["m"].Requests {
			if got := at.Sub(began); got != want[i] {
				t.Errorf("charge %d is dated %v, want %v", i, got, want[i])
			}
		}
	})
}
