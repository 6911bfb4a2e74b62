package llmhttp_test

import (
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

// freeIn returns the time until the model has room.
func freeIn(rl *ratelimit.RateLimiter) time.Duration { return rl.Decide("m", 0).RetryAfter }

// A charge leaves the window no sooner than the provider forgets the call: a minute after the
// request was written and the margin passed, or after the headers arrived.
func TestDating(t *testing.T) {
	const exact = time.Nanosecond // after the minute
	for _, test := range []struct {
		name    string
		write   time.Duration // from the start until the request is written; negative: Base does not trace it
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

// A request that http.Transport writes again, after a dead connection, is dated by the last write.
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

// Calls that begin one after the other are dated each by its own time, whether the calls before
// them have their answers or not.
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

// Over http.Transport, no window of the provider exceeds its limit, however long answers take and
// however few connections there are.
func TestProviderIsNeverOverrun(t *testing.T) {
	for _, test := range []struct {
		name   string
		conns  int
		answer time.Duration
		way    time.Duration // until the provider counts
	}{
		{"quick answers", 0, time.Millisecond, 0},
		{"answers of 20 s", 0, 20 * time.Second, 0},
		{"answers of 20 s, late counted", 0, 20 * time.Second, 200 * time.Millisecond},
		{"one connection", 1, 7 * time.Second, 0},
		{"answers of 90 s", 0, 90 * time.Second, 100 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const rpm, calls = 5, 25
				var mu sync.Mutex
				var arrived []time.Time
				l := newPipeListener()
				server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body)
					time.Sleep(test.way)
					mu.Lock()
					arrived = append(arrived, time.Now())
					mu.Unlock()
					time.Sleep(test.answer)
					io.WriteString(w, `{"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
				})}
				go server.Serve(l)
				rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: rpm})
				under := &http.Transport{DialContext: l.dial, MaxConnsPerHost: test.conns, MaxIdleConnsPerHost: 100}
				tr := &llmhttp.Transport{Limiter: rl, Base: under}
				began := time.Now()
				var wg sync.WaitGroup
				for range calls {
					wg.Go(func() {
						exchange(t, tr, chatURL, `{"model":"m"}`)
					})
				}
				wg.Wait()
				for i := rpm; i < len(arrived); i++ {
					if d := arrived[i].Sub(arrived[i-rpm]); d < time.Minute {
						t.Errorf("call %d came %v after call %d", i, d, i-rpm)
					}
				}
				least := (calls/rpm-1)*time.Minute + test.answer
				if test.conns == 0 {
					if took := time.Since(began); took > least+least/20+time.Second {
						t.Errorf("it took %v, %v would do", took, least)
					}
				}
				under.CloseIdleConnections()
				server.Close()
			})
		})
	}
}
