package instruments

import (
	"context"
	"errors"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// The values of Result. Passed is that of TimeInQueue alone.
const (
	Admitted = "admitted"
	Passed   = "passed"
	Refused  = "refused"
	// Canceled is of callers that went away, DeadlineExceeded of those whose time ended in line.
	Canceled         = "canceled"
	DeadlineExceeded = "deadline_exceeded"
	NeverFits        = "never_fits"
	QueueFull        = "queue_full"
)

// OtherError stands for a Problem that is none of ratelimit's, as the semantic conventions of
// error.type have it.
const OtherError = "_OTHER"

// Measurements is what one event adds to the counters and histograms. What a kind of event does not
// touch is zero.
type Measurements struct {
	// Request tells of ratelimit.requests: one more with Code and Result. The Code is empty for a
	// call that was refused before anything was decided.
	Request bool
	// Queued tells of ratelimit.request.time_in_queue: InQueue seconds with Result.
	Queued  bool
	Code    string
	Result  string
	InQueue float64
	// Class is that of the request, for these two and for Spent: one of Config.Classes, or empty.
	Class string
	// Pool is the one that made the request wait or refused it; empty for none. It tells of
	// ratelimit.pool.denials: one more with Code and Result.
	Pool string

	// Ended tells of ratelimit.lease.duration: Lease seconds.
	Ended bool
	Lease float64

	// Reserved, Settled and Returned are added to ratelimit.tokens.
	Reserved, Settled, Returned ratelimit.Usage

	// Spent is added to ratelimit.spend, in dollars.
	Spent float64

	// Compared tells of ratelimit.estimate.ratio: Ratio.
	Compared bool
	Ratio    float64

	// Rejected tells of ratelimit.provider.rejections: one more with Status and ErrorType. A Status
	// of zero is not known.
	Rejected  bool
	Status    int
	ErrorType string

	// Written tells of ratelimit.store.duration: Took seconds with System and Operation.
	Written           bool
	Took              float64
	System, Operation string
}

// Read overwrites m by the measurements of an event. It does not allocate. Texts of errors and
// reasons never get into m: all of its words but System, Class and Pool are of fixed sets, and the
// configuration says which of these there are.
func Read(e *ratelimit.Event, m *Measurements) {
	*m = Measurements{}
	switch e.Kind {
	case ratelimit.EventAdmitted:
		m.Code = string(ratelimit.DecisionAllowed)
		m.request(e, Admitted)
		m.Reserved = positive(e.Estimated)
	case ratelimit.EventRefused:
		if e.Operation != "" { // a wait that asked for no reservation
			m.Result = refusal(e)
			m.queue(e)
			break
		}
		m.request(e, refusal(e))
	case ratelimit.EventPassed:
		m.Result = Passed
		m.queue(e)
	case ratelimit.EventSettled:
		m.end(e)
		m.compare(e)
	case ratelimit.EventReleased, ratelimit.EventExpired:
		m.end(e)
	case ratelimit.EventRecorded:
		m.Settled = positive(e.Settled)
		m.Spent = max(e.Cost, 0).Dollars()
	case ratelimit.EventProviderRefused:
		m.Rejected, m.Status, m.ErrorType = true, status(e.Status), problem(e.Problem)
	case ratelimit.EventSaved:
		m.Written, m.Took, m.System, m.Operation = true, seconds(e.Took), short(e.System), e.Operation
	}
}

// IsStray reports whether an event is of a model that the limiter did not take up. Callers can
// invent any number of such names, which must not take the place of models that are used.
func IsStray(e *ratelimit.Event) bool {
	return e.Kind == ratelimit.EventUncounted || e.Kind == ratelimit.EventRefused && e.Decision != nil &&
		(e.Decision.Code == ratelimit.DecisionUnknownModel || e.Decision.Code == ratelimit.DecisionTooManyModels)
}

func (m *Measurements) request(e *ratelimit.Event, result string) {
	m.Request, m.Result, m.Class = true, result, short(e.Class)
	if e.Decision != nil {
		m.Code, m.Pool = string(e.Decision.Code), short(e.Decision.Pool)
	}
	m.queue(e)
}

// queue tells the wait of a request that stood in line. ASP.NET Core's metric, too, leaves out
// those that did not.
func (m *Measurements) queue(e *ratelimit.Event) {
	if e.Wait > 0 {
		m.Queued, m.InQueue, m.Class = true, seconds(e.Wait), short(e.Class)
	}
}

func (m *Measurements) end(e *ratelimit.Event) {
	m.Ended, m.Lease = true, seconds(e.Held)
	m.Settled = positive(e.Settled)
	if e.Cost > 0 {
		m.Spent, m.Class = e.Cost.Dollars(), short(e.Class)
	}
	m.Returned = positive(ratelimit.Usage{
		PromptTokens: e.Estimated.PromptTokens - e.Settled.PromptTokens,
		OutputTokens: e.Estimated.OutputTokens - e.Settled.OutputTokens,
	})
}

// compare leaves out calls that used nothing: they failed, and tell nothing of the estimate.
func (m *Measurements) compare(e *ratelimit.Event) {
	if m.Settled == (ratelimit.Usage{}) {
		return
	}
	estimated := float64(e.Estimated.PromptTokens) + float64(e.Estimated.OutputTokens)
	if estimated > 0 {
		m.Compared = true
		m.Ratio = (float64(m.Settled.PromptTokens) + float64(m.Settled.OutputTokens)) / estimated
	}
}

// refusal returns the result of an EventRefused.
func refusal(e *ratelimit.Event) string {
	switch {
	case e.Err == nil && e.Decision != nil && e.Decision.Never, errors.Is(e.Err, ratelimit.ErrNeverFits):
		return NeverFits
	case errors.Is(e.Err, ratelimit.ErrQueueFull):
		return QueueFull
	case errors.Is(e.Err, context.Canceled):
		return Canceled
	case errors.Is(e.Err, context.DeadlineExceeded):
		// A LimitError refuses before the deadline, which it unwraps to.
		if _, early := errors.AsType[*ratelimit.LimitError](e.Err); !early {
			return DeadlineExceeded
		}
	}
	return Refused
}

// status returns an HTTP status, and zero for a number that is none.
func status(code int) int {
	if code < 100 || code > 599 {
		return 0
	}
	return code
}

func problem(p string) string {
	switch p {
	case "rate_limited", "daily_quota", "exhausted", "overloaded":
		return p
	}
	return OtherError
}

// positive returns u without what is negative, which a counter cannot take.
func positive(u ratelimit.Usage) ratelimit.Usage {
	return ratelimit.Usage{PromptTokens: max(u.PromptTokens, 0), OutputTokens: max(u.OutputTokens, 0)}
}

func seconds(d time.Duration) float64 { return max(d, 0).Seconds() }
