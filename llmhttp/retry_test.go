package llmhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

func TestRetry(t *testing.T) {
	const money = `{"error":{"type":"insufficient_quota","code":"insufficient_quota"}}`
	broke := errors.New("connection reset")
	type answer struct {
		status  int
		body    string
		headers []string
		err     error
	}
	ok := answer{status: 200, body: `{"usage":{"prompt_tokens":3,"completion_tokens":4}}`}
	limited := answer{status: 429, body: `{}`, headers: []string{"Retry-After: 2"}}
	for _, test := range []struct {
		name     string
		retry    llmhttp.Retry
		answers  []answer
		calls    int
		status   int // 0 for an error
		body     string
		noReplay bool
		timeout  time.Duration
		least    time.Duration
		most     time.Duration
	}{
		{"off by default", llmhttp.Retry{}, []answer{limited, ok}, 1, 429, `{}`, false, 0, 0, 0},
		{"after a 429, as long as it says", llmhttp.Retry{Max: 2}, []answer{limited, ok}, 2, 200, ok.body, false, 0, 2 * time.Second, 3 * time.Second},
		{"no more often than Max", llmhttp.Retry{Max: 2}, []answer{limited, limited, limited, ok}, 3, 429, `{}`, false, 0, 4 * time.Second, 6 * time.Second},
		{"as long as MaxDelay", llmhttp.Retry{Max: 1}, []answer{{status: 429, body: `{}`, headers: []string{"Retry-After: 60"}}, ok}, 2, 200, ok.body, false, 0, time.Minute, 75 * time.Second},
		{"no longer", llmhttp.Retry{Max: 1}, []answer{{status: 429, body: `{}`, headers: []string{"Retry-After: 61"}}, ok}, 1, 429, `{}`, false, 0, 0, 0},
		{"after a 500", llmhttp.Retry{Max: 2}, []answer{{status: 500, body: "oops"}, ok}, 2, 200, ok.body, false, 0, 500 * time.Millisecond, time.Second},
		{"after a 529", llmhttp.Retry{Max: 2}, []answer{{status: 529, body: "{}"}, ok}, 2, 200, ok.body, false, 0, time.Second, 2 * time.Second},
		{"after a connection that broke", llmhttp.Retry{Max: 2}, []answer{{err: broke}, ok}, 2, 200, ok.body, false, 0, 500 * time.Millisecond, time.Second},
		{"the last error is passed on", llmhttp.Retry{Max: 1}, []answer{{err: broke}, {err: broke}, ok}, 2, 0, ``, false, 0, 500 * time.Millisecond, time.Second},
		{"not when money is gone", llmhttp.Retry{Max: 2}, []answer{{status: 429, body: money}, ok}, 1, 429, money, false, 0, 0, 0},
		{"not after a 400", llmhttp.Retry{Max: 2}, []answer{{status: 400, body: "bad"}, ok}, 1, 400, "bad", false, 0, 0, 0},
		{"not when the provider wants more time than MaxDelay", llmhttp.Retry{Max: 2, MaxDelay: time.Second}, []answer{limited, ok}, 1, 429, `{}`, false, 0, 0, 0},
		{"not when the context ends before", llmhttp.Retry{Max: 2}, []answer{limited, ok}, 1, 429, `{}`, false, time.Second, 0, 0},
		{"not a body that is gone", llmhttp.Retry{Max: 2}, []answer{limited, ok}, 1, 429, `{}`, true, 0, 0, 0},
		{"a long refusal is passed on whole", llmhttp.Retry{Max: 1}, []answer{{status: 400, body: strings.Repeat("x", 200_000)}}, 1, 400, strings.Repeat("x", 200_000), false, 0, 0, 0},
		{"also when it was looked at", llmhttp.Retry{Max: 1}, []answer{{status: 500, body: strings.Repeat("x", 200_000)}}, 1, 500, strings.Repeat("x", 200_000), false, 100 * time.Millisecond, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 1_000_000})
				var events []llmhttp.EventKind
				var waited time.Duration
				calls := 0
				limit := int64(0)
				if test.noReplay {
					limit = 10
				}
				tr := &llmhttp.Transport{Limiter: rl, Retry: test.retry, MaxBody: limit,
					OnEvent: func(e llmhttp.Event) {
						events = append(events, e.Kind)
						waited += e.Wait
					},
					Base: base(func(req *http.Request) (*http.Response, error) {
						body, _ := io.ReadAll(req.Body)
						req.Body.Close()
						if string(body) != `{"model":"m"}` {
							t.Errorf("call %d sent %q", calls, body)
						}
						a := test.answers[calls]
						calls++
						if a.err != nil {
							return nil, a.err
						}
						return response(req, a.status, a.body, a.headers...), nil
					})}
				if test.noReplay {
					tr.MaxBody, tr.Model = 5, func(*llmhttp.Call) string { return "m" }
				}
				ctx, cancel := context.WithCancel(t.Context())
				if test.timeout > 0 {
					ctx, cancel = context.WithTimeout(ctx, test.timeout)
				}
				defer cancel()
				body := io.Reader(strings.NewReader(`{"model":"m"}`))
				if test.noReplay {
					body = io.MultiReader(body)
				}
				req, _ := http.NewRequestWithContext(ctx, "POST", chatURL, body)
				began := time.Now()
				resp, err := tr.RoundTrip(req)
				took := time.Since(began)
				if test.status == 0 {
					if !errors.Is(err, broke) {
						t.Errorf("error: %v", err)
					}
				} else if err != nil {
					t.Fatal(err)
				} else if got := readAll(t, resp); resp.StatusCode != test.status || got != test.body {
					t.Errorf("answered %d with %d bytes, want %d with %d", resp.StatusCode, len(got), test.status, len(test.body))
				}
				if calls != test.calls {
					t.Errorf("%d calls, want %d", calls, test.calls)
				}
				if took < test.least || took > max(test.most, time.Millisecond) {
					t.Errorf("it took %v, want %v to %v", took, test.least, test.most)
				}
				if waited != took {
					t.Errorf("the events tell that it waited %v of %v", waited, took)
				}
				s := rl.Stats("m")
				if s.RPD != test.calls || s.InFlight != 0 {
					t.Errorf("charged %+v", s)
				}
				if events[len(events)-1] != llmhttp.EventSettled {
					t.Errorf("events: %v", events)
				}
			})
		})
	}
}

// A try does not wait for the slot of the try before, however long the answer to that is.
func TestRetryWithOneSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxInFlight: 1})
		calls := 0
		tr := &llmhttp.Transport{Limiter: rl, Retry: llmhttp.Retry{Max: 1}, Base: base(func(req *http.Request) (*http.Response, error) {
			if calls++; calls == 1 {
				return response(req, 500, strings.Repeat("x", 1<<20)), nil
			}
			return response(req, 200, `{}`), nil
		})}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, "POST", chatURL, strings.NewReader(`{"model":"m"}`))
		resp, err := tr.RoundTrip(req)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("got %v, %v", resp, err)
		}
		readAll(t, resp)
	})
}

// A failed try leaves nothing behind that hinders the next one.
func TestRetryOfOddAnswers(t *testing.T) {
	const ok = `{"usage":{"prompt_tokens":1,"completion_tokens":1}}`
	for _, test := range []struct {
		name  string
		quota ratelimit.ModelQuota
		first func(*http.Request) *http.Response
		calls int
	}{
		{"a long answer does not keep the only slot", ratelimit.ModelQuota{MaxInFlight: 1}, func(req *http.Request) *http.Response {
			return response(req, 500, strings.Repeat("x", 100<<10))
		}, 2},
		{"an answer without a body", ratelimit.ModelQuota{MaxInFlight: 1}, func(req *http.Request) *http.Response {
			resp := response(req, 500, "")
			resp.Body = nil
			return resp
		}, 2},
		{"a minute is not more than a minute", ratelimit.ModelQuota{}, func(req *http.Request) *http.Response {
			return response(req, 429, "{}", "Retry-After: 60")
		}, 2},
		{"the provider says not to try again", ratelimit.ModelQuota{}, func(req *http.Request) *http.Response {
			return response(req, 500, "{}", "X-Should-Retry: false")
		}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiter(t, test.quota)
				calls := 0
				tr := &llmhttp.Transport{Limiter: rl, Retry: llmhttp.Retry{Max: 1}, Base: base(func(req *http.Request) (*http.Response, error) {
					io.Copy(io.Discard, req.Body)
					if calls++; calls == 1 {
						return test.first(req), nil
					}
					return response(req, 200, ok), nil
				})}
				defer func() {
					if r := recover(); r != nil {
						t.Errorf("panic: %v", r)
					}
				}()
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				req, _ := http.NewRequestWithContext(ctx, "POST", chatURL, strings.NewReader(`{"model":"m"}`))
				resp, err := tr.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				readAll(t, resp)
				if calls != test.calls {
					t.Errorf("%d calls, want %d; the last was answered %d", calls, test.calls, resp.StatusCode)
				}
			})
		})
	}
}
