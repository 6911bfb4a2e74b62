// What Config.Events of the limiter is told of the calls of a Transport.

package llmhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// listener is a handler of the limiter's events that keeps them.
type listener struct {
	mu    sync.Mutex
	heard []heard
}

// heard is an event that is kept.
type heard struct {
	ratelimit.Event
	ctx context.Context
}

func (l *listener) HandleEvent(ctx context.Context, e *ratelimit.Event) {
	kept := heard{*e, ctx}
	if e.Decision != nil {
		d := *e.Decision
		kept.Decision = &d
	}
	if e.Quota != nil {
		q := *e.Quota
		kept.Quota = &q
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, kept)
}

// take returns what was heard so far, and forgets it.
func (l *listener) take() []heard {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.heard
	l.heard = nil
	return taken
}

// tell writes all that it was told, but for the contexts, which are the caller's.
func (l *listener) tell(to io.Writer) (events int) {
	for _, e := range l.take() {
		fmt.Fprintf(to, "%+v %#v %v %+v\n", e.Event, e.Event, e.Err, e.Decision)
		events++
	}
	return events
}

// open returns how many reservations were admitted and have not ended.
func open(events []heard) (n int) {
	for _, e := range events {
		switch e.Kind {
		case ratelimit.EventAdmitted:
			n++
		case ratelimit.EventSettled, ratelimit.EventReleased, ratelimit.EventExpired:
			n--
		}
	}
	return n
}

// flow is one call and what the limiter's events say of it.
type flow struct {
	name      string
	quota     ratelimit.ModelQuota // of the model "m"
	transport llmhttp.Transport
	base      base                             // nil answers with a usage
	occupied  bool                             // the model's room is taken for ten seconds
	deadline  time.Duration                    // of the request; negative for one that was cancelled before
	charges   []ratelimit.Request              // see WithCharge
	read      func(*http.Response, func())     // nil reads and closes the body; func() cancels the request
	config    ratelimit.Config                 // Quotas and Events are added
	during    func(cancel func())              // runs a second after the beginning
	want      string                           // the kinds of the limiter's events, in their order
	own       string                           // those of OnEvent
	err       func(e *heard, own error) string // what is wrong with EventRefused
}

const someUsage = `{"usage":{"prompt_tokens":5,"completion_tokens":6}}`

// answers returns a base that answers one request after the other; 0 breaks after the request was
// sent, -1 before.
func answers(statuses ...int) base {
	return func(req *http.Request) (*http.Response, error) {
		status := statuses[0]
		statuses = statuses[1:]
		if status == -1 {
			return nil, errors.New("broken")
		}
		io.Copy(io.Discard, req.Body)
		if status == 0 {
			return nil, errors.New("broken")
		}
		return response(req, status, someUsage), nil
	}
}

// streaming answers with a body that does not end before it is closed or the request has ended.
func streaming(req *http.Request) (*http.Response, error) {
	io.Copy(io.Discard, req.Body)
	resp := response(req, 200, "", "Content-Type: text/event-stream")
	r, w := io.Pipe()
	context.AfterFunc(req.Context(), func() { w.CloseWithError(req.Context().Err()) })
	go io.WriteString(w, sse(`{"choices":[{"delta":{"content":"hello"}}]}`))
	resp.Body, resp.ContentLength = r, -1
	return resp, nil
}

func panicking(*http.Request) (*http.Response, error) { panic("of Base") }

// flows returns all ways of a call.
func flows() []*flow {
	return []*flow{
		{name: "answered", want: "admitted settled", own: "admitted answered settled"},
		{name: "answered without a body", base: func(req *http.Request) (*http.Response, error) {
			io.Copy(io.Discard, req.Body)
			resp := response(req, 200, "")
			resp.Body = nil
			return resp, nil
		}, want: "admitted settled", own: "admitted answered settled"},
		{name: "read on another goroutine", read: func(resp *http.Response, _ func()) {
			var wg sync.WaitGroup
			wg.Go(func() { io.ReadAll(resp.Body) })
			wg.Wait()
			resp.Body.Close()
		}, want: "admitted settled", own: "admitted answered settled"},
		{name: "never read", read: func(*http.Response, func()) { time.Sleep(time.Hour) }, want: "admitted settled", own: "admitted answered settled"},
		{name: "a stream that is closed early", base: streaming, read: func(resp *http.Response, _ func()) {
			resp.Body.Read(make([]byte, 10))
			resp.Body.Close()
		}, want: "admitted settled", own: "admitted answered settled"},
		{name: "a stream whose request is cancelled", base: streaming, read: func(resp *http.Response, cancel func()) {
			resp.Body.Read(make([]byte, 10))
			cancel()
			synctest.Wait() // it is settled on a goroutine of its own
		}, want: "admitted settled", own: "admitted answered settled"},
		{name: "cut to the quota", quota: ratelimit.ModelQuota{MaxTPM: 8}, want: "admitted settled", own: "admitted answered settled"},
		{name: "bad request", base: answers(400), want: "admitted settled", own: "admitted answered problem settled"},
		{name: "bad key", base: answers(401), want: "admitted settled", own: "admitted answered problem settled"},
		{name: "the provider fails", base: answers(500), want: "admitted settled", own: "admitted answered problem settled"},
		{name: "the provider refuses", base: answers(429), want: "admitted provider_refused settled", own: "admitted answered problem settled"},
		{
			name: "sent again", base: answers(503, 200), transport: llmhttp.Transport{Retry: llmhttp.Retry{Max: 1}},
			want: "admitted provider_refused settled queued admitted settled", own: "admitted answered problem settled retry admitted answered settled",
		},
		{
			name: "sent again after a failure", base: answers(0, -1, 200), transport: llmhttp.Transport{Retry: llmhttp.Retry{Max: 2}},
			want: "admitted settled admitted released admitted settled", own: "admitted settled retry admitted settled retry admitted answered settled",
		},
		{name: "never sent", base: answers(-1), want: "admitted released", own: "admitted settled"},
		{name: "the connection breaks", base: answers(0), want: "admitted settled", own: "admitted settled"},
		{name: "Base panics", base: panicking, want: "admitted settled", own: "admitted settled"},
		{
			name: "charged beside", charges: []ratelimit.Request{{Model: "team"}, {Model: "budget", PromptTokens: 3}},
			want: "admitted admitted admitted settled settled settled", own: "admitted answered settled",
		},
		{
			name: "charged beside, never sent", base: answers(-1), charges: []ratelimit.Request{{Model: "team"}},
			want: "admitted admitted released released", own: "admitted settled",
		},
		{name: "after a wait", occupied: true, want: "queued admitted settled", own: "admitted answered settled"},
		{
			name: "after a wait within MaxWait", occupied: true, transport: llmhttp.Transport{MaxWait: time.Minute},
			want: "queued admitted settled", own: "admitted answered settled",
		},
		{
			name: "charged beside after a wait", occupied: true, charges: []ratelimit.Request{{Model: "team"}},
			want: "queued admitted admitted settled settled", own: "admitted answered settled",
		},
		{name: "cancelled before", deadline: -1, want: "refused", own: "refused", err: sameText},
		{name: "cancelled before, charged beside", deadline: -1, charges: []ratelimit.Request{{Model: "team"}}, want: "refused", own: "refused", err: sameText},
		{name: "cancelled in line", occupied: true, during: func(cancel func()) { cancel() }, want: "queued refused", own: "refused", err: sameText},
		{name: "its deadline passes in line", occupied: true, deadline: 5 * time.Second, want: "queued refused", own: "refused", err: sameText},
		{
			name: "MaxWait passes in line", occupied: true, transport: llmhttp.Transport{MaxWait: 5 * time.Second},
			want: "queued refused", own: "refused", err: isMaxWait,
		},
		{
			name: "MaxWait is known to be too short", quota: ratelimit.ModelQuota{MaxRPM: 1}, transport: llmhttp.Transport{MaxWait: time.Second},
			want: "refused", own: "refused", err: isLimit,
		},
		{
			name: "never fits", quota: ratelimit.ModelQuota{MaxTPM: 10}, transport: llmhttp.Transport{Estimate: func(*llmhttp.Call) (int, int) { return 20, 0 }},
			want: "refused", own: "refused", err: isLimit,
		},
		{
			name: "the budget never fits", charges: []ratelimit.Request{{Model: "budget", PromptTokens: 5000}},
			want: "refused", own: "refused", err: isLimit,
		},
		{name: "the queue is full", occupied: true, config: ratelimit.Config{MaxQueue: 1}, want: "refused", own: "refused", err: isLimit},
		{
			name: "negative tokens", transport: llmhttp.Transport{Estimate: func(*llmhttp.Call) (int, int) { return -1, 0 }},
			want: "refused", own: "refused",
		},
	}
}

func sameText(e *heard, own error) string {
	if e.Err == nil || !strings.HasSuffix(own.Error(), e.Err.Error()) {
		return "another error than " + own.Error()
	}
	return ""
}

func isMaxWait(e *heard, own error) string {
	if !errors.Is(e.Err, ratelimit.ErrMaxWait) || !errors.Is(own, ratelimit.ErrMaxWait) {
		return "no ErrMaxWait, or not in " + own.Error()
	}
	return ""
}

func isLimit(e *heard, own error) string {
	var limit, ownLimit *ratelimit.LimitError
	if !errors.As(e.Err, &limit) || !errors.As(own, &ownLimit) || limit.Model != ownLimit.Model || limit.Decision != ownLimit.Decision {
		return "another refusal than " + own.Error()
	}
	if e.Decision == nil || *e.Decision != limit.Decision {
		return "another decision than in its error"
	}
	return ""
}

// The events of a call have the ID of OnEvent and the request's context, also when its body was
// read elsewhere or its wait was bounded. Nothing is open when it is over, and what is not sent is
// refused once.
func TestLimiterEvents(t *testing.T) {
	for _, f := range flows() {
		t.Run(f.name, func(t *testing.T) { synctest.Test(t, f.test) })
	}
}

func (f *flow) test(t *testing.T) {
	var l listener
	f.config.Events = &l
	quota := f.quota
	if f.occupied {
		quota.MaxInFlight = 1
	}
	f.config.Quotas = map[string]ratelimit.ModelQuota{"m": quota, "budget": {MaxTPM: 1000}}
	rl := newLimiterWith(t, f.config)
	defer rl.Close()
	leave := f.occupy(t, rl)
	before := l.take()

	var own []llmhttp.Event
	var mu sync.Mutex
	tr := &f.transport
	tr.Limiter, tr.RefuseWithError, tr.Base = rl, true, f.base
	if f.base == nil {
		tr.Base = reply(200, someUsage)
	}
	tr.OnEvent = func(e llmhttp.Event) {
		mu.Lock()
		defer mu.Unlock()
		own = append(own, e)
	}
	ctx := context.WithValue(llmhttp.WithCharge(t.Context(), f.charges...), userKey{}, f.name)
	f.call(ctx, tr)
	leave()
	time.Sleep(time.Hour) // in which a body that nobody reads is given up
	synctest.Wait()

	events := l.take()
	if n := open(before) + open(events); n != 0 || rl.Stats("m").InFlight != 0 {
		t.Errorf("%d are open, the limiter has %+v", n, rl.Stats("m"))
	}
	f.check(t, before, events, own)
}

// occupy takes the room of the model as the flow asks, and returns a function to be called when
// the call is over.
func (f *flow) occupy(t *testing.T, rl *ratelimit.RateLimiter) (leave func()) {
	leave = func() {}
	if f.quota.MaxRPM > 0 {
		rl.RecordUsage("m", 1, 1)
	}
	if !f.occupied {
		return leave
	}
	held, _ := rl.Reserve("m", 1, 1)
	time.AfterFunc(10*time.Second, held.Cancel)
	if f.config.MaxQueue > 0 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			rl.Acquire(ctx, "m", 1, 1)
		}()
		synctest.Wait()
		leave = func() { cancel(); <-done }
	}
	return leave
}

// call makes the call and reads its answer.
func (f *flow) call(ctx context.Context, tr *llmhttp.Transport) {
	defer func() { recover() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	switch {
	case f.deadline < 0:
		cancel()
	case f.deadline > 0:
		var stop func()
		ctx, stop = context.WithTimeout(ctx, f.deadline)
		defer stop()
	}
	if f.during != nil {
		time.AfterFunc(time.Second, func() { f.during(cancel) })
	}
	req, _ := http.NewRequestWithContext(ctx, "POST", chatURL, strings.NewReader(`{"model":"m","max_tokens":50}`))
	resp, err := tr.RoundTrip(req)
	switch {
	case err != nil:
	case f.read != nil:
		f.read(resp, cancel)
	default:
		if resp.Body != nil {
			io.ReadAll(resp.Body)
			resp.Body.Close()
		}
	}
}

// check compares the events of the call with what is wanted.
func (f *flow) check(t *testing.T, before, events []heard, own []llmhttp.Event) {
	t.Helper()
	others := map[uint64]bool{0: true} // of what occupied the model
	for _, e := range before {
		others[e.ID] = true
	}
	var kinds, ownKinds []string
	for _, e := range own {
		ownKinds = append(ownKinds, string(e.Kind))
	}
	for i := range events {
		e := &events[i]
		if others[e.ID] {
			continue
		}
		kinds = append(kinds, string(e.Kind))
		if e.ID != own[0].ID || e.ctx != own[0].Context || e.ctx.Value(userKey{}) != f.name {
			t.Errorf("%s: ID %d, want %d; its context is the request's: %t", e.Kind, e.ID, own[0].ID, e.ctx == own[0].Context)
		}
		if e.Kind == ratelimit.EventRefused && f.err != nil {
			if wrong := f.err(e, own[len(own)-1].Err); wrong != "" {
				t.Errorf("refused: %v, %+v: %s", e.Err, e.Decision, wrong)
			}
		}
	}
	if got := strings.Join(kinds, " "); got != f.want {
		t.Errorf("the limiter told %q, want %q", got, f.want)
	}
	if got := strings.Join(ownKinds, " "); got != f.own {
		t.Errorf("OnEvent told %q, want %q", got, f.own)
	}
}
