package batch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
	"dappco.re/go/core/go-ratelimit/money"
)

// call is a line in progress.
type call struct {
	line   line
	size   *size
	order  int          // among the lines that this run has taken
	most   money.Amount // that it can cost, as far as its request tells
	billed atomic.Int64 // what it has cost, in micro-dollars
	tries  int

	isWaiting, flies bool // for its room

	mu      sync.Mutex
	isOff   bool                    // the present try is not to be sent any more
	sent    bool                    // the present try has its place in the quota
	cancel  context.CancelCauseFunc // ends the present try; nil between two
	timeout *time.Timer             // of the present try, since it was sent
}

func (c *call) cost() money.Amount { return money.Amount(c.billed.Load()) }

type callKey struct{}

func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// Costs is to be among the Events of the limiter: it learns what calls cost.
type Costs struct{}

// HandleEvent adds the cost of a call that was settled.
func (Costs) HandleEvent(ctx context.Context, e *ratelimit.Event) {
	if e.Kind != ratelimit.EventSettled {
		return
	}
	if c := callOf(ctx); c != nil {
		c.billed.Add(int64(e.Cost))
	}
}

// outcome is what has become of a line.
type outcome struct {
	call    *call
	text    []byte   // the line of OUT; nil for a line that failed or is left
	failure *failure // nil for a line that is done or left
}

// failure is why a line failed, as the file of errors tells it.
type failure struct {
	Code     string          `json:"code"` // such as http_400, never_fits or bad_line
	Message  string          `json:"message"`
	Status   int             `json:"status_code,omitempty"`
	Body     json.RawMessage `json:"body,omitempty"` // of the answer, or a string with its beginning
	Attempts int             `json:"attempts,omitempty"`
	Line     int             `json:"line"`

	again   bool          // another try may succeed,
	pause   time.Duration // after this time, if it is the second one; zero for firstPause
	delay   time.Duration // that the provider wants before it
	isEmpty bool          // the credit or the plan is used up: no call will succeed
	left    bool          // the try was not sent because the batch ends
}

// The codes of failures that are not of a status.
const (
	codeBadLine   = "bad_line"
	codeNeverFits = "never_fits"
	codeUncounted = "uncounted"
	codeUnpriced  = "unpriced"
	codeNoAnswer  = "no_answer"
	codeTimeout   = "timeout"
	codeRefused   = "refused"
)

// errTimeout is why a try was cut that took too long.
var errTimeout = errors.New("no answer in time")

// errLeft is why a try was not sent.
var errLeft = errors.New("the batch ends")

const (
	maxAnswer    = 30 << 20 // bytes of an answer
	maxErrorBody = 4 << 10  // bytes of one that the file of errors has
	maxBackoff   = time.Minute

	firstPause = time.Second / 2
	// A quota of a minute that refuses without saying for how long has room before the fifth try.
	limitedPause = 4 * time.Second
)

// do sends a call until it is done, or fails for good, or the batch ends. The context ends it at
// once; that of the batch lets a try that was sent come to its end.
func (b *Batch) do(ctx, soft context.Context, c *call) *outcome {
	for {
		c.tries++
		out, f := b.try(ctx, soft, c)
		switch {
		case f == nil:
			return out
		case f.left:
			return &outcome{call: c}
		case f.again && c.tries < b.s.MaxAttempts:
			b.count.retries.Add(1)
			if sleep(soft, max(backoff(c.tries, cmp.Or(f.pause, firstPause)), f.delay)) != nil {
				return &outcome{call: c}
			}
			continue
		}
		f.Line, f.Attempts = c.line.number, c.tries
		return &outcome{call: c, failure: f}
	}
}

// backoff is the time before another try: the first pause, twice that, four times that, with up to
// a quarter more.
func backoff(tries int, first time.Duration) time.Duration {
	d := min(first<<min(tries-1, 10), maxBackoff)
	return d + rand.N(d/4+1)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// try sends a call once.
func (b *Batch) try(ctx, soft context.Context, c *call) (*outcome, *failure) {
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, callKey{}, c))
	defer cancel(nil)
	if b.s.Class != "" {
		ctx = ratelimit.WithClass(ctx, b.s.Class)
	}
	c.mu.Lock()
	c.isOff, c.sent, c.cancel = false, false, cancel
	c.mu.Unlock()
	defer context.AfterFunc(soft, c.leave)()
	defer c.ended(b)
	req, err := b.request(ctx, &c.line)
	if err != nil {
		return nil, &failure{Code: codeBadLine, Message: "url is no path"}
	}
	resp, err := b.transport.RoundTrip(req)
	if err != nil {
		return nil, b.failed(ctx, err)
	}
	defer resp.Body.Close()
	problem := llmhttp.Classify(resp)
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil && problem == nil {
		return nil, b.failed(ctx, err)
	}
	body = b.key.hide(body)
	if problem != nil || resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, b.refused(resp, problem, body)
	}
	text, ok := b.result(c, resp, body)
	if !ok {
		return nil, &failure{Code: codeNoAnswer, Message: "the answer is no JSON, or too large", Status: resp.StatusCode, Body: errorBody(body)}
	}
	return &outcome{call: c, text: text}, nil
}

// leave ends a try that has no place in the quota yet.
func (c *call) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.sent && c.cancel != nil {
		c.isOff = true
		c.cancel(errLeft)
	}
}

// admitted notes that the present try has its place in the quota. From now on its time runs.
func (c *call) admitted(b *Batch) {
	c.mu.Lock()
	if !c.isOff {
		c.sent = true
		cancel := c.cancel
		c.timeout = time.AfterFunc(b.s.Timeout, func() { cancel(errTimeout) })
	}
	c.mu.Unlock()
	b.room.fly(c, true)
}

// ended notes the end of a try.
func (c *call) ended(b *Batch) {
	c.mu.Lock()
	if c.timeout != nil {
		c.timeout.Stop()
		c.timeout = nil
	}
	c.cancel = nil
	c.mu.Unlock()
	b.room.fly(c, false)
}

// handle is the OnEvent of the Transport.
func (b *Batch) handle(e llmhttp.Event) {
	c := callOf(e.Context)
	if c == nil {
		return
	}
	switch e.Kind {
	case llmhttp.EventAdmitted:
		c.admitted(b)
	case llmhttp.EventSettled:
		if e.Source == llmhttp.SourceReported {
			b.count.prompt.Add(int64(e.Reported.Prompt + e.Reported.CacheRead*isBeside(e.Adapter) + e.Reported.CacheWrite*isBeside(e.Adapter)))
			b.count.output.Add(int64(e.Reported.Output + e.Reported.Thoughts))
		} else {
			b.count.prompt.Add(int64(e.Settled.PromptTokens))
			b.count.output.Add(int64(e.Settled.OutputTokens))
		}
	}
}

// isBeside is 1 for an adapter whose answers report the cached tokens beside the others.
func isBeside(adapter string) int {
	if adapter == "anthropic" {
		return 1
	}
	return 0
}

// failed returns the failure of a try without an answer.
func (b *Batch) failed(ctx context.Context, err error) *failure {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errLeft):
		return &failure{left: true}
	case errors.Is(cause, errTimeout):
		return &failure{Code: codeTimeout, Message: fmt.Sprintf("no answer within %v", b.s.Timeout), again: true}
	case cause != nil:
		return &failure{left: true}
	}
	message := string(b.key.hide([]byte(err.Error())))
	if limit := (*ratelimit.LimitError)(nil); errors.As(err, &limit) {
		code := codeRefused
		if errors.Is(err, ratelimit.ErrNeverFits) {
			code = codeNeverFits
		}
		return &failure{Code: code, Message: message, again: errors.Is(err, ratelimit.ErrQueueFull)}
	}
	if uncounted := (*llmhttp.UncountedError)(nil); errors.As(err, &uncounted) {
		return &failure{Code: codeUncounted, Message: message}
	}
	return &failure{Code: codeNoAnswer, Message: message, again: true}
}

// refused returns the failure that an answer is.
func (b *Batch) refused(resp *http.Response, p *llmhttp.Problem, body []byte) *failure {
	f := &failure{
		Code: fmt.Sprintf("http_%d", resp.StatusCode), Message: fmt.Sprintf("the answer has status %d", resp.StatusCode),
		Status: resp.StatusCode, Body: errorBody(body),
	}
	if p == nil {
		return f
	}
	f.Message = string(b.key.hide([]byte(p.Error())))
	f.isEmpty = p.Kind == llmhttp.Exhausted
	switch p.Kind {
	case llmhttp.RateLimited, llmhttp.DailyQuota, llmhttp.Overloaded, llmhttp.Failed:
		f.again = resp.Header.Get("X-Should-Retry") != "false"
	case llmhttp.Rejected:
		f.again = resp.StatusCode == http.StatusRequestTimeout
	}
	if f.delay = p.RetryAfter; p.Kind == llmhttp.RateLimited && f.delay == 0 {
		f.pause = limitedPause
	}
	return f
}
